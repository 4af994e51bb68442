"""The runs in a directory: the best one, and the summary of runs with different seeds."""

import json
import math
import statistics

import pytest

from albert_tf.training.checkpoints import checkpoint_of, saved_runs
from albert_tf.training.evaluation import write_summary


def write_run(directory, best=None, name="model.ckpt-3"):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.index").write_bytes(b"")
    if best is not None:
        (directory / "best_trial.txt").write_text(f"3:3:{best}\n")


def test_the_best_run_is_that_with_the_highest_value(tmp_path):
    write_run(tmp_path, 0.6)
    write_run(tmp_path / "seed_9", 0.7, "model.ckpt-best")
    write_run(tmp_path / "seed_10", 0.5)
    write_run(tmp_path / "seed_11")  # was not evaluated
    (tmp_path / "seed_12").mkdir()  # has no checkpoint
    assert saved_runs(str(tmp_path)) == [str(tmp_path), *(str(tmp_path / f"seed_{seed}") for seed in (9, 10, 11))]
    assert checkpoint_of(str(tmp_path)) == str(tmp_path / "seed_9" / "model.ckpt-best")
    write_run(tmp_path, 0.8)
    assert checkpoint_of(str(tmp_path)) == str(tmp_path / "model.ckpt-3")


def test_the_lowest_seed_is_the_best_run_if_none_was_evaluated(tmp_path):
    for seed in (10, 9):
        write_run(tmp_path / f"seed_{seed}")
    assert checkpoint_of(str(tmp_path)) == str(tmp_path / "seed_9" / "model.ckpt-3")


def test_a_directory_without_a_run_has_no_checkpoint(tmp_path):
    assert checkpoint_of(str(tmp_path)) is None and checkpoint_of(str(tmp_path / "nowhere")) is None


def test_a_result_that_some_runs_lack_is_that_of_the_others(tmp_path):
    rows = {1: dict(accuracy=0.5, hard_accuracy=0.2), 2: dict(accuracy=0.7), 3: dict(accuracy=0.6, hard_accuracy=0.4)}
    for seed, row in rows.items():
        (tmp_path / f"seed_{seed}").mkdir()
        (tmp_path / f"seed_{seed}" / "eval_history.jsonl").write_text(json.dumps(dict(row, global_step=3)) + "\n")
    for order in ((1, 2, 3), (2, 1)):  # the best run, 2, lacks the result in both
        write_summary(str(tmp_path), [str(tmp_path / f"seed_{seed}") for seed in order], "accuracy")
        of_hard = json.loads((tmp_path / "eval_runs.json").read_text())["over_runs"]["hard_accuracy"]
        values = [rows[seed]["hard_accuracy"] for seed in order if "hard_accuracy" in rows[seed]]
        assert (of_hard["lowest"], of_hard["highest"], of_hard["median"]) == (
            min(values), max(values), statistics.median(values))
    rows[1]["accuracy"] = 0.9  # the best run has a result that another lacks
    (tmp_path / "seed_1" / "eval_history.jsonl").write_text(json.dumps(dict(rows[1], global_step=3)) + "\n")
    write_summary(str(tmp_path), [str(tmp_path / f"seed_{seed}") for seed in rows], "accuracy")
    assert json.loads((tmp_path / "eval_results.json").read_text())["hard_accuracy"] == pytest.approx(0.3)


def test_a_loss_that_is_infinite_in_one_run_has_no_standard_deviation(tmp_path):
    for seed, loss in ((1, 0.5), (2, math.inf)):
        (tmp_path / f"seed_{seed}").mkdir()
        row = dict(accuracy=0.5, loss=loss, global_step=3)
        (tmp_path / f"seed_{seed}" / "eval_history.jsonl").write_text(json.dumps(row) + "\n")
    write_summary(str(tmp_path), [str(tmp_path / f"seed_{seed}") for seed in (1, 2)], "accuracy")
    summary = json.loads((tmp_path / "eval_runs.json").read_text())["over_runs"]
    assert math.isnan(summary["loss"]["standard_deviation"]) and summary["loss"]["highest"] == math.inf
    assert summary["accuracy"] == dict(median=0.5, lowest=0.5, highest=0.5, standard_deviation=0.0)
