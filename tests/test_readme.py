"""README.md's commands and snippets, run in order as a reader would, on small data (see documentation.py)."""

import pytest
from documentation import SMALL, Page, check_printed, script_commands, write_reader_files
from script_session import REPOSITORY, ScriptSession

from albert_tf.commands.usage import NAMES

README = Page(REPOSITORY / "README.md")
PAGES = [README, *map(Page, (REPOSITORY / "docs").glob("*.md"))]
SLOW_SECTION = "Fine-tune"


@pytest.fixture(autouse=True)
def server_ends():
    """The server of a command ends with its test."""
    yield
    README.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, golden):
    """The reader's folder."""
    folder = tmp_path_factory.mktemp("reader")
    write_reader_files(folder, golden)
    return folder


def test_commands_and_snippets_run_in_order(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with ScriptSession() as session:
        for block in README.blocks:
            if block.section != SLOW_SECTION:
                README.run(block, folder, session)
                if block.language == "text":
                    check_printed(block.text, README.printed)
    assert (folder / "vectors.npy").exists() and (folder / "albert_hf/model.safetensors").exists()


@pytest.mark.slow
def test_commands_and_snippets_of_fine_tuning_run_in_order(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with ScriptSession() as session:
        for block in README.blocks:
            if block.section == SLOW_SECTION:
                README.run(block, folder, session)
    assert (folder / "reviews/eval_results.txt").exists() and (folder / "served/reviews/1/saved_model.pb").exists()


def test_every_script_is_shown_here_or_in_docs():
    shown = {script_commands(words)[0] for page in PAGES for words in page.commands() if script_commands(words)}
    assert shown == set(NAMES)


def test_the_readme_is_a_first_screen():
    assert len(README.text.splitlines()) <= 150


def test_small_settings_are_those_of_shown_commands_and_are_sizes():
    assert set(SMALL) <= set(NAMES)
    others = {name for settings in SMALL.values() for name, value in settings.items() if not isinstance(value, int)}
    assert others == {"albert_config_file"}
