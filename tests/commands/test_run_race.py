"""run_race.py as a user runs it: training, evaluation, prediction and export with RACE and the user's own data."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession

from albert_tf.commands.flags import RECIPES
from albert_tf.tasks.multiple_choice.data import LEVELS, read_examples, read_json_examples
from albert_tf.weights.from_pretrained import from_pretrained
from albert_tf.weights.settings import settings_in

CONFIG = dict(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64)
SCORES = {"eval_accuracy", "middle_accuracy", "high_accuracy", "eval_loss", "loss", "global_step"}
# Two to five choices.
QUESTIONS = [dict(id=str(i), context="The sky is blue.", question="It is _.", answer="ABCDE"[i % n],
                  options=["blue", "red", "green", "grey", "white"][:n]) for i, n in enumerate((2, 5, 3, 4))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for split in ("train", "dev"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    unanswered = [dict(question, answer=None) for question in QUESTIONS]
    (folder / "test.jsonl").write_text("".join(json.dumps(question) + "\n" for question in unanswered))
    return folder


@pytest.fixture(scope="module")
def script(golden, folder):
    flags = dict(albert_config_file=folder / "config.json", data_dir=golden / "race", max_seq_length=48,
                 max_qa_length=24, spm_model_file=golden / "tiny_spm" / "tiny.model", cached_dir=folder / "cached",
                 train_batch_size=2, train_step=2, warmup_step=0, save_checkpoints_steps=1)
    with ScriptSession("run_race", eagerly=True, **flags) as session:
        yield session


@pytest.fixture(scope="module")
def trained(script, folder):
    """The output directory of a run on RACE in graphs, like a user's run, and its export."""
    script.run(output_dir=folder / "trained", do_predict=True, export_dir=folder / "served", num_keep_checkpoint=1,
               eagerly=False)
    return folder / "trained"


def results_of(directory, name="eval_results"):
    lines = (directory / f"{name}.txt").read_text().splitlines()
    return {key: float(value) for key, value in (line.split(" = ") for line in lines)}


def predictions_of(directory):
    return [json.loads(line) for line in (directory / "predictions.jsonl").read_text().splitlines()]


@pytest.mark.both_stacks
def test_race_is_trained_evaluated_by_level_and_predicted(trained, golden):
    results = results_of(trained)
    assert set(results) == SCORES
    of_all, middle, high = (results[f"{name}_accuracy"] for name in ("eval", "middle", "high"))
    np.testing.assert_allclose(of_all, (2 * middle + 3 * high) / 5)
    assert {"model.ckpt-best.index", "model.ckpt-2.index", "best_trial.txt", "tiny.model"} <= set(os.listdir(trained))
    assert "model.ckpt-1.index" not in os.listdir(trained)
    assert "datasets:\n- RACE/train\n- RACE/dev\n" in (trained / "README.md").read_text("utf-8")
    examples, predictions = read_examples(str(golden / "race"), "test"), predictions_of(trained)
    assert [each["id"] for each in predictions] == [example.example_id for example in examples]
    right = [each["prediction"] == "ABCD"[example.label] for each, example in zip(predictions, examples)]
    scores = results_of(trained, "predict_results")
    assert set(scores) == SCORES and scores["eval_accuracy"] == np.mean(right)
    assert scores["global_step"] == results["global_step"]
    for each in predictions:
        np.testing.assert_allclose(sum(each["probabilities"]), 1, atol=1e-5)
        assert each["prediction"] == "ABCD"[int(np.argmax(each["probabilities"]))]


def test_prediction_of_another_split_scores_as_evaluation_does(script, trained, folder):
    script.run(output_dir=folder / "again", init_checkpoint=trained, do_train=False, do_eval=False, do_predict=True,
               predict_split="dev")
    scores, results = (results_of(*where) for where in ((folder / "again", "predict_results"), (trained,)))
    for name in SCORES - {"global_step"}:
        np.testing.assert_allclose(scores[name], results[name], rtol=1e-5)


def test_a_run_keeps_the_length_of_question_and_option(script, trained, folder):
    directory = shutil.copytree(trained, folder / "copy")  # other tests read the predictions of the run itself
    assert settings_in(str(directory)).max_qa_length == 24
    flags = dict(output_dir=directory, do_train=False, do_eval=False, do_predict=True, predict_split="dev")
    script.run(**flags)
    expected = predictions_of(directory)
    script.run(max_qa_length=None, **flags)
    assert predictions_of(directory) == expected
    assert "max_qa_length is 24 in the run and 8 in --max_qa_length" in script.run(max_qa_length=8, **flags)
    assert predictions_of(directory) == expected


def test_both_layouts_train_alike_and_share_their_records(script, trained, folder, golden):
    printed = script.run(output_dir=folder / "one_file", data_dir=golden / "race" / "one_file_per_passage",
                         eagerly=False)
    assert "records made" not in printed
    assert results_of(folder / "one_file") == results_of(trained)


def test_one_level_alone(script, folder):
    script.run(output_dir=folder / "high", high_only=True, train_step=1)
    results = results_of(folder / "high")
    assert set(results) == SCORES - {"middle_accuracy"} and results["high_accuracy"] == results["eval_accuracy"]


@pytest.mark.long
@pytest.mark.parametrize("flags", [dict(gradient_checkpointing=True),
                                   dict(gradient_checkpointing=True, gradient_accumulation_steps=2, dropout_prob=0.0)])
def test_gradient_checkpointing_and_accumulation_train_alike(script, trained, folder, flags):
    without = trained
    if "dropout_prob" in flags:  # what drops depends on the part of the batch
        without = folder / "undropped"
        script.run(output_dir=without, dropout_prob=0.0, eagerly=False)
    script.run(output_dir=folder / f"checkpointed_{len(flags)}", eagerly=False, **flags)
    ours, expected = (tf.train.load_checkpoint(str(each / "model.ckpt-2"))
                      for each in (folder / f"checkpointed_{len(flags)}", without))
    kernels = [key for key in expected.get_variable_to_shape_map() if "dense/bert" in key and "kernel" in key]
    assert kernels
    for key in kernels:
        np.testing.assert_allclose(ours.get_tensor(key), expected.get_tensor(key), atol=2e-6, err_msg=key)


@pytest.mark.long
def test_questions_of_ones_own_with_as_many_choices_as_each_has(script, folder):
    flags = dict(output_dir=folder / "own", data_dir=folder, data_format="jsonl", export_dir=folder / "own_served")
    script.run(do_predict=True, **flags)
    assert set(results_of(folder / "own")) == SCORES - {"middle_accuracy", "high_accuracy"}
    predictions = predictions_of(folder / "own")
    assert [len(each["probabilities"]) for each in predictions] == [2, 5, 3, 4]
    assert not (folder / "own" / "predict_results.txt").exists()  # test.jsonl has no answers
    check_served(folder / "own_served", read_json_examples(str(folder / "test.jsonl")), predictions, num_choices=5)
    assert from_pretrained(str(folder / "own"), "multiple_choice").num_choices == 5
    (folder / "three").mkdir()
    (folder / "three/dev.jsonl").write_text(json.dumps(QUESTIONS[2]) + "\n")
    flags.update(data_dir=folder / "three", export_dir=folder / "three_served")
    script.run(do_train=False, do_eval=False, **flags)
    assert options_of(folder / "three_served").shape.as_list() == [None, 5]  # as it was trained


@pytest.mark.long
def test_a_learnable_task_is_learned(script, tmp_path):
    """The right choice is "honey", at any position."""
    for split in ("train", "dev"):
        rows = [dict(context="Lena keeps bees.", question="She sells _.", answer="ABCD"[i % 4],
                     options=["honey" if j == i % 4 else "paint" for j in range(2 + max(i % 4, 1))]) for i in range(8)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    script.run(output_dir=tmp_path / "out", cached_dir=tmp_path, data_dir=tmp_path, data_format="jsonl",
               train_batch_size=8, train_step=60, save_checkpoints_steps=60, warmup_step=20, learning_rate=0.005,
               eagerly=False)
    assert results_of(tmp_path / "out")["eval_accuracy"] == 1


@pytest.mark.both_stacks
def test_the_export_answers_raw_text_ids_and_examples_as_the_script_does(trained, folder, golden):
    examples, predictions = read_examples(str(golden / "race"), "test"), predictions_of(trained)
    check_served(folder / "served", examples, predictions, num_choices=4)
    served = tf.saved_model.load(str(folder / "served"))
    path = next((folder / "cached").glob("race_test_*.tfrecord"))
    records = next(iter(tf.data.TFRecordDataset(str(path)).batch(9)))
    expected = [each["probabilities"] for each in predictions]
    np.testing.assert_allclose(served.signatures["examples"](examples=records)["probabilities"], expected, atol=1e-5)
    features = tf.io.parse_example(records, {name: tf.io.FixedLenFeature([4 * 48], tf.int64)
                                             for name in ("input_ids", "input_mask", "segment_ids")})
    ids = {name: tf.cast(value, tf.int32) for name, value in features.items()}
    np.testing.assert_allclose(served.signatures["ids"](**ids)["probabilities"], expected, atol=1e-5)


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


@pytest.mark.parametrize("flags, message", [
    (dict(high_only=True, middle_only=True), "high_only and middle_only exclude each other: set at most one of them"),
    (dict(data_format="jsonl", high_only=True), "high_only and middle_only are for RACE"),
    (dict(data_dir="/nowhere"), "no such folder: /nowhere/train/middle"),
    (dict(data_dir="/nowhere", data_format="jsonl"), "no such file: /nowhere/train.jsonl"),
    (dict(do_train=False, do_eval=False), "nothing to do: set --do_train, --do_eval, --do_predict or --export_dir"),
    (dict(do_train=False), "there is no checkpoint in"),
    (dict(recipe="race_v3"), "no recipe 'race_v3'"),
    (dict(max_seq_length=512), "--max_seq_length=512 is more than the config's max_position_embeddings, 64"),
])
def test_a_wrong_flag_ends_in_one_line(script, folder, flags, message):
    printed = script.run(expect=1, **{**dict(output_dir=folder / "wrong"), **flags})
    (line,) = [line for line in printed.splitlines() if ": error: " in line]
    assert line.startswith("run_race: error: ") and message in line and "Traceback" not in printed


def test_a_passage_that_is_not_as_it_should_be_ends_in_one_line(script, folder, tmp_path):
    for level in LEVELS:
        (tmp_path / "RACE" / "train" / level).mkdir(parents=True)
        (tmp_path / "RACE" / "train" / level / "all.txt").write_text('{"article": "It rained."')
    printed = script.run(expect=1, output_dir=tmp_path / "out", data_dir=tmp_path)
    assert "RACE/train/middle/all.txt line 1: not JSON" in printed and "Traceback" not in printed
