"""The pages of docs/ and README.md: their links, flags and Python, and runs of the pages on small data."""

import contextlib
import importlib
import re
import shutil

import pytest
from documentation import Page, check_close, commands, flags_of, script_commands, write_reader_files, write_released
from in_process import loaded
from script_session import REPOSITORY, ScriptSession

from albert_tf.commands.usage import NAMES
from albert_tf.tasks.classification.glue import TASKS

PATHS = [REPOSITORY / "README.md", REPOSITORY / "studies/README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
PAGES = {str(path.relative_to(REPOSITORY)): Page(path) for path in PATHS}
# The pages whose commands are run, by the mark of the test.
RUN = {"docs/languages.md": (), "docs/from_hugging_face_and_keras_hub.md": pytest.mark.long,
       "docs/weights.md": pytest.mark.long}
RUN_SLOWLY = ["docs/from_the_release.md", "docs/pretraining.md", "docs/fine_tuning.md", "docs/serving.md",
              "docs/sentence_vectors.md"]
every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@pytest.fixture(scope="module")
def session():
    with ScriptSession() as session:
        yield session


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


def test_pictures_are_small():
    pictures = list((REPOSITORY / "docs").glob("*.png"))
    assert pictures and all(picture.stat().st_size < 200_000 for picture in pictures)


def test_the_index_lists_every_page():
    linked = set(re.findall(r"\]\((\w+\.md)\)", PAGES["docs/README.md"].text))
    assert {f"docs/{name}" for name in linked} == set(PAGES) - {"README.md", "docs/README.md", "studies/README.md"}


def test_the_page_on_fine_tuning_shows_the_place_of_every_file_of_glue():
    layout, = [block.text for block in PAGES["docs/fine_tuning.md"].blocks if block.text.startswith("glue/")]
    files, folders = {}, []
    for line in layout.partition("train-v1.1.json")[0].splitlines()[1:]:
        words = line.split()
        folders = [word[:-1] for word in words if word.endswith("/")] or folders
        for folder in folders:
            files.setdefault(folder, set()).update(word for word in words if word.endswith(".tsv"))
    expected = {source.path for task in TASKS.values() for source in task.sources.values()}
    shown = {f"{folder}/{name}" for folder, names in files.items() for name in names}
    assert shown == expected, f"docs/fine_tuning.md lacks {expected - shown}, and TASKS of glue.py {shown - expected}"


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
def test_the_name_of_a_file_is_shown_above_its_content(page):
    for block in page.blocks:
        if block.file:
            before = page.text.partition(f"```{block.language} {block.file}\n")[0]
            assert f"`{block.file}`" in before.rstrip().splitlines()[-1], block.file


def test_a_page_whose_commands_are_not_run_says_so():
    for name in set(PAGES) - {*RUN, *RUN_SLOWLY, "README.md"}:
        if PAGES[name].commands() or any(block.language == "python" for block in PAGES[name].blocks):
            assert "not run by tests" in " ".join(PAGES[name].text.split()), name


@every_page
def test_commands_work_outside_of_the_clone_too(page):
    assert [name for name in re.findall(r"python (\w+)\.py", "\n".join(block.text for block in page.blocks))
            if name in NAMES] == []


@every_page
def test_commands_have_the_flags_of_their_scripts(page, session):
    for words in filter(None, map(script_commands, page.commands())):
        script, *flags = words
        session.run(script=script, expect=0, only_check_args=True, **flags_of(flags))


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
    """Every command ends with status 0, every snippet without an error, and they print what a JSON block shows."""
    with ScriptSession() as session, contextlib.closing(PAGES[name]) as page:
        for block in page.blocks:
            page.run(block, folder, session)
        assert session.ended == page.scripts_to_run() != []


def test_links_to_missing_files_and_headings_are_broken(tmp_path):
    links = "[a](page.md#a-heading) [b](missing.md) [c](#missing) [d](https://x.org) [e](#a-heading-1)"
    paths = "`albert_tf/missing.py` `albert_tf/config.py`"
    (tmp_path / "page.md").write_text(f"# A heading\n## A (heading)\n{links} {paths}\n```text\n# no\n[f](no.md)\n```\n")
    assert Page(tmp_path / "page.md").broken_links() == ["missing.md", "#missing", "albert_tf/missing.py"]


def test_answers_are_compared_by_the_digits_that_a_page_shows():
    answer = dict(pieces=["door"], probabilities=[0.264, 0.114])
    check_close(answer, dict(probabilities=[0.26397526, 0.11377735], pieces=["door"]))
    for other in (dict(answer, pieces=["room"]), dict(answer, probabilities=[0.264]), dict(answer, more=1),
                  dict(answer, probabilities=[0.264, 0.116])):
        with pytest.raises(AssertionError):
            check_close(answer, other)


def test_commands_of_a_block_have_their_variables():
    block = "A='--x=1 --y'  # a comment\n\nB=2 python -m albert_tf run $A \\\n --z='$5 b'\n"
    assert commands(block) == [["B=2", "python", "-m", "albert_tf", "run", "--x=1", "--y", "--z=$5 b"]]
    assert script_commands(commands(block)[0]) == ["run", "--x=1", "--y", "--z=$5 b"]
    assert flags_of(["--x=1", "--y", "--x=a=b"]) == dict(x=["1", "a=b"], y=True)
