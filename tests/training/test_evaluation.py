"""Files of results, and the choice of the best checkpoint."""

import pytest

from albert_tf.training.evaluation import Evaluator, read_history


@pytest.fixture
def run(tmp_path):
    """(evaluate(step, accuracy), steps that were saved as best). Each call acts as if the process had just started."""
    best = []

    def evaluate(step, accuracy, **arguments):
        evaluator = Evaluator(str(tmp_path), lambda: dict(accuracy=accuracy, loss=1.0), "accuracy",
                              lambda: best.append(step), **arguments)
        return evaluator(step)

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
