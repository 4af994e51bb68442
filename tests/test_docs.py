"""The pages of docs/ and README.md: their links and flags; README.md and the first hour also run."""

import contextlib
import json
import pkgutil
import re

import pytest
from absl import flags
from absl.testing import flagsaver
from documentation import Page, check_printed, flags_of, script_commands, write_archive
from in_process import loaded
from script_process import arguments_of
from script_session import REPOSITORY, ScriptSession

PATHS = [*(REPOSITORY / name for name in ("README.md", "SECURITY.md", "studies/README.md")),
         *(path for folder in ("docs", "docs/results") for path in sorted((REPOSITORY / folder).glob("*.md")))]
PAGES = {str(path.relative_to(REPOSITORY)): Page(path) for path in PATHS}
every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@every_page
def test_links_named_paths_and_flags_exist(page):
    assert page.broken_links() == []
    for script, *arguments in filter(None, map(script_commands, page.commands())):
        with loaded(script), flagsaver.flagsaver():
            assert flags.FLAGS([script, *arguments_of(flags_of(arguments))]) == [script]


def test_the_map_of_the_releases_modules_names_ours_as_they_are():
    section = PAGES["docs/checkpoints.md"].text.partition("\n### Modules\n")[2].partition("\n### ")[0]
    ours = set(re.findall(r"`(albert_tf[\w.]*)`", section))
    assert len(ours) > 20
    for name in ours:
        pkgutil.resolve_name(name)


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
