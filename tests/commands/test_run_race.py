"""What run_race alone has: levels, and the user's own questions."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tuning import results_of

from albert_tf.tasks.multiple_choice.data import read_examples
from albert_tf.weights.from_pretrained import from_pretrained

SCORES = {"eval_accuracy", "middle_accuracy", "high_accuracy", "eval_loss", "loss", "global_step"}
# Two to five choices.
QUESTIONS = [dict(id=str(i), context="The sky is blue.", question="It is _.", answer="ABCDE"[i % n],
                  options=["blue", "red", "green", "grey", "white"][:n]) for i, n in enumerate((2, 5, 3, 4))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    for split in ("train", "dev"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    unanswered = [dict(question, answer=None) for question in QUESTIONS]
    (folder / "test.jsonl").write_text("".join(json.dumps(question) + "\n" for question in unanswered))
    return folder


@pytest.fixture(scope="module")
def run(run_of):
    return run_of("multiple choice")


def predictions_of(directory):
    return [json.loads(line) for line in (directory / "predictions.jsonl").read_text().splitlines()]


def test_predictions_are_scored_as_evaluation_scores(run, golden, tmp_path):
    results = results_of(run.path)
    of_all, middle, high = (results[f"{name}_accuracy"] for name in ("eval", "middle", "high"))
    np.testing.assert_allclose(of_all, (2 * middle + 3 * high) / 5)
    examples, predictions = read_examples(str(golden / "race"), "test"), predictions_of(run.path)
    assert [each["id"] for each in predictions] == [example.example_id for example in examples]
    right = [each["prediction"] == "ABCD"[example.label] for each, example in zip(predictions, examples)]
    assert results_of(run.path, "predict_results")["eval_accuracy"] == np.mean(right)
    run(output_dir=tmp_path, init_checkpoint=run.path, do_predict=True, predict_split="dev")
    scores = results_of(tmp_path, "predict_results")
    assert {name: scores[name] for name in results} == pytest.approx(results, rel=1e-5)


@pytest.mark.long
def test_questions_of_ones_own_with_as_many_choices_as_each_has(run, folder):
    flags = dict(output_dir=folder / "own", data_dir=folder, data_format="jsonl", train_batch_size=2)
    run(do_train=True, do_eval=True, do_predict=True, **flags)
    assert set(results_of(folder / "own")) == SCORES - {"middle_accuracy", "high_accuracy"}
    predictions = predictions_of(folder / "own")
    assert [len(each["probabilities"]) for each in predictions] == [2, 5, 3, 4]
    assert not (folder / "own" / "predict_results.txt").exists()  # test.jsonl has no answers
    assert from_pretrained(str(folder / "own"), "multiple_choice").settings.num_choices == 5
    (folder / "three").mkdir()
    (folder / "three/dev.jsonl").write_text(json.dumps(QUESTIONS[2]) + "\n")
    run(**dict(flags, data_dir=folder / "three", export_dir=folder / "served"))
    signature = tf.saved_model.load(str(folder / "served")).signatures["serving_default"]
    assert signature.structured_input_signature[1]["options"].shape.as_list() == [None, 5]  # as it was trained
