"""Results of multiple choice: the accuracy of all and of each level, the loss, and the file of answers."""

import json

import numpy as np
import pytest

from albert_tf.tasks.multiple_choice.answers import evaluate, write_predictions
from albert_tf.tasks.multiple_choice.data import MultipleChoiceExample

EXAMPLES = [
    MultipleChoiceExample("middle1.txt", "p", "q1", ("a", "b", "c"), 0, "middle"),
    MultipleChoiceExample("high1.txt", "p", "q2", ("a", "b"), 1, "high"),
    MultipleChoiceExample("high1.txt", "p", "q3", ("a", "b", "c"), 2, "high"),
]
PROBABILITIES = np.array([[0.5, 0.25, 0.25], [0.75, 0.25, 0.0], [0.0, 0.5, 0.5]])


def test_levels_are_scored_apart_and_together():
    results = evaluate(EXAMPLES, PROBABILITIES)
    loss = -np.log([0.5, 0.25, 0.5]).mean()
    assert results == dict(eval_accuracy=1 / 3, middle_accuracy=1.0, high_accuracy=0.0, eval_loss=results["loss"],
                           loss=results["loss"])
    np.testing.assert_allclose(results["loss"], loss)


def test_a_level_does_not_replace_the_accuracy_of_all():
    results = evaluate([EXAMPLES[0]._replace(level="eval"), *EXAMPLES[1:]], PROBABILITIES)
    assert set(results) == {"eval_accuracy", "high_accuracy", "eval_loss", "loss"} and results["eval_accuracy"] == 1 / 3


def test_a_model_that_diverged_is_reported():
    with pytest.raises(ValueError, match="NaN or infinite: training has diverged"):
        evaluate(EXAMPLES, np.full([3, 3], np.nan))


def test_questions_without_levels_have_one_score():
    assert set(evaluate([each._replace(level="") for each in EXAMPLES], PROBABILITIES)) == {
        "eval_accuracy", "eval_loss", "loss"}


def test_predictions_are_letters_of_choices_that_there_are(tmp_path):
    write_predictions(str(tmp_path), EXAMPLES, PROBABILITIES)
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert lines[1] == dict(id="high1.txt", question="q2", prediction="A", probabilities=[0.75, 0.25])
    assert [line["prediction"] for line in lines] == ["A", "A", "B"]
