"""The pages of docs/ and README.md: their links and flags; README.md, the page of Keras and the first hour also run."""

import contextlib
import itertools
import json
import pkgutil
import re
import shutil

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver
from documentation import Page, check_printed, flags_of, script_commands, write_checkpoints
from in_process import NAMES, loaded
from model_hub import running_hub, set_offline, use_hub
from pretraining_runs import write_synthetic_text, write_tiny_recipe
from script_process import arguments_of
from script_session import REPOSITORY, ScriptSession

PATHS = [*(REPOSITORY / name for name in (
             "README.md", "SECURITY.md", "AGENTS.md", "CONTRIBUTING.md", "studies/README.md")),
         *(path for folder in ("docs", "docs/results") for path in sorted((REPOSITORY / folder).glob("*.md")))]
PAGES = {str(path.relative_to(REPOSITORY)): Page(path) for path in PATHS}
every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@every_page
def test_links_named_paths_and_flags_exist(page):
    assert page.broken_links() == []
    for script, *arguments in filter(None, map(script_commands, page.commands())):
        with loaded(script), flagsaver.flagsaver():
            assert flags.FLAGS([script, *arguments_of(flags_of(arguments))]) == [script]


@pytest.mark.parametrize("command", NAMES)
def test_each_option_of_a_command_is_named_on_a_page(command):
    named = set(re.findall(r"--(\w+)", "".join(page.text for page in PAGES.values())))
    with loaded(command) as run:
        assert [flag.name for flag in run.flags if not named & {flag.name, f"no{flag.name}"}] == []


def test_the_map_of_the_releases_modules_names_ours_as_they_are():
    section = PAGES["docs/migration.md"].text.partition("\n### Modules\n")[2].partition("\n### ")[0]
    ours = set(re.findall(r"`(albert_tf[\w.]*)`", section))
    assert len(ours) > 20
    for name in ours:
        pkgutil.resolve_name(name)


def test_the_readme_runs_in_order(tmp_path, golden, monkeypatch):
    """With tiny checkpoints, a hub on this machine, and few steps of training."""
    write_checkpoints(tmp_path, golden)
    write_synthetic_text(tmp_path / "my_text.txt")
    write_tiny_recipe("quick", tmp_path / "recipe.json")
    shutil.copytree(REPOSITORY / "examples/reviews", tmp_path / "examples/reviews")
    monkeypatch.chdir(tmp_path)
    with running_hub() as hub, ScriptSession(eagerly=True) as session, contextlib.closing(PAGES["README.md"]) as page:
        use_hub(monkeypatch, hub, tmp_path / "cache")
        hub.add("albert/albert-base-v2", tmp_path / "hub")
        for block in page.blocks:
            page.run(block, tmp_path, session, run_classifier=dict(num_train_epochs=1, save_checkpoints_steps=100),
                     pretrain_from_text=dict(recipe="recipe.json"))
            if block.language == "text":
                check_printed(block.text, page.printed)
        set_offline(monkeypatch, False)


@pytest.mark.both_stacks
def test_the_page_of_keras_runs_in_order_up_to_what_needs_the_first_hour(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGES["docs/keras.md"]
    blocks = list(itertools.takewhile(lambda block: "verdicts" not in block.text, page.blocks))
    assert len(blocks) == len(page.blocks) - 2
    with ScriptSession(eagerly=True) as session:
        for block in blocks:
            page.run(block, tmp_path, session)
    logits = [page.names[model](page.names["inputs"])["logits"] for model in ("model", "again")]
    np.testing.assert_allclose(*logits, atol=1e-6)
    assert page.names["reviewer"](page.names["inputs"])["stars"].shape == (4, 1)
    assert any((tmp_path / "films_onnx").glob("*.onnx"))


@pytest.mark.long
def test_the_first_hour_runs_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ScriptSession() as session, contextlib.closing(PAGES["docs/first_hour.md"]) as page:
        for block in page.blocks:
            page.run(block, tmp_path, session)
    assert json.loads((tmp_path / "verdicts/eval_results.json").read_text())["eval_accuracy"] > 0.85
    assert json.loads(page.printed)["predictions"][0]["labels"] == "bad"
