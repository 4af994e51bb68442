"""Pre-training by a recipe: the package's recipes are valid, and lead from a text to a model that loads."""

import json
import math
import re
from unittest import mock

import pytest
from in_process import loaded
from pretraining_runs import RECIPES, read_runs, write_synthetic_text, write_tiny_recipe
from script_session import ScriptSession

from albert_tf.commands import command_runs
from albert_tf.commands.command_runs import placeholders
from albert_tf.commands.pretrain_from_text import READERS_OF_TEXTS
from albert_tf.data.feature_table import fingerprint
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.training.evaluation import best_of, read_history
from albert_tf.utils.manifests import output_set
from albert_tf.utils.outputs import write_text


def layers(directory):
    return json.loads((directory / "albert_config.json").read_text())["num_hidden_layers"]


@pytest.mark.parametrize("recipe", sorted(path.stem for path in RECIPES.glob("*.json")))
def test_a_recipe_has_only_flags_that_its_scripts_have(recipe):
    runs = read_runs(recipe)
    with loaded("pretrain_from_text") as pretrain_from_text:
        names = {name for run in runs.values() for name in placeholders(run.flags)}
        assert names <= {flag.name for flag in pretrain_from_text.flags}
    for run in runs.values():
        with loaded(run.script) as script:
            assert set(run.flags) <= {flag.name for flag in script.flags}


@pytest.mark.long
@pytest.mark.parametrize("recipe", sorted(path.stem for path in RECIPES.glob("*.json")))
def test_a_recipe_leads_from_a_text_to_a_model_that_fills_masks(recipe, tmp_path, monkeypatch, capsys):
    """With a tiny model, two steps in each stage, and one process for all scripts. Where it can, text is held out."""
    write_synthetic_text(tmp_path / "text.txt")
    runs = write_tiny_recipe(recipe, tmp_path / "recipe.json")
    commands, skipped = [], sum(run.script in READERS_OF_TEXTS for run in runs.values())
    with ScriptSession() as session, loaded("pretrain_from_text") as pretrain_from_text:
        def run_in_session(command, environment):
            commands.append(command)
            return session.run_command(command)

        monkeypatch.setattr(command_runs, "run_to_end", run_in_session)
        for expected in (len(runs), 2 * len(runs) - skipped):  # the second time, vocabulary and records are there
            text = str(tmp_path / "text.txt")
            dev_text = {} if recipe == "quick" else dict(dev_text=text)
            assert pretrain_from_text(recipe=str(tmp_path / "recipe.json"), text=text, **dev_text,
                                      init_checkpoint="albert_tiny_en", earlier_text=text, earlier_dev_text=text,
                                      output_dir=str(tmp_path / "out")) == 0
            assert len(commands) == expected
        model = tmp_path / "out" / recipe
        printed = session.run(script="fill_mask", init_checkpoint=model, text="the old [MASK] saw")
    assert "the old" in printed
    stages = [name for name, run in runs.items() if run.script == "run_pretraining" and "num_train_steps" in run.flags]
    assert all((tmp_path / "out" / stage / "model.ckpt-best.index").exists() for stage in stages)
    if recipe == "quick":
        best = best_of(read_history(str(tmp_path / "out/stage_2"), "masked_lm_accuracy"), "masked_lm_accuracy")
        pattern = r"masked pieces .*: accuracy ([\d.]+) \(.* ([\d.]+)\), cross entropy ([\d.]+) nats \(.* ([\d.]+)\)"
        accuracy, of_piece, loss, of_frequencies = map(float, re.search(pattern, capsys.readouterr().out).groups())
        assert accuracy == pytest.approx(best["masked_lm_accuracy"], abs=6e-4)
        assert loss == pytest.approx(best["masked_lm_loss"], abs=6e-3)
        assert 0 <= of_piece < 0.5 and 2 < of_frequencies < math.log(50)
    if recipe == "albert_tiny_en":
        assert [layers(tmp_path / "out" / stage) for stage in stages] == [2, 4, 4, 4]


@pytest.fixture
def started(monkeypatch):
    """The scripts that were started. They write nothing but vocabularies and records of one byte, with manifests."""
    scripts = []

    def run(command, *_):
        scripts.append(command[3])
        flags = dict(argument.removeprefix("--").split("=", 1) for argument in command[4:])
        if command[3] in READERS_OF_TEXTS:
            path = flags.get("output_file") or f"{flags['model_prefix']}.model"
            with output_set({path: [path]}) as written:
                written.made_from = dict(flags=flags, digests={flags["input_file"]: fingerprint(flags["input_file"])})
                write_text(written.temporary[path], "x")
        return 0

    monkeypatch.setattr(command_runs, "run_to_end", run)
    monkeypatch.setattr("albert_tf.commands.pretrain_from_text.load_model",
                        lambda path: mock.Mock(**{"vocab_size.return_value": 8000}))
    return scripts


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("text", "dev", "other"):
        (tmp_path / f"{name}.txt").write_text(name)
    (tmp_path / "kettle.txt").write_text("the kettle stood on the stove\n" * 20)


def test_without_a_dev_text_lines_all_over_the_text_are_held_out(tmp_path, texts, capsys, started):
    lines = [f"line {number}" for number in range(430)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    with loaded("pretrain_from_text") as pretrain_from_text:
        assert pretrain_from_text(recipe="quick", text="text.txt", output_dir="out") == 0
        train, dev = ((tmp_path / f"out/{name}.txt").read_text() for name in ("train", "dev"))
        documents = [document.splitlines() for document in dev.strip().split("\n\n")]
        assert documents == [lines[:10], lines[200:210], lines[400:410]]
        assert train.split() == "\n".join(lines[10:200] + lines[210:400] + lines[410:]).split()
        assert "line 199\n\nline 210\n" in train
        (tmp_path / "out/dev.txt").unlink()
        assert pretrain_from_text(recipe="quick", text="text.txt", output_dir="out") == 0
        assert (tmp_path / "out/dev.txt").read_text() == dev
        before = contents(tmp_path / "out")
        assert pretrain_from_text(recipe="quick", text="other.txt", output_dir="out") == 1
        assert "out/train.txt was made with another --text, and would be replaced" in capsys.readouterr().err
        assert contents(tmp_path / "out") == before


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_another_or_a_changed_text_does_not_replace_the_vocabulary_and_the_records_of_the_first(
        tmp_path, texts, capsys, started):
    content = json.loads((RECIPES / "albert_tiny_en.json").read_text())
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(content))
    first = dict(recipe="recipe.json", text="text.txt", dev_text="dev.txt", output_dir="out")
    with loaded("pretrain_from_text") as pretrain_from_text:
        def refuses(message, **flags):
            output = tmp_path / flags.get("output_dir", "out")
            before = contents(output)
            started.clear()
            assert pretrain_from_text(**{**first, **flags}) == 1
            assert contents(output) == before and not started
            assert message in capsys.readouterr().err

        assert pretrain_from_text(**first) == 0 and len(started) == len(read_runs("albert_tiny_en"))
        (tmp_path / "out/two_layers.json").write_text("{}")  # to see that it is not written again
        for flags in (dict(text="other.txt"), dict(dev_text="other.txt")):
            refuses("was made with another --input_file, and would be replaced", **flags)
        refuses("was made with another --text_column, and would be replaced", text_column="body")
        (tmp_path / "text.txt").write_text("changed")
        refuses("text.txt has changed since out/vocabulary.model was made from it")
        (tmp_path / "text.txt").write_text("text")
        (tmp_path / "out/dev64.tfrecord").unlink()  # an incomplete output is made again
        started.clear()
        assert pretrain_from_text(**{**first, "text": str(tmp_path / "text.txt")}) == 0
        assert [script for script in started if script in READERS_OF_TEXTS] == ["create_pretraining_data"]
        content["runs"]["stage_3"]["flags"].update(num_train_steps=20000)  # a run continues with more steps
        recipe.write_text(json.dumps(content))
        started.clear()
        assert pretrain_from_text(**first) == 0
        assert not set(started) & set(READERS_OF_TEXTS) and "run_pretraining" in started
        content["runs"]["train256"]["flags"].update(dupe_factor=9)  # but not with other records
        recipe.write_text(json.dumps(content))
        refuses("was made with another --dupe_factor")
        train_vocabulary(["kettle.txt"], "python/vocabulary", vocab_size=25)
        refuses("python/vocabulary.model was made from Python", output_dir="python")


def test_the_casing_is_that_of_the_vocabulary_that_the_recipe_makes(tmp_path, texts, capsys, started):
    flags = dict(recipe="quick", text="text.txt", dev_text="dev.txt", output_dir="out")
    with loaded("pretrain_from_text") as pretrain_from_text:
        assert pretrain_from_text(keep_accents=True, do_lower_case=False, **flags) == 0
        made_from = json.loads((tmp_path / "out/vocabulary.model.manifest.json").read_text())["made_from"]["flags"]
        assert (made_from["keep_accents"], made_from["do_lower_case"]) == ("True", "False")
        assert pretrain_from_text(do_lower_case=False, **flags) == 1
        assert "was made with another --keep_accents" in capsys.readouterr().err
        flags.update(recipe="continued", init_checkpoint="x", earlier_text="text.txt", earlier_dev_text="dev.txt")
        assert pretrain_from_text(keep_accents=True, **flags) == 1
        assert pretrain_from_text(**{**flags, "earlier_text": None}) == 1
    printed = capsys.readouterr().err
    assert "--earlier_text is missing: the recipe continued uses it" in printed
    assert "--keep_accents is for a new vocabulary, and the recipe continued makes none" in printed


@pytest.mark.parametrize("content, message", [
    (dict(), "'runs' is missing"),
    (dict(runs={}, configs=dict(small=dict(like="albert_tiny_en", changes=dict(heads=2)))),
     "configs.small: unknown config key: heads"),
    (dict(runs=dict(first=dict(script="http.server", flags={}))), "runs.first: there is no command 'http.server'"),
    (dict(runs=dict(first=dict(script="fill_mask", flags=dict(albert_config_file="{outputdir}/small.json")))),
     "has an unknown placeholder {outputdir}; the known ones are text, dev_text"),
])
def test_a_wrong_recipe_is_refused_with_its_path_and_key(content, message, tmp_path, capsys):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(content))
    with loaded("pretrain_from_text") as pretrain_from_text:
        assert pretrain_from_text(recipe=str(path), text="text.txt", dev_text="dev.txt", output_dir=str(tmp_path)) == 1
    printed = capsys.readouterr().err
    assert str(path) in printed and message in printed
