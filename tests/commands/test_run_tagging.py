"""What run_tagging alone has: tags that a run knows, formats of files, windows, plain tags, exports of text."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tiny import TINY_TEXT
from tuning import SENTENCES, TAGS, TRAINING, results_of, write_tagged

import albert_tf
from albert_tf.tasks.tagging.data import read_tagged_text
from albert_tf.weights.settings import settings_in

# A place follows "in"; the long sentence is read through windows.
SCORES = {"accuracy", "precision", "recall", "f1", "f1/place", "eval_loss", "loss", "global_step"}


@pytest.fixture(scope="module")
def folder(inputs):
    return inputs


@pytest.fixture(scope="module")
def script(session, inputs, config_file, tiny_spm):
    """A function that runs the command on the places."""
    flags = dict(albert_config_file=config_file, spm_model_file=tiny_spm, train_file=inputs / "places.conll",
                 eval_file=inputs / "places.conll", cached_dir=inputs / "cached")
    return lambda expect=0, script="run_tagging", **changed: session.run(script=script, expect=expect, **(
        changed if script != "run_tagging" else {**flags, **TRAINING, "max_seq_length": 32, **changed}))


@pytest.fixture(scope="module")
def trained(script, inputs):
    """A run that has learned its training set."""
    config = inputs / "config.json"
    config.write_text(TINY_TEXT.replace(initializer_range=0.1).to_json_string())
    printed = script(albert_config_file=config, output_dir=inputs / "trained", do_train=True, do_eval=True,
                     do_predict=True, train_step=200,
                     predict_file=inputs / "words.conll", learning_rate=0.003, save_checkpoints_steps=200,
                     hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                     classifier_dropout_prob=0, eagerly=False)
    assert "the tokenizer lower-cases text: the model does not see the capitals" in printed
    results = results_of(inputs / "trained")
    assert set(results) == SCORES and results["f1"] == results["accuracy"] == 1
    assert (inputs / "trained/predictions.conll").read_text() == (inputs / "places.conll").read_text()
    assert not (inputs / "trained/predict_results.txt").exists()  # the file has no tags
    return inputs / "trained"


def test_a_run_knows_its_tags_also_if_initial_weights_are_set(script, trained, folder):
    other = folder / "other.conll"
    write_tagged(other, [["X"] * len(sentence) for sentence in SENTENCES])
    script(output_dir=folder / "initial", train_file=other, eval_file=other, do_train=True)
    script(train_file=None, eval_file=None, init_checkpoint=folder / "initial", do_predict=True, output_dir=trained,
           predict_file=folder / "words.conll")
    assert (trained / "predictions.conll").read_text() == (folder / "places.conll").read_text()


def test_a_later_run_knows_the_tags_and_scores_a_file_that_has_some(script, trained, folder):
    script(train_file=None, albert_config_file=None, spm_model_file=None, init_checkpoint=trained, do_predict=True,
           output_dir=folder / "again", predict_file=folder / "places.conll")
    assert (folder / "again" / "predictions.conll").read_text() == (folder / "places.conll").read_text()
    scores = results_of(folder / "again", "predict_results")
    assert set(scores) == SCORES and scores["f1"] == 1 and scores["global_step"] == 200


@pytest.mark.long
def test_a_finished_run_is_exported_without_its_data_for_text_words_ids_and_examples(script, trained, folder):
    flags = dict(train_file=None, eval_file=None, albert_config_file=None, spm_model_file=None, max_seq_length=None,
                 output_dir=trained, eagerly=False)
    script(export_dir=folder / "served_later", export_precision="mixed_bfloat16", **flags)
    served = tf.saved_model.load(str(folder / "served_later"))
    answer = served.signatures["serving_default"](text=tf.constant(["Ada lives in Paris."]))
    assert answer["tags"].shape == [1, 5] and tf.bfloat16 in {weight.dtype for weight in served.weights}
    script(export_dir=folder / "served", **flags)
    served = tf.saved_model.load(str(folder / "served")).signatures
    text = "\U0001f600 Ada lives in  Paris. "
    answers = {name: value.numpy()[0] for name, value in served["serving_default"](text=tf.constant([text])).items()}
    assert set(answers) == {"words", "tags", "scores", "start", "end"}
    words = [text[start:end] for start, end in zip(answers["start"], answers["end"])]
    assert words == [word.decode() for word in answers["words"]] == ["\U0001f600", "Ada", "lives", "in", "Paris", "."]
    by_words = {name: value.numpy()[0] for name, value in served["words"](words=tf.constant([words])).items()}
    assert answers["tags"].tolist() == by_words["tags"].tolist()
    np.testing.assert_allclose(answers["scores"], by_words["scores"], atol=1e-6)
    records = next((folder / "cached").glob("tagging_test_*.tfrecord"))
    examples = next(iter(tf.data.TFRecordDataset(str(records)).batch(9)))
    features = tf.io.parse_example(examples, {name: tf.io.FixedLenFeature([32], tf.int64)
                                              for name in ("input_ids", "input_mask", "segment_ids", "word_pieces")})
    ids = {name: tf.cast(features[name], tf.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    by_ids, by_examples = served["ids"](**ids)["probabilities"], served["examples"](examples=examples)["probabilities"]
    np.testing.assert_allclose(by_ids, by_examples, atol=1e-6)
    names = settings_in(str(trained)).label_names
    best = tf.boolean_mask(tf.argmax(by_ids, -1), features["word_pieces"] == 1).numpy()
    assert [names[i] for i in best] == sum(TAGS, [])


def test_hugging_faces_folder_is_written_with_the_tags_and_read_again(script, trained, folder):
    script(script="convert_checkpoint", init_checkpoint=trained, to="hugging_face", output_dir=folder / "hf")
    config = json.loads((folder / "hf" / "config.json").read_text())
    assert config["id2label"] == {"0": "B-place", "1": "I-place", "2": "O"}
    assert config["architectures"] == ["AlbertForTokenClassification"]
    script(train_file=None, albert_config_file=None, spm_model_file=None, init_checkpoint=folder / "hf",
           output_dir=folder / "from_hf", do_predict=True, predict_file=folder / "words.conll")
    assert (folder / "from_hf" / "predictions.conll").read_text() == (folder / "places.conll").read_text()
    model = albert_tf.from_pretrained(str(folder / "hf"), model="token_classifier")
    assert model.settings.label_names == ("B-place", "I-place", "O")


@pytest.mark.long
def test_plain_tags_on_all_pieces_are_those_of_the_run(script, folder):
    tags = [["NOUN" if word[0].isupper() else "X" for word in sentence] for sentence in SENTENCES]
    write_tagged(folder / "pos.tsv", tags)
    flags = dict(train_file=folder / "pos.tsv", eval_file=folder / "pos.tsv", label_all_pieces=True, max_seq_length=16)
    script(output_dir=folder / "runs", num_runs=2, do_train=True, do_eval=True, **flags)
    predicted = dict(flags, predict_file=folder / "pos.tsv", do_predict=True)
    script(output_dir=folder / "runs", do_eval=False, **predicted)
    expected = results_of(folder / "runs", "predict_results")
    script(output_dir=folder / "runs", do_eval=False, **dict(predicted, label_all_pieces=None))  # it is stored
    assert results_of(folder / "runs", "predict_results") == expected
    assert settings_in(str(folder / "runs/seed_12345")).label_all_pieces
    assert set(expected) == {"accuracy", "eval_loss", "loss", "global_step"}


@pytest.mark.long
def test_a_sentence_longer_than_the_model_is_tagged_whole(script, folder):
    script(output_dir=folder / "windows", do_train=True, do_predict=True, predict_file=folder / "words.conll",
           max_seq_length=8, doc_stride=2)
    text = read_tagged_text(str(folder / "windows" / "predictions.conll"))
    assert [list(sentence.words) for sentence in text.sentences] == SENTENCES and text.has_tags


def test_predictions_on_a_compressed_file_are_plain_text(script, trained, folder):
    (folder / "words.conll.gz").write_bytes(gzip.compress((folder / "words.conll").read_bytes()))
    before = (trained / "predictions.conll").read_text()
    (trained / "predictions.conll").unlink()
    script(output_dir=trained, do_predict=True, predict_file=folder / "words.conll.gz")
    assert (trained / "predictions.conll").read_text() == before
    assert not (trained / "predictions.gz").exists()


def test_tags_that_training_never_saw_are_reported(script, folder):
    write_tagged(folder / "other.conll", [["B-ship"] * len(sentence) for sentence in SENTENCES])
    printed = script(output_dir=folder / "other", do_train=True, do_eval=True, train_step=1,
                     eval_file=folder / "other.conll")
    assert "other.conll has tags that the model does not know and cannot predict: B-ship" in printed
    assert results_of(folder / "other")["accuracy"] == 0
