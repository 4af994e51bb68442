"""What run_race alone has: levels, layouts, the user's own questions, accumulation and checkpointing."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tuning import results_of

from albert_tf.commands.flags import RECIPES
from albert_tf.tasks.multiple_choice.data import read_examples, read_json_examples
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


def test_predictions_are_the_most_probable_choices_and_scored_as_evaluation_scores(run, golden, tmp_path):
    results = results_of(run.path)
    of_all, middle, high = (results[f"{name}_accuracy"] for name in ("eval", "middle", "high"))
    np.testing.assert_allclose(of_all, (2 * middle + 3 * high) / 5)
    examples, predictions = read_examples(str(golden / "race"), "test"), predictions_of(run.path)
    assert [each["id"] for each in predictions] == [example.example_id for example in examples]
    right = [each["prediction"] == "ABCD"[example.label] for each, example in zip(predictions, examples)]
    assert results_of(run.path, "predict_results")["eval_accuracy"] == np.mean(right)
    for each in predictions:
        np.testing.assert_allclose(sum(each["probabilities"]), 1, atol=1e-5)
        assert each["prediction"] == "ABCD"[int(np.argmax(each["probabilities"]))]
    run(output_dir=tmp_path, init_checkpoint=run.path, do_predict=True, predict_split="dev")
    scores = results_of(tmp_path, "predict_results")
    assert {name: scores[name] for name in results} == pytest.approx(results, rel=1e-5)


def test_both_layouts_share_their_records(run, golden, tmp_path):
    printed = run(output_dir=tmp_path, init_checkpoint=run.path, do_eval=True,
                  data_dir=golden / "race" / "one_file_per_passage")
    assert "records made" not in printed
    assert results_of(tmp_path) == pytest.approx(results_of(run.path), rel=1e-5)


def test_one_level_alone(run, folder):
    run(output_dir=folder / "high", high_only=True, train_step=1, do_train=True, do_eval=True, num_keep_checkpoint=1)
    results = results_of(folder / "high")
    assert set(results) == SCORES - {"middle_accuracy"} and results["high_accuracy"] == results["eval_accuracy"]


@pytest.mark.long
@pytest.mark.parametrize("flags", [dict(gradient_checkpointing=True),
                                   dict(gradient_checkpointing=True, gradient_accumulation_steps=2, dropout_prob=0.0)])
def test_gradient_checkpointing_and_accumulation_train_alike(run, folder, flags):
    training = dict(do_train=True, train_batch_size=2, eagerly=False)
    without = folder / f"without_{len(flags)}"  # what drops depends on the part of the batch
    run(output_dir=without, **training, **{name: flags[name] for name in flags if name == "dropout_prob"})
    run(output_dir=folder / f"checkpointed_{len(flags)}", **training, **flags)
    ours, expected = (tf.train.load_checkpoint(str(each / "model.ckpt-2"))
                      for each in (folder / f"checkpointed_{len(flags)}", without))
    kernels = [key for key in expected.get_variable_to_shape_map() if "dense/bert" in key and "kernel" in key]
    assert kernels
    for key in kernels:
        np.testing.assert_allclose(ours.get_tensor(key), expected.get_tensor(key), atol=2e-6, err_msg=key)


@pytest.mark.long
def test_questions_of_ones_own_with_as_many_choices_as_each_has(run, folder):
    flags = dict(output_dir=folder / "own", data_dir=folder, data_format="jsonl", export_dir=folder / "own_served",
                 train_batch_size=2)
    run(do_train=True, do_eval=True, do_predict=True, **flags)
    assert set(results_of(folder / "own")) == SCORES - {"middle_accuracy", "high_accuracy"}
    predictions = predictions_of(folder / "own")
    assert [len(each["probabilities"]) for each in predictions] == [2, 5, 3, 4]
    assert not (folder / "own" / "predict_results.txt").exists()  # test.jsonl has no answers
    check_served(folder / "own_served", read_json_examples(str(folder / "test.jsonl")), predictions, num_choices=5)
    assert from_pretrained(str(folder / "own"), "multiple_choice").settings.num_choices == 5
    (folder / "three").mkdir()
    (folder / "three/dev.jsonl").write_text(json.dumps(QUESTIONS[2]) + "\n")
    flags.update(data_dir=folder / "three", export_dir=folder / "three_served")
    run(**flags)
    assert options_of(folder / "three_served").shape.as_list() == [None, 5]  # as it was trained


def options_of(directory):
    """The input of an exported SavedModel for the options of a question."""
    signature = tf.saved_model.load(str(directory)).signatures["serving_default"]
    return signature.structured_input_signature[1]["options"]


def check_served(directory, examples, predictions, num_choices):
    """Checks that a SavedModel has the script's probabilities, and 0 for choices that a question does not have."""
    served = tf.saved_model.load(str(directory)).signatures["serving_default"]
    options = [[*example.options, *[""] * (num_choices - len(example.options))] for example in examples]
    answers = served(context=tf.constant([example.context for example in examples]), options=tf.constant(options),
                     question=tf.constant([example.question for example in examples]))
    for row, answer, expected in zip(answers["probabilities"].numpy(), answers["predictions"].numpy(), predictions):
        count = len(expected["probabilities"])
        np.testing.assert_allclose(row[:count], expected["probabilities"], atol=1e-5)
        assert not row[count:].any() and "ABCDE"[answer] == expected["prediction"]


# Learning rate, ALBERT dropout: Lan et al., 2020, table 14, and the release's README for v2 models.
@pytest.mark.parametrize("recipe, learning_rate, dropout", [("race", 2e-5, 0.1), ("race_v2", 1e-5, 0.0)])
def test_recipes(recipe, learning_rate, dropout):
    assert json.loads((RECIPES / f"{recipe}.json").read_text()) == dict(
        learning_rate=learning_rate, train_batch_size=32, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout, dropout_prob=0.1, train_step=12000, warmup_step=1000, max_seq_length=512)
