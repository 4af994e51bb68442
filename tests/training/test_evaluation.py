"""Files of results, the choice of the best checkpoint, and the summary of runs with different seeds."""

import json
import math
import pathlib
import statistics

import pytest
import tensorflow as tf

from albert_tf.training.checkpoints import saved_step
from albert_tf.training.evaluation import Evaluator, best_of, best_value, read_history, write_summary


@pytest.fixture
def run(tmp_path):
    """(evaluate(step, accuracy), steps that were saved as best). Each call acts as if the process had just started."""
    best = []

    def evaluate(step, accuracy, **arguments):
        evaluator = Evaluator(str(tmp_path), lambda: dict(accuracy=accuracy, loss=1.0), "accuracy",
                              lambda: best.append(step), **arguments)
        evaluator(step)

    return evaluate, best


def test_the_best_is_remembered_over_restarts(run, tmp_path):
    evaluate, best = run
    results = [(5, 0.3), (10, 0.5), (15, 0.4), (20, 0.5), (25, 0.6)]
    for step, accuracy in results:
        evaluate(step, accuracy)
    assert best == [5, 10, 25]
    assert [(row["global_step"], row["accuracy"]) for row in read_history(str(tmp_path), "accuracy")] == results


def test_a_step_that_is_evaluated_again_replaces_its_row(run, tmp_path):
    evaluate, best = run
    evaluate(5, 0.3)
    evaluate(5, 0.3)
    assert best == [5, 5] and len(read_history(str(tmp_path), "accuracy")) == 1


def test_two_processes_that_evaluate_a_run_keep_each_others_rows(tmp_path):
    training, evaluation = (Evaluator(str(tmp_path), lambda value=value: dict(accuracy=value), "accuracy", lambda: None)
                            for value in (0.3, 0.4))
    for evaluator, step in ((training, 5), (evaluation, 10), (training, 15), (evaluation, 5)):
        evaluator(step)
    assert [(row["global_step"], row["accuracy"]) for row in read_history(str(tmp_path), "accuracy")] == [
        (5, 0.4), (10, 0.4), (15, 0.3)]


def test_best_trial_has_the_best_result_of_two_processes_that_evaluate_a_run(tmp_path):
    training, evaluation = (Evaluator(str(tmp_path), lambda value=value: dict(accuracy=value), "accuracy", lambda: None)
                            for value in (0.9, 0.4))
    training(10)
    evaluation(5)
    assert (tmp_path / "best_trial.txt").read_text() == "10:10:0.9\n"
    (tmp_path / "best_trial.txt").write_text("5:5:0.4\n")  # of a process that was killed before it was written
    Evaluator(str(tmp_path), dict, "accuracy", lambda: None)
    assert (tmp_path / "best_trial.txt").read_text() == "10:10:0.9\n"


def test_equal_results_are_ordered_by_their_loss(tmp_path):
    best = []
    for step, loss in [(5, 6.16), (10, 6.04), (15, 6.1), (20, 6.04)]:
        evaluator = Evaluator(str(tmp_path), lambda loss=loss: dict(accuracy=0.0662, loss=loss), "accuracy",
                              lambda step=step: best.append(step), patience=2)
        evaluator(step)
    assert best == [5, 10] and evaluator.best_step == 10
    assert evaluator.patience_is_over


def test_results_that_are_not_numbers_are_worse_than_any(run, tmp_path):
    evaluate, best = run
    for step, accuracy in [(5, float("nan")), (10, 0.25), (15, float("nan"))]:
        evaluate(step, accuracy)
    assert best == [5, 10]
    assert best_of([dict(accuracy=0.5, loss=float("nan")), dict(accuracy=0.5, loss=9.0)], "accuracy")["loss"] == 9.0
    assert best_value(str(tmp_path)) == 0.25


def test_patience_counts_only_evaluations_of_later_steps_than_the_best(run, tmp_path):
    evaluate, _ = run
    for step, accuracy in [(20, 0.9), (5, 0.1), (10, 0.2), (15, 0.3)]:  # an evaluation has added the earlier steps
        evaluate(step, accuracy)
    evaluator = Evaluator(str(tmp_path), lambda: dict(accuracy=0.4, loss=1.0), "accuracy", print, patience=2)
    assert not evaluator.patience_is_over
    evaluator(25)
    assert not evaluator.patience_is_over
    evaluator(30)
    assert evaluator.patience_is_over
    assert [row["global_step"] for row in read_history(str(tmp_path), "accuracy")] == [5, 10, 15, 20, 25, 30]


def test_a_directory_of_another_task_is_refused(run, tmp_path):
    run[0](5, 0.25)
    with pytest.raises(ValueError, match="eval_history.jsonl has no pearson: .* of another task, choose another"):
        Evaluator(str(tmp_path), dict, "pearson", print)


def test_the_last_results_are_a_file_of_the_releases_form(run, tmp_path):
    run[0](5, 0.25)
    assert (tmp_path / "eval_results.txt").read_text() == "accuracy = 0.25\nglobal_step = 5\nloss = 1.0\n"


def test_a_process_that_does_not_write_leaves_no_file(run, tmp_path):
    run[0](5, 0.25, writes=False)
    assert not list(tmp_path.iterdir())


def test_a_run_remembers_which_checkpoints_it_evaluated(run, tmp_path):
    run[0](5, 0.25)
    evaluator = Evaluator(str(tmp_path), dict, "accuracy", print)
    assert evaluator.has_evaluated(5) and not evaluator.has_evaluated(10)


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
        self._saved_as_best = []
        self._evaluator(accuracies).evaluate_saved(self.load)
        return self._saved_as_best

    def load(self, prefix, step):
        if prefix and "damaged" in pathlib.Path(f"{prefix}.index").read_text("latin-1"):
            raise ValueError(f"{prefix} is damaged")
        self._step.assign(step)

    def remove(self, name):
        for path in self.directory.glob(f"{name}.*"):
            path.unlink()

    def history(self):
        return {row["global_step"]: row["accuracy"] for row in read_history(str(self.directory), "accuracy")}

    def _evaluator(self, accuracies):
        return Evaluator(str(self.directory), lambda: dict(accuracy=accuracies[int(self._step)]), "accuracy",
                         self._save_best)

    def _save_best(self):
        self._saved_as_best.append(int(self._step))
        self._save("model.ckpt-best")

    def _save(self, name):
        tf.train.Checkpoint(step=self._step).write(str(self.directory / name))


def test_saved_checkpoints_are_compared_with_each_other_and_the_best_is_saved_once(tmp_path):
    saved_run = SavedRun(tmp_path, {2: 0.4, 4: 0.8, 6: 0.9})
    assert saved_run.evaluate_saved({2: 0.3, 4: 0.7, 6: 0.6}) == [4]
    assert saved_run.history() == {2: 0.3, 4: 0.7, 6: 0.6}
    assert (tmp_path / "best_trial.txt").read_text() == "6:4:0.7\n"


def test_a_best_checkpoint_whose_step_has_no_other_is_evaluated_too(tmp_path):
    saved_run = SavedRun(tmp_path, {2: 0.4, 4: 0.9, 6: 0.8})
    saved_run.remove("model.ckpt-4")
    assert saved_run.evaluate_saved({2: 0.4, 4: 0.9, 6: 0.8}) == []  # it is model.ckpt-best already
    assert saved_run.history() == {2: 0.4, 4: 0.9, 6: 0.8}
    assert saved_run.evaluate_saved({2: 0.5, 4: 0.1, 6: 0.6}) == [6]


def test_better_results_of_checkpoints_that_no_longer_exist_are_removed(tmp_path):
    saved_run = SavedRun(tmp_path, {2: 0.1, 4: 0.9, 6: 0.6})
    for step in (2, 4, 6):
        saved_run.remove(f"model.ckpt-{step}")
    assert saved_run.evaluate_saved({4: 0.25}) == []
    assert saved_run.history() == {2: 0.1, 4: 0.25}
    assert json.loads((tmp_path / "eval_results.json").read_text()) == dict(accuracy=0.25, global_step=4)
    assert best_value(str(tmp_path)) == 0.25


def test_a_checkpoint_that_cannot_be_loaded_is_skipped_by_name(tmp_path, caplog):
    saved_run = SavedRun(tmp_path, {2: 0.4, 4: 0.9, 6: 0.6})
    for name in ("model.ckpt-4", "model.ckpt-best"):
        (tmp_path / f"{name}.index").write_text("damaged")
    assert saved_run.evaluate_saved({2: 0.5, 6: 0.6}) == [6]
    for name in ("model.ckpt-4", "model.ckpt-best"):
        assert f"{tmp_path}/{name} is damaged; it is not evaluated" in caplog.text
    assert saved_run.history() == {2: 0.5, 6: 0.6}


def test_a_best_checkpoint_that_a_training_saves_meanwhile_is_kept_and_its_results_are_not_mistaken(tmp_path, caplog):
    accuracies = {2: 0.4, 4: 0.9, 6: 0.8}
    saved_run = SavedRun(tmp_path, accuracies)
    saved_run.remove("model.ckpt-4")  # so that only model.ckpt-best has its step
    load = saved_run.load

    def load_while_training(prefix, step):
        if step == 2:
            load(None, 8)
            saved_run._save("model.ckpt-best")
            saved_run.remove("model.ckpt-6")  # the oldest one that training has kept
        if not list(tmp_path.glob(f"{pathlib.Path(prefix).name}.index")):
            raise ValueError(f"no such checkpoint: {prefix}")
        load(prefix, step)

    saved_run.load = load_while_training
    assert saved_run.evaluate_saved(accuracies) == []
    assert saved_step(str(tmp_path / "model.ckpt-best")) == 8
    assert "model.ckpt-best was replaced meanwhile by a training of the same run; it is not evaluated" in caplog.text
    assert "model.ckpt-best was saved meanwhile by a training of the same run, and is kept" in caplog.text
    assert saved_run.history() == accuracies  # steps 4 and 6 had results when their checkpoints still existed


def test_the_best_checkpoint_is_kept_if_a_training_removes_the_other_one_of_its_step_meanwhile(tmp_path):
    accuracies = {2: 0.4, 4: 0.9, 6: 0.8}
    saved_run = SavedRun(tmp_path, accuracies)
    load = saved_run.load

    def load_while_training(prefix, step):
        if step == 2:
            saved_run.remove("model.ckpt-4")
        if not pathlib.Path(f"{prefix}.index").exists():
            raise ValueError(f"no such checkpoint: {prefix}")
        load(prefix, step)

    saved_run.load = load_while_training
    assert saved_run.evaluate_saved(accuracies) == []
    assert saved_run.history() == accuracies and saved_step(str(tmp_path / "model.ckpt-best")) == 4


@pytest.mark.parametrize("accuracies", [{2: 0.4}, {}], ids=["damaged", "none"])
def test_checkpoints_of_which_none_can_be_loaded_are_an_error(tmp_path, accuracies):
    saved_run = SavedRun(tmp_path, accuracies)
    for path in tmp_path.glob("*.index"):
        path.write_text("damaged")
    with pytest.raises(ValueError, match="no checkpoint in .* can be read, so none was evaluated"):
        saved_run.evaluate_saved({})


def test_the_best_value_of_a_run_that_was_not_evaluated_is_below_any_other(tmp_path):
    assert best_value(str(tmp_path)) == float("-inf")


def test_a_history_without_the_name_of_its_best_result_is_damaged(tmp_path):
    (tmp_path / "eval_history.jsonl").write_text('{"accuracy": 0.5, "global_step": 4}\n')
    with pytest.raises(ValueError, match="eval_history.jsonl: 'best_metric' must be the name of a result"):
        best_value(str(tmp_path))


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


def test_a_run_whose_scores_are_nan_is_not_the_best(tmp_path):
    for seed, accuracy in ((1, math.nan), (2, 0.5), (3, math.nan)):
        (tmp_path / f"seed_{seed}").mkdir()
        row = dict(accuracy=accuracy, global_step=3)
        (tmp_path / f"seed_{seed}" / "eval_history.jsonl").write_text(json.dumps(row) + "\n")
    write_summary(str(tmp_path), [str(tmp_path / f"seed_{seed}") for seed in (1, 2, 3)], "accuracy")
    assert json.loads((tmp_path / "eval_runs.json").read_text())["best_run"] == "seed_2"
