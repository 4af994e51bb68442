"""Files of results, the choice of the best checkpoint, and the summary of runs with different seeds."""

import json
import math
import pathlib

import pytest
import tensorflow as tf

from albert_tf.training.evaluation import Evaluator, best_of, read_history, write_summary
from albert_tf.weights.runs import best_value, saved_step


def evaluate(directory, step, accuracy, loss=1.0, **arguments):
    """Evaluates as if the process had just started. Returns (the evaluator, whether the step was saved as the best)."""
    best = []
    evaluator = Evaluator(str(directory), lambda: dict(accuracy=accuracy, loss=loss), "accuracy",
                          lambda: best.append(step), **arguments)
    evaluator(step)
    return evaluator, bool(best)


def history(directory):
    return [(row["global_step"], row["accuracy"]) for row in read_history(str(directory), "accuracy")]


def test_the_best_is_remembered_over_restarts_and_a_step_that_is_evaluated_again_replaces_its_row(tmp_path):
    results = [(5, 0.3), (10, 0.5), (15, 0.4), (20, 0.5), (25, 0.6)]
    assert [step for step, accuracy in results if evaluate(tmp_path, step, accuracy)[1]] == [5, 10, 25]
    evaluator, is_best = evaluate(tmp_path, 25, 0.6)
    assert is_best and history(tmp_path) == results
    assert evaluator.has_evaluated(5) and not evaluator.has_evaluated(30)
    assert (tmp_path / "eval_results.txt").read_text() == "accuracy = 0.6\nglobal_step = 25\nloss = 1.0\n"
    with pytest.raises(ValueError, match="eval_history.jsonl has no pearson"):
        Evaluator(str(tmp_path), dict, "pearson", print)


def test_two_processes_that_evaluate_a_run_keep_each_others_rows_and_its_best_result(tmp_path):
    training, evaluation = (Evaluator(str(tmp_path), lambda value=value: dict(accuracy=value), "accuracy", lambda: None)
                            for value in (0.9, 0.4))
    for evaluator, step in ((training, 5), (evaluation, 10), (training, 15), (evaluation, 5)):
        evaluator(step)
    assert history(tmp_path) == [(5, 0.4), (10, 0.4), (15, 0.9)]
    assert (tmp_path / "best_trial.txt").read_text() == "15:15:0.9\n"
    (tmp_path / "best_trial.txt").write_text("5:5:0.4\n")  # of a process that was killed before it was written
    Evaluator(str(tmp_path), dict, "accuracy", lambda: None)
    assert (tmp_path / "best_trial.txt").read_text() == "15:15:0.9\n"


def test_equal_results_are_ordered_by_their_loss_and_nan_is_worse_than_any(tmp_path):
    results = [(5, 0.0662, 6.16), (10, 0.0662, 6.04), (15, 0.0662, 6.1), (20, 0.0662, 6.04), (25, math.nan, 1.0)]
    found = [evaluate(tmp_path, *result) for result in results]
    assert [is_best for _, is_best in found] == [True, True, False, False, False]
    assert found[-1][0].best_step == 10
    assert evaluate(tmp_path / "first", 5, math.nan)[1] and evaluate(tmp_path / "first", 10, 0.25)[1]
    assert best_of([dict(accuracy=0.5, loss=math.nan), dict(accuracy=0.5, loss=9.0)], "accuracy")["loss"] == 9.0
    assert best_value(str(tmp_path / "first")) == 0.25 and best_value(str(tmp_path / "none")) == float("-inf")


def test_a_process_that_does_not_write_leaves_no_file(tmp_path):
    evaluate(tmp_path, 5, 0.25, writes=False)
    assert not list(tmp_path.iterdir())


class SavedRun:
    """A run whose checkpoints, at the steps of its history, contain nothing but their step."""

    def __init__(self, directory, accuracies):
        self.directory, self._step = pathlib.Path(directory), tf.Variable(0, dtype=tf.int64)
        self._saved_as_best = []
        for step in accuracies:
            self.load(None, step)
            self._save(f"model.ckpt-{step}")
            self._evaluator(accuracies)(step)

    def evaluate_saved(self, accuracies):
        """Evaluates the checkpoints. Returns the steps that were saved as the best."""
        best = str(self.directory / "model.ckpt-best")
        before = saved_step(best)
        self._evaluator(accuracies).evaluate_saved(self.load)
        return [saved_step(best)] * (saved_step(best) != before)

    def load(self, prefix, step):
        if prefix and "damaged" in pathlib.Path(f"{prefix}.index").read_text("latin-1"):
            raise ValueError(f"{prefix} is damaged")
        self._step.assign(step)

    def remove(self, name):
        for path in self.directory.glob(f"{name}.*"):
            path.unlink()

    def _evaluator(self, accuracies):
        return Evaluator(str(self.directory), lambda: dict(accuracy=accuracies[int(self._step)]), "accuracy",
                         lambda: self._save("model.ckpt-best"))

    def _save(self, name):
        tf.train.Checkpoint(step=self._step).write(str(self.directory / name))


def test_saved_checkpoints_are_compared_with_each_other_and_the_best_is_saved_once(tmp_path):
    saved_run = SavedRun(tmp_path, {2: 0.4, 4: 0.8, 6: 0.9})
    assert saved_run.evaluate_saved({2: 0.3, 4: 0.7, 6: 0.6}) == [4]
    assert dict(history(tmp_path)) == {2: 0.3, 4: 0.7, 6: 0.6}
    assert (tmp_path / "best_trial.txt").read_text() == "6:4:0.7\n"


def test_a_best_checkpoint_whose_step_has_no_other_is_evaluated_too(tmp_path):
    saved_run = SavedRun(tmp_path, {2: 0.4, 4: 0.9, 6: 0.8})
    saved_run.remove("model.ckpt-4")
    assert saved_run.evaluate_saved({2: 0.4, 4: 0.9, 6: 0.8}) == []  # it is model.ckpt-best already
    assert dict(history(tmp_path)) == {2: 0.4, 4: 0.9, 6: 0.8}
    assert saved_run.evaluate_saved({2: 0.5, 4: 0.1, 6: 0.6}) == [6]


def test_a_checkpoint_that_cannot_be_loaded_is_skipped_by_name(tmp_path, caplog):
    saved_run = SavedRun(tmp_path, {2: 0.4, 4: 0.9, 6: 0.6})
    for name in ("model.ckpt-4", "model.ckpt-best"):
        (tmp_path / f"{name}.index").write_text("damaged")
    assert saved_run.evaluate_saved({2: 0.5, 6: 0.6}) == [6]
    for name in ("model.ckpt-4", "model.ckpt-best"):
        assert f"{tmp_path}/{name} is damaged; it is not evaluated" in caplog.text
    assert dict(history(tmp_path)) == {2: 0.5, 6: 0.6}


@pytest.mark.parametrize("removed, saved, best", [((4, 6), 8, 8), ((4,), None, 4)], ids=["new best", "removed"])
def test_the_best_checkpoint_is_kept_while_a_training_of_the_same_run_saves_and_removes(
        tmp_path, caplog, removed, saved, best):
    accuracies = {2: 0.4, 4: 0.9, 6: 0.8}
    saved_run = SavedRun(tmp_path, accuracies)
    load = saved_run.load
    if saved:
        saved_run.remove("model.ckpt-4")  # so that only model.ckpt-best has its step

    def load_while_training(prefix, step):
        if step == 2:
            if saved:
                load(None, saved)
                saved_run._save("model.ckpt-best")
            for step_to_remove in removed:
                saved_run.remove(f"model.ckpt-{step_to_remove}")
        if not pathlib.Path(f"{prefix}.index").exists():
            raise ValueError(f"no such checkpoint: {prefix}")
        load(prefix, step)

    saved_run.load = load_while_training
    assert saved_run.evaluate_saved(accuracies) == [saved] * bool(saved)  # what the training saved
    assert saved_step(str(tmp_path / "model.ckpt-best")) == best
    assert dict(history(tmp_path)) == accuracies  # the removed ones had results when their checkpoints existed
    said = ("model.ckpt-best was replaced meanwhile", "model.ckpt-best was saved meanwhile")
    assert [text in caplog.text for text in said] == [saved is not None] * 2


@pytest.mark.parametrize("accuracies", [{2: 0.4}, {}], ids=["damaged", "none"])
def test_checkpoints_of_which_none_can_be_loaded_are_an_error(tmp_path, accuracies):
    saved_run = SavedRun(tmp_path, accuracies)
    for path in tmp_path.glob("*.index"):
        path.write_text("damaged")
    with pytest.raises(ValueError, match="no checkpoint in .* can be read, so none was evaluated"):
        saved_run.evaluate_saved({})


def summary_of(directory, *rows):
    """The content of eval_runs.json for runs with these results."""
    folders = [directory / f"seed_{seed}" for seed in range(1, len(rows) + 1)]
    for folder, row in zip(folders, rows):
        folder.mkdir(exist_ok=True)
        (folder / "eval_history.jsonl").write_text(json.dumps(dict(row, global_step=3)) + "\n")
    write_summary(str(directory), list(map(str, folders)), "accuracy")
    return json.loads((directory / "eval_runs.json").read_text())


def test_a_result_that_some_runs_lack_is_that_of_the_others(tmp_path):
    rows = [dict(accuracy=0.5, hard_accuracy=0.2), dict(accuracy=0.7), dict(accuracy=0.6, hard_accuracy=0.4)]
    for best in (0.5, 0.9):  # the best run is the second one, which lacks the result, or the first one
        rows[0]["accuracy"] = best
        of_hard = summary_of(tmp_path, *rows)["over_runs"]["hard_accuracy"]
        assert [of_hard[name] for name in ("lowest", "highest", "median")] == pytest.approx([0.2, 0.4, 0.3])
    assert json.loads((tmp_path / "eval_results.json").read_text())["hard_accuracy"] == pytest.approx(0.3)


@pytest.mark.parametrize("losses", [(math.nan, 0.2, 0.9), (0.2, math.nan, 0.9), (0.2, 0.9, math.nan)], ids=str)
def test_what_is_computed_over_runs_is_nan_if_a_value_is_whatever_its_seed(losses, tmp_path):
    summary = summary_of(tmp_path, *(dict(accuracy=0.5, loss=loss) for loss in losses))["over_runs"]
    assert all(map(math.isnan, summary["loss"].values())) and summary["accuracy"]["median"] == 0.5
    assert math.isnan(json.loads((tmp_path / "eval_results.json").read_text())["loss"])


def test_scores_and_losses_that_are_not_finite_are_no_best_run_and_have_no_standard_deviation(tmp_path):
    summary = summary_of(tmp_path, dict(accuracy=math.nan), dict(accuracy=0.5), dict(accuracy=math.nan))
    assert summary["best_run"] == "seed_2"
    summary = summary_of(tmp_path, dict(accuracy=0.5, loss=0.5), dict(accuracy=0.5, loss=math.inf))["over_runs"]
    assert math.isnan(summary["loss"]["standard_deviation"]) and summary["loss"]["highest"] == math.inf
    assert summary["accuracy"] == dict(median=0.5, lowest=0.5, highest=0.5, standard_deviation=0.0)
