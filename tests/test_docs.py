"""The pages of docs/ and README.md: their links, flags and Python, and runs of the pages on small data."""

import contextlib
import importlib
import json
import re
import shutil

import pytest
from absl import flags
from absl.testing import flagsaver
from documentation import Page, check_printed, flags_of, script_commands, write_reader_files, write_released
from in_process import loaded
from script_process import arguments_of
from script_session import REPOSITORY, ScriptSession

PATHS = [*(REPOSITORY / name for name in ("README.md", "SECURITY.md", "studies/README.md")),
         *sorted((REPOSITORY / "docs").glob("*.md"))]
MARKDOWN = [*PATHS, *(REPOSITORY / name for name in ("CONTRIBUTING.md", "CHANGELOG.md")),
            *sorted((REPOSITORY / "albert_tf/models").glob("*/README.md"))]
PAGES = {str(path.relative_to(REPOSITORY)): Page(path) for path in PATHS}
# The pages whose commands are run, by the mark of the test.
RUN = {"README.md": (), "docs/languages.md": (), "docs/keras.md": (pytest.mark.long, pytest.mark.both_stacks),
       "docs/first_hour.md": pytest.mark.long, "docs/from_hugging_face_and_keras_hub.md": pytest.mark.long,
       "docs/weights.md": pytest.mark.long}
RUN_SLOWLY = ["docs/from_the_release.md", "docs/pretraining.md", "docs/fine_tuning.md", "docs/serving.md",
              "docs/sentence_vectors.md"]
every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@pytest.fixture
def folder(tmp_path, golden, monkeypatch):
    """The reader's folder, with the models that a reader downloads."""
    write_reader_files(tmp_path, golden)
    write_released(tmp_path / "albert_base_v2", golden / "tiny_spm/tiny.model", "30k-clean.model")
    write_released(tmp_path / "albert_base_zh", golden / "wordpiece/vocab.txt", "vocab_chinese.txt")
    shutil.copytree(golden / "sentence_transformers/mean_normalized", tmp_path / "all-MiniLM-L6-v2")
    shutil.copy(golden / "wordpiece/vocab.txt", tmp_path / "all-MiniLM-L6-v2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@every_page
def test_links_and_named_paths_exist(page):
    assert page.broken_links() == []


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_headings_stand_at_the_start_of_a_line(path):
    assert Page(path).headings_within_lines() == []


def test_the_map_of_the_releases_modules_names_ours_as_they_are():
    section = PAGES["docs/from_the_release.md"].text.partition("\n## Modules\n")[2].partition("\n## ")[0]
    ours = set(re.findall(r"`(albert_tf[\w.]*)`", section))
    assert len(ours) > 20
    for name in ours:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            package, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(package), attribute), name


def test_the_trainers_options_have_the_named_flags():
    section = PAGES["docs/from_hugging_face_and_keras_hub.md"].text.partition("\n## Trainer\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`--(\w+)", section))
    found = set()
    for script in ("run_classifier", "run_squad"):
        with loaded(script) as run:
            found |= {f"no{flag.name}" if flag.boolean and flag.default else flag.name for flag in run.flags}
            found |= {flag.name for flag in run.flags}
    assert len(named) > 15 and named <= found, named - found


@every_page
def test_commands_have_the_flags_of_their_scripts(page):
    for words in filter(None, map(script_commands, page.commands())):
        script, *arguments = words
        with loaded(script), flagsaver.flagsaver():
            assert flags.FLAGS([script, *arguments_of(flags_of(arguments))]) == [script]


def compiles(text):
    try:
        return compile(text, "block", "exec") is not None
    except SyntaxError:
        return False


@every_page
def test_python_blocks_compile(page):
    assert [block.text for block in page.blocks if block.language == "python" and not compiles(block.text)] == []


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=marks) for name, marks in RUN.items()),
             *(pytest.param(name, marks=pytest.mark.slow) for name in RUN_SLOWLY)])
def test_commands_and_snippets_run_in_order(name, folder):
    """Every command ends with status 0, every snippet without an error, and they print what the page shows."""
    with ScriptSession() as session, contextlib.closing(PAGES[name]) as page:
        for block in page.blocks:
            page.run(block, folder, session)
            if name == "README.md" and block.language == "text":
                check_printed(block.text, page.printed)
        assert session.ended == page.scripts_to_run() != []
    if name == "docs/first_hour.md":
        scores = json.loads((folder / "verdicts/eval_results.json").read_text())
        assert scores["eval_accuracy"] > 0.85
        answer, = page.answer["predictions"]
        assert answer["labels"] == "bad"


def test_links_to_missing_files_and_headings_are_broken(tmp_path):
    links = "[a](page.md#a-heading) [b](missing.md) [c](#missing) [d](https://x.org) [e](#a-heading-1)"
    paths = "`albert_tf/missing.py` `albert_tf/config.py`"
    (tmp_path / "page.md").write_text(f"# A heading\n## A (heading)\n{links} {paths}\n```text\n# no\n[f](no.md)\n```\n")
    assert Page(tmp_path / "page.md").broken_links() == ["missing.md", "#missing", "albert_tf/missing.py"]


def test_a_heading_behind_other_text_is_no_heading(tmp_path):
    code = "`a ## b`, C# and issue #12.\n```python\nx = 1  # No heading\n```\n    make ## An indented block\n"
    (tmp_path / "page.md").write_text(f"# A heading\nText.\n## Another one\nA sentence. ## Search\n{code}")
    assert Page(tmp_path / "page.md").headings_within_lines() == ["A sentence. ## Search"]
