"""search_settings: the trials that it runs, what it writes, that it continues, and its errors."""

import csv
import importlib.util
import json
import math
import pathlib

import pytest
import script_process

from albert_tf.commands import search_settings
from albert_tf.commands.search_settings import Options, read_space, search
from albert_tf.utils.outputs import used_alone

needs_optuna = pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="optuna is not installed")


def choice(*values):
    return dict(type="categorical", choices=values)


SPACE = dict(script="run_classifier", metric="eval_accuracy",
             flags=dict(task_name="rte", recipe="rte", train_batch_size=16, num_runs=2),
             space=dict(learning_rate=dict(type="float", low=1e-5, high=1e-3, log=True),
                        classifier_dropout_prob=choice(0.0, 0.1),
                        train_step=dict(type="int", low=100, high=300, step=100)))


def space_file(folder, **changes):
    path = folder / "space.json"
    path.write_text(json.dumps({**SPACE, **changes}))
    return str(path)


def options_of(space, folder, num_trials, halving=False):
    return Options(space, str(folder), num_trials, halving, search_seed=1)


class Trials:
    """Takes the place of run_process: the score is the higher, the closer the learning rate is to 1e-4."""

    def __init__(self, monkeypatch, fails=(), interrupted=()):
        self.runs, self._fails, self._interrupted = [], set(fails), set(interrupted)
        monkeypatch.setattr(search_settings, "run_process", self)

    def __call__(self, script, command, name=None, should_end=None):
        flags = dict(argument[2:].split("=", 1) for argument in command)
        number = len(self.runs)
        self.runs.append((script, flags))
        if number in self._fails:
            raise ValueError(f"{name} ended with status 1")
        if number in self._interrupted:
            raise KeyboardInterrupt
        score = 1 - abs(math.log10(float(flags["learning_rate"])) + 4)
        directory = pathlib.Path(flags["output_dir"])
        directory.mkdir(parents=True, exist_ok=True)
        rows = [dict(eval_accuracy=score, loss=1.0, global_step=step) for step in (1, 2)]
        (directory / "eval_history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (directory / "eval_results.json").write_text(json.dumps(rows[-1]))
        if should_end is not None:
            should_end()


def table(folder):
    with open(folder / "out" / "trials.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@needs_optuna
def test_the_best_trial_is_a_recipe_and_the_cost_is_told_first(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    trials = Trials(monkeypatch)
    search(options_of(space_file(tmp_path), tmp_path / "out", 12))
    assert "12 trials to run, each of 200 to 600 steps: 2,400 to 7,200 steps in all, with batches of 16 examples" in (
        caplog.messages[0])
    rows = table(tmp_path)
    assert len(rows) == len(trials.runs) == 12 and {row["state"] for row in rows} == {"complete"}
    script, flags = trials.runs[0]
    assert script == "run_classifier" and flags["do_train"] == flags["do_eval"] == "True"
    assert (flags["recipe"], flags["num_runs"], flags["keep_checkpoint_max"]) == ("rte", "2", "1")
    for _, flags in trials.runs:
        assert 1e-5 <= float(flags["learning_rate"]) <= 1e-3 and flags["train_step"] in ("100", "200", "300")
    best = max(rows, key=lambda row: float(row["eval_accuracy"]))
    recipe = json.loads((tmp_path / "out" / "best_recipe.json").read_text())
    assert recipe["learning_rate"] == float(best["learning_rate"]) and recipe["max_seq_length"] == 512  # of the recipe
    assert "recipe=" + str(tmp_path / "out" / "best_recipe.json") in caplog.messages[-1]
    assert (tmp_path / "out" / "search.svg").is_file()


@needs_optuna
def test_a_search_that_was_interrupted_continues_with_the_same_trial(tmp_path, monkeypatch):
    trials, options = Trials(monkeypatch, interrupted=[2]), options_of(space_file(tmp_path), tmp_path / "out", 4)
    with pytest.raises(KeyboardInterrupt):
        search(options)
    search(options)
    assert len(trials.runs) == 5 and trials.runs[2] == trials.runs[3]  # the same flags and output_dir
    assert len(table(tmp_path)) == 4
    search(options)
    assert len(trials.runs) == 5
    search(options_of(options.space, options.output_dir, 5))
    assert len(trials.runs) == 6
    with pytest.raises(ValueError, match="has another space than .*space.json has now: choose another --output_dir"):
        search(options_of(space_file(tmp_path, metric="f1"), options.output_dir, 5))


@needs_optuna
def test_an_interrupted_search_draws_what_an_undisturbed_one_draws(tmp_path, monkeypatch):
    drawn = []
    for name, interrupted in (("undisturbed", []), ("interrupted", [1, 4, 5])):
        trials, options = Trials(monkeypatch, interrupted=interrupted), options_of(
            space_file(tmp_path), tmp_path / name, 12)
        for _ in interrupted:
            with pytest.raises(KeyboardInterrupt):
                search(options)
        search(options)
        drawn.append([dict(flags, output_dir=pathlib.Path(flags["output_dir"]).name)
                      for number, (_, flags) in enumerate(trials.runs) if number not in interrupted])
    assert drawn[0] == drawn[1] and len(drawn[0]) == 12


@needs_optuna
def test_a_search_is_refused_while_another_one_or_a_trial_of_a_killed_one_runs(tmp_path, monkeypatch):
    trials, options = Trials(monkeypatch, interrupted=[0]), options_of(space_file(tmp_path), tmp_path / "out", 1)
    with pytest.raises(KeyboardInterrupt):
        search(options)
    with used_alone(options.output_dir, "search"):
        with pytest.raises(ValueError, match="out is in use by another search: wait until it has ended"):
            search(options)
    with used_alone(f"{options.output_dir}/trial_0", "training"):
        with pytest.raises(ValueError, match="out/trial_0 is in use by another training: wait until it has ended"):
            search(options)
    search(options)
    assert [flags["output_dir"] for _, flags in trials.runs] == 2 * [f"{options.output_dir}/trial_0"]
    assert [row["state"] for row in table(tmp_path)] == ["complete"]


@needs_optuna
def test_a_failed_trial_is_in_the_table_but_the_first_one_ends_the_search(tmp_path, monkeypatch, caplog):
    Trials(monkeypatch, fails=[1])
    search(options_of(space_file(tmp_path), tmp_path / "out", 3))
    assert [row["state"] for row in table(tmp_path)] == ["complete", "fail", "complete"]
    assert table(tmp_path)[1]["error"] == "trial 1 ended with status 1" and "the search continues" in caplog.text
    Trials(monkeypatch, fails=[0])
    with pytest.raises(ValueError, match="trial 0 ended with status 1"):
        search(options_of(space_file(tmp_path), tmp_path / "other", 3))
    Trials(monkeypatch)
    with pytest.raises(ValueError, match="the results of a trial have no 'accuracy', only eval_accuracy, loss"):
        search(options_of(space_file(tmp_path, metric="accuracy"), tmp_path / "third", 3))


@needs_optuna
def test_halving_ends_trials_in_the_lower_half(tmp_path, monkeypatch):
    Trials(monkeypatch)
    search(options_of(space_file(tmp_path, flags=dict(task_name="rte")), tmp_path / "out", 8, True))
    rows = table(tmp_path)
    assert {row["state"] for row in rows} == {"complete", "pruned"}
    complete, pruned = ([float(row["eval_accuracy"]) for row in rows if row["state"] == state]
                        for state in ("complete", "pruned"))
    assert max(complete) > max(pruned)
    with pytest.raises(ValueError, match="--halving compares single runs: remove num_runs from the flags of the space"):
        search(options_of(space_file(tmp_path), tmp_path / "other", 8, True))


def test_the_package_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="search_settings needs the package optuna, .*: pip install optuna"):
        search(options_of(space_file(tmp_path), tmp_path / "out", 2))


RANGE = dict(type="int", low=1, high=4)


@needs_optuna
@pytest.mark.parametrize("changes, message", [
    (dict(script="serve"), "script must be one of run_classifier, run_squad, run_race, run_tagging, run_sentence"),
    (dict(space={}), "space is empty: there is nothing to search"),
    (dict(metric=7), "'metric' must be of type str"),
    (dict(space=dict(output_dir=RANGE)), "output_dir is set by the search itself: remove it"),
    (dict(space=dict(recipe=RANGE)), 'recipe stands both in "flags" and in "space": remove one of them'),
    *((dict(space=dict(warmup_step=values)), f"space.warmup_step must be a distribution of Optuna, such as .*{message}")
      for values, message in [
          (5, "not iterable"), ([16, 32], "must be integers"), (dict(type="categorical", choices=[]), "one or more"),
          (dict(type="categorical", choices=[[1]]), "should be a tuple"), (dict(type="int", low=1), "'high'"),
          (dict(RANGE, hi=2), "unknown key 'hi'"), (dict(RANGE, low="1"), "not supported between"),
          (dict(RANGE, low=9), "low <= high"), (dict(RANGE, step=2), "not divisible"),
          (dict(RANGE, low=0, log=True), "log=True")]),
])
def test_a_space_that_makes_no_sense_is_one_clear_line(tmp_path, changes, message):
    with pytest.raises(ValueError, match=f"space.json: .*{message}"):
        read_space(space_file(tmp_path, **changes))


@needs_optuna
def test_the_cost_needs_the_number_of_steps(tmp_path):
    space = read_space(space_file(tmp_path, flags={}, space=dict(train_batch_size=choice(16, 8))))
    assert space.batch_sizes == (8, 16)
    with pytest.raises(ValueError, match='set train_step in "flags" or in "space"'):
        space.steps  # noqa: B018
    by_recipe = read_space(space_file(tmp_path, flags=dict(recipe="rte"), space=dict(train_batch_size=choice(16))))
    assert by_recipe.steps == (800, 800)
    assert read_space(space_file(tmp_path, flags=dict(recipe=None))).recipe == {}  # null leaves a flag out
    assert read_space(space_file(tmp_path)).steps == (200, 600)


@needs_optuna
@pytest.mark.long
def test_real_trials_are_trained(tmp_path, golden):
    (tmp_path / "config.json").write_text(json.dumps(dict(
        vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64)))
    flags = dict(task_name="rte", data_dir=str(golden / "glue"), albert_config_file=str(tmp_path / "config.json"),
                 spm_model_file=str(golden / "tiny_spm" / "tiny.model"), max_seq_length=24, train_batch_size=4)
    space = space_file(tmp_path, flags=flags, space=dict(train_step=dict(type="int", low=2, high=3)))
    done = script_process.run("search_settings", dict(space=space, output_dir=tmp_path / "out", num_trials=1))
    assert done.returncode == 0, done.stderr
    assert "1 trial to run, each of 2 to 3 steps" in done.stderr and len(table(tmp_path)) == 1
