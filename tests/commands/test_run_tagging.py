"""What run_tagging alone has: tags that a run knows, formats of files, plain tags."""

import json

import pytest
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tiny import TINY_TEXT
from tuning import SENTENCES, TRAINING, results_of, write_tagged

from albert_tf.weights.settings import settings_in

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
                     do_predict=True, train_step=200, predict_file=inputs / "words.conll", learning_rate=0.003,
                     save_checkpoints_steps=200, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                     classifier_dropout_prob=0, eagerly=False)
    assert "the tokenizer lower-cases text: the model does not see the capitals" in printed
    results = results_of(inputs / "trained")
    assert set(results) == SCORES and results["f1"] == results["accuracy"] == 1
    assert (inputs / "trained/predictions.conll").read_text() == (inputs / "places.conll").read_text()
    assert not (inputs / "trained/predict_results.txt").exists()  # the file has no tags
    return inputs / "trained"


@pytest.mark.long
def test_a_later_run_knows_the_tags_and_scores_a_file_that_has_some(script, trained, folder):
    script(train_file=None, albert_config_file=None, spm_model_file=None, init_checkpoint=trained, do_predict=True,
           output_dir=folder / "again", predict_file=folder / "places.conll")
    assert (folder / "again" / "predictions.conll").read_text() == (folder / "places.conll").read_text()
    scores = results_of(folder / "again", "predict_results")
    assert set(scores) == SCORES and scores["f1"] == 1 and scores["global_step"] == 200


@pytest.mark.long
def test_the_scores_of_plain_tags_are_accuracy_and_loss(script, folder):
    tags = [["NOUN" if word[0].isupper() else "X" for word in sentence] for sentence in SENTENCES]
    write_tagged(folder / "pos.tsv", tags)
    flags = dict(train_file=folder / "pos.tsv", eval_file=folder / "pos.tsv", max_seq_length=16)
    script(output_dir=folder / "runs", num_runs=2, do_train=True, do_eval=True, **flags)
    predicted = dict(flags, predict_file=folder / "pos.tsv", do_predict=True)
    script(output_dir=folder / "runs", do_eval=False, **predicted)
    assert set(results_of(folder / "runs", "predict_results")) == {"accuracy", "eval_loss", "loss", "global_step"}


def test_json_lines_are_trained_on_scored_and_tagged(script, folder):
    rows = [dict(tokens=sentence, ner_tags=[int(word[0].isupper()) for word in sentence]) for sentence in SENTENCES]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    script(output_dir=folder / "of_rows", do_train=True, do_eval=True, do_predict=True, train_step=1, train_file=path,
           eval_file=path, predict_file=path, tag_names="O,B-place")
    assert settings_in(str(folder / "of_rows")).label_names == ("B-place", "O")
    with open(folder / "of_rows/predictions.jsonl", encoding="utf-8") as file:
        tagged = [json.loads(line) for line in file]
    assert [row["tokens"] for row in tagged] == [list(sentence) for sentence in SENTENCES]
    assert all(len(row["ner_tags"]) == len(row["tokens"]) for row in tagged)


def test_tags_that_training_never_saw_are_reported(script, folder):
    write_tagged(folder / "other.conll", [["B-ship"] * len(sentence) for sentence in SENTENCES])
    printed = script(output_dir=folder / "other", do_train=True, do_eval=True, train_step=1,
                     eval_file=folder / "other.conll")
    assert "other.conll has tags that the model does not know and cannot predict: B-ship" in printed
    assert results_of(folder / "other")["accuracy"] == 0
