"""The summary of runs with different seeds."""

import json
import math

from albert_tf.training.several_runs import write_summary


def test_a_loss_that_is_infinite_in_one_run_has_no_standard_deviation(tmp_path):
    for seed, loss in ((1, 0.5), (2, math.inf)):
        (tmp_path / f"seed_{seed}").mkdir()
        row = dict(accuracy=0.5, loss=loss, global_step=3)
        (tmp_path / f"seed_{seed}" / "eval_history.jsonl").write_text(json.dumps(row) + "\n")
    write_summary(str(tmp_path), {seed: str(tmp_path / f"seed_{seed}") for seed in (1, 2)}, "accuracy")
    summary = json.loads((tmp_path / "eval_runs.json").read_text())["over_runs"]
    assert math.isnan(summary["loss"]["standard_deviation"]) and summary["loss"]["highest"] == math.inf
    assert summary["accuracy"] == dict(median=0.5, lowest=0.5, highest=0.5, standard_deviation=0.0)
