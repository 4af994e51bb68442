"""README.md's commands and snippets, run in order as a reader would, on small data (see documentation.py)."""

import pytest
from documentation import SMALL, Page, check_printed, script_commands, write_reader_files
from script_session import REPOSITORY, ScriptSession

from albert_tf.commands.usage import NAMES

README = Page(REPOSITORY / "README.md")
PAGES = [README, *map(Page, (REPOSITORY / "docs").glob("*.md"))]


@pytest.fixture
def folder(tmp_path, golden):
    """The reader's folder."""
    write_reader_files(tmp_path, golden)
    return tmp_path


def test_commands_and_snippets_run_in_order(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with ScriptSession() as session:
        for block in README.blocks:
            README.run(block, folder, session)
            if block.language == "text":
                check_printed(block.text, README.printed)
        assert session.ended == README.scripts_to_run() != []
    assert (folder / "albert_base_v2.tar.gz").exists()


def test_every_script_is_shown_here_or_in_docs():
    shown = {script_commands(words)[0] for page in PAGES for words in page.commands() if script_commands(words)}
    assert shown == set(NAMES)


def test_the_readme_is_a_first_screen():
    assert len(README.text.splitlines()) <= 120


def test_small_settings_are_those_of_shown_commands_and_are_sizes():
    assert set(SMALL) <= set(NAMES)
    others = {name for settings in SMALL.values() for name, value in settings.items() if not isinstance(value, int)}
    assert others == {"albert_config_file"}
