"""The pages of docs/ and README.md: their links, flags and Python; README.md and the first hour also run."""

import contextlib
import importlib
import json
import re

import pytest
from absl import flags
from absl.testing import flagsaver
from documentation import Page, check_printed, flags_of, script_commands, write_archive
from in_process import loaded
from script_process import arguments_of
from script_session import REPOSITORY, ScriptSession

PATHS = [*(REPOSITORY / name for name in ("README.md", "SECURITY.md", "studies/README.md")),
         *sorted((REPOSITORY / "docs").glob("*.md"))]
PAGES = {str(path.relative_to(REPOSITORY)): Page(path) for path in PATHS}
every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@every_page
def test_links_and_named_paths_exist(page):
    assert page.broken_links() == []


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


@pytest.mark.parametrize("name", ["README.md", pytest.param("docs/first_hour.md", marks=pytest.mark.long)])
def test_commands_and_snippets_run_in_order(name, tmp_path, golden, monkeypatch):
    write_archive(tmp_path, golden)
    monkeypatch.chdir(tmp_path)
    with ScriptSession() as session, contextlib.closing(PAGES[name]) as page:
        for block in page.blocks:
            page.run(block, tmp_path, session)
            if name == "README.md" and block.language == "text":
                check_printed(block.text, page.printed)
    if name == "docs/first_hour.md":
        assert json.loads((tmp_path / "verdicts/eval_results.json").read_text())["eval_accuracy"] > 0.85
        assert json.loads(page.printed)["predictions"][0]["labels"] == "bad"


def test_links_to_missing_files_and_headings_are_broken(tmp_path):
    links = "[a](page.md#a-heading) [b](missing.md) [c](#missing) [d](https://x.org) [e](#a-heading-1)"
    paths = "`albert_tf/missing.py` `albert_tf/config.py`"
    (tmp_path / "page.md").write_text(f"# A heading\n## A (heading)\n{links} {paths}\n```text\n# no\n[f](no.md)\n```\n")
    assert Page(tmp_path / "page.md").broken_links() == ["missing.md", "#missing", "albert_tf/missing.py"]
