"""run_tagging as a user runs it: training, evaluation, prediction and export, of entities and of plain tags."""

import gzip
import json
import os

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of exported models
from script_session import ScriptSession

import albert_tf
from albert_tf.tasks.tagging.data import read_tagged_text
from albert_tf.weights.settings import settings_in

CONFIG = dict(vocab_size=2000, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
              intermediate_size=16, max_position_embeddings=64, initializer_range=0.1)
# A place follows "in"; the long sentence is read through windows.
SENTENCES = [["Ada", "lives", "in", "Paris", "."], ["in", "New", "York", "we", "met", "in", "Rome"], ["He", "left"],
             ["kettles", "stand", "in", "Ghent", ","] * 5]
PLACES = {"Paris": "B-place", "New": "B-place", "York": "I-place", "Rome": "B-place", "Ghent": "B-place"}
TAGS = [[PLACES.get(word, "O") for word in sentence] for sentence in SENTENCES]
SCORES = {"accuracy", "precision", "recall", "f1", "f1/place", "eval_loss", "loss", "global_step"}


def write(path, tags=None):
    sentences = zip(SENTENCES, tags or [[None] * len(sentence) for sentence in SENTENCES])
    path.write_text("\n".join("".join(word + (f"\t{tag}\n" if tag else "\n") for word, tag in zip(*each))
                              for each in sentences))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagging")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    write(folder / "train.conll", TAGS)
    write(folder / "words.conll")
    return folder


@pytest.fixture(scope="module")
def script(golden, folder):
    flags = dict(albert_config_file=folder / "config.json", train_file=folder / "train.conll", max_seq_length=32,
                 eval_file=folder / "train.conll", spm_model_file=golden / "tiny_spm" / "tiny.model", warmup_step=0,
                 cached_dir=folder / "cached", train_batch_size=4, train_step=2, save_checkpoints_steps=1)
    with ScriptSession("run_tagging", **flags) as session:
        yield session


@pytest.fixture(scope="module")
def trained(script, folder):
    """A run that has learned its training set, and its export."""
    printed = script.run(output_dir=folder / "trained", do_train=True, do_eval=True, do_predict=True, train_step=200,
                         predict_file=folder / "words.conll", export_dir=folder / "served", learning_rate=0.003,
                         save_checkpoints_steps=200, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                         classifier_dropout_prob=0)
    assert "the tokenizer lower-cases text: the model does not see the capitals" in printed
    return folder / "trained"


def results_of(directory, name="eval_results"):
    return json.loads((directory / f"{name}.json").read_text())


@pytest.mark.both_stacks
def test_entities_are_learned_scored_and_written_in_the_format_of_the_input(trained, folder):
    results = results_of(trained)
    assert set(results) == SCORES and results["f1"] == results["accuracy"] == 1
    assert (trained / "predictions.conll").read_text() == (folder / "train.conll").read_text()
    assert settings_in(str(trained)).label_names == ("B-place", "I-place", "O")
    assert {"model.ckpt-best.index", "best_trial.txt", "tiny.model"} <= set(os.listdir(trained))
    card = (trained / "README.md").read_text("utf-8")
    assert "pipeline_tag: token-classification" in card and "| f1 | 1.0000 |" in card
    assert not (trained / "predict_results.txt").exists()  # the file has no tags


def test_a_run_knows_its_tags_also_if_initial_weights_are_set(script, trained, folder):
    other = folder / "other.conll"
    write(other, [["X"] * len(sentence) for sentence in SENTENCES])
    script.run(output_dir=folder / "initial", train_file=other, eval_file=other, do_train=True)
    script.run(train_file=None, eval_file=None, init_checkpoint=folder / "initial", do_predict=True, output_dir=trained,
               predict_file=folder / "words.conll")
    assert (trained / "predictions.conll").read_text() == (folder / "train.conll").read_text()


def test_a_later_run_knows_the_tags_and_scores_a_file_that_has_some(script, trained, folder):
    script.run(train_file=None, albert_config_file=None, spm_model_file=None, init_checkpoint=trained, do_predict=True,
               output_dir=folder / "again", predict_file=folder / "train.conll")
    assert (folder / "again" / "predictions.conll").read_text() == (folder / "train.conll").read_text()
    scores = results_of(folder / "again", "predict_results")
    assert set(scores) == SCORES and scores["f1"] == 1 and scores["global_step"] == 200


@pytest.mark.long
@pytest.mark.both_stacks
def test_the_export_tags_words_text_ids_and_examples_as_the_script_does(trained, folder):
    served = tf.saved_model.load(str(folder / "served")).signatures
    longest = max(map(len, SENTENCES))
    padded = [sentence + [""] * (longest - len(sentence)) for sentence in SENTENCES]
    answers = served["words"](words=tf.constant(padded))
    for sentence, tags, row, scores in zip(SENTENCES, TAGS, answers["tags"].numpy(), answers["scores"].numpy()):
        assert [tag.decode() for tag in row] == tags + [""] * (longest - len(sentence))
        assert np.all(scores[: len(sentence)] > 1 / 3) and not scores[len(sentence):].any()
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


@pytest.mark.long
def test_a_finished_run_is_exported_without_its_data_in_another_precision(script, trained, folder):
    script.run(train_file=None, eval_file=None, albert_config_file=None, spm_model_file=None, max_seq_length=None,
               output_dir=trained, export_dir=folder / "served_later", export_precision="mixed_bfloat16")
    served = tf.saved_model.load(str(folder / "served_later"))
    answer = served.signatures["serving_default"](text=tf.constant(["Ada lives in Paris."]))
    assert answer["tags"].shape == [1, 5] and tf.bfloat16 in {weight.dtype for weight in served.weights}


def test_hugging_faces_folder_is_written_with_the_tags_and_read_again(script, trained, folder):
    script.run(script="convert_checkpoint", init_checkpoint=trained, to="hugging_face", output_dir=folder / "hf",
               albert_config_file=None, train_file=None, eval_file=None, spm_model_file=None, max_seq_length=None,
               cached_dir=None, train_batch_size=None, train_step=None, save_checkpoints_steps=None, warmup_step=None)
    config = json.loads((folder / "hf" / "config.json").read_text())
    assert config["id2label"] == {"0": "B-place", "1": "I-place", "2": "O"}
    assert config["architectures"] == ["AlbertForTokenClassification"]
    script.run(train_file=None, albert_config_file=None, spm_model_file=None, init_checkpoint=folder / "hf",
               output_dir=folder / "from_hf", do_predict=True, predict_file=folder / "words.conll")
    assert (folder / "from_hf" / "predictions.conll").read_text() == (folder / "train.conll").read_text()
    model = albert_tf.from_pretrained(str(folder / "hf"), model="token_classifier")
    assert model.label_names == ("B-place", "I-place", "O")


@pytest.mark.long
def test_plain_tags_on_all_pieces_with_several_seeds_and_their_ensemble(script, folder):
    write(folder / "pos.tsv", [["NOUN" if word[0].isupper() else "X" for word in sentence] for sentence in SENTENCES])
    flags = dict(train_file=folder / "pos.tsv", eval_file=folder / "pos.tsv", label_all_pieces=True, max_seq_length=16)
    script.run(output_dir=folder / "runs", num_runs=2, do_train=True, do_eval=True, **flags)
    predicted = dict(flags, predict_file=folder / "pos.tsv", do_predict=True)
    script.run(output_dir=folder / "runs", do_eval=False, **predicted)
    expected = results_of(folder / "runs", "predict_results")
    script.run(output_dir=folder / "runs", do_eval=False, **dict(predicted, label_all_pieces=None))  # it is stored
    assert results_of(folder / "runs", "predict_results") == expected
    assert albert_tf.from_pretrained(str(folder / "runs/seed_12345"), model="token_classifier").label_all_pieces
    runs = json.loads((folder / "runs" / "eval_runs.json").read_text())
    assert set(runs["over_runs"]) == {"accuracy", "eval_loss", "loss"}
    checkpoints = [str(folder / "runs" / seed) for seed in ("seed_12345", "seed_12346")]
    script.run(output_dir=folder / "ensemble", ensemble_checkpoints=",".join(checkpoints), do_predict=True,
               predict_file=folder / "pos.tsv", **flags)
    assert set(results_of(folder / "ensemble", "predict_results")) == {"accuracy", "eval_loss", "loss", "global_step"}
    text = read_tagged_text(str(folder / "ensemble" / "predictions.tsv"))
    assert [list(sentence.words) for sentence in text.sentences] == SENTENCES


@pytest.mark.long
def test_a_sentence_longer_than_the_model_is_tagged_whole(script, folder):
    script.run(output_dir=folder / "windows", do_train=True, do_predict=True, predict_file=folder / "words.conll",
               max_seq_length=8, doc_stride=2)
    text = read_tagged_text(str(folder / "windows" / "predictions.conll"))
    assert [list(sentence.words) for sentence in text.sentences] == SENTENCES and text.has_tags


def test_predictions_on_a_compressed_file_are_plain_text(script, trained, folder):
    (folder / "words.conll.gz").write_bytes(gzip.compress((folder / "words.conll").read_bytes()))
    before = (trained / "predictions.conll").read_text()
    (trained / "predictions.conll").unlink()
    script.run(output_dir=trained, do_predict=True, predict_file=folder / "words.conll.gz")
    assert (trained / "predictions.conll").read_text() == before
    assert not (trained / "predictions.gz").exists()


def test_tags_that_training_never_saw_are_reported(script, folder):
    write(folder / "other.conll", [["B-ship"] * len(sentence) for sentence in SENTENCES])
    printed = script.run(output_dir=folder / "other", do_train=True, do_eval=True, train_step=1,
                         eval_file=folder / "other.conll")
    assert "other.conll has tags that the model does not know and cannot predict: B-ship" in printed
    assert results_of(folder / "other")["accuracy"] == 0


@pytest.mark.parametrize("flags, message", [
    ({}, "nothing to do: set --do_train, --do_eval, --do_predict or --export_dir"),
    (dict(do_predict=True), "--predict_file is missing"),
    (dict(do_train=True, train_file=None), "--train_file is missing"),
    (dict(do_eval=True, train_file=None), "the tags are unknown: no label names are stored"),
    (dict(do_train=True, columns="0,a"), "--columns must be two numbers, such as 0,-1. Received: 0,a"),
    (dict(do_train=True, columns="0"), "--columns must be two numbers, such as 0,-1. Received: 0"),
    (dict(do_train=True, columns="0,5"), "train.conll line 1: expected at least 6 columns, got 2"),
    (dict(do_train=True, doc_stride=31), "doc_stride must be from 0 to 30"),
    (dict(do_train=True, max_seq_length=65), "--max_seq_length=65 is more than the config's max_position_embeddings"),
    (dict(do_eval=True), "there is no checkpoint in")])
def test_a_wrong_flag_ends_in_one_line(script, folder, flags, message):
    printed = script.run(expect=1, output_dir=folder / "wrong", **flags)
    (line,) = [line for line in printed.splitlines() if ": error: " in line]
    assert line.startswith("run_tagging: error: ") and message in line and "Traceback" not in printed


def test_a_file_without_tags_cannot_be_trained_on(script, folder):
    printed = script.run(expect=1, output_dir=folder / "wrong", do_train=True, train_file=folder / "words.conll")
    assert "words.conll has no tags: each line must have a word and its tag" in printed
