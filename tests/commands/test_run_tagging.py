"""What run_tagging alone has: tags that a run knows, and formats of files."""

import json

import pytest
import tensorflow_text  # noqa: F401  registers the ops of exported models
from tiny import TINY_TEXT
from tuning import SENTENCES, results_of, write_tagged

from albert_tf.weights.settings import settings_in

SCORES = {"accuracy", "precision", "recall", "f1", "f1/place", "eval_loss", "loss", "global_step"}


@pytest.fixture(scope="module")
def script(command_of):
    return command_of("tagging")


@pytest.mark.long
def test_what_can_be_learned_is_learned_and_a_later_run_knows_the_tags_and_scores_a_file_that_has_some(
        script, inputs, tmp_path):
    (tmp_path / "config.json").write_text(TINY_TEXT.replace(initializer_range=0.1).to_json_string())
    script(albert_config_file=tmp_path / "config.json", output_dir=tmp_path / "trained", do_train=True, do_eval=True,
           do_predict=True, train_step=200, learning_rate=0.003, max_seq_length=32, save_checkpoints_steps=200,
           hidden_dropout_prob=0, attention_probs_dropout_prob=0, classifier_dropout_prob=0, eagerly=False)
    results, tagged = results_of(tmp_path / "trained"), (inputs / "places.conll").read_text()
    assert set(results) == SCORES and results["f1"] == results["accuracy"] == 1
    assert (tmp_path / "trained/predictions.conll").read_text() == tagged
    assert not (tmp_path / "trained/predict_results.txt").exists()  # the file has no tags
    script(train_file=None, albert_config_file=None, spm_model_file=None, init_checkpoint=tmp_path / "trained",
           do_predict=True, output_dir=tmp_path / "again", predict_file=inputs / "places.conll", max_seq_length=32)
    assert (tmp_path / "again/predictions.conll").read_text() == tagged
    scores = results_of(tmp_path / "again", "predict_results")
    assert set(scores) == SCORES and scores["f1"] == 1 and scores["global_step"] == 200


def test_json_lines_are_trained_on_scored_and_tagged(script, tmp_path):
    rows = [dict(tokens=sentence, ner_tags=[int(word[0].isupper()) for word in sentence]) for sentence in SENTENCES]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    script(output_dir=tmp_path / "of_rows", do_train=True, do_eval=True, do_predict=True, train_step=1, train_file=path,
           eval_file=path, predict_file=path, tag_names="O,B-place")
    assert settings_in(str(tmp_path / "of_rows")).label_names == ("B-place", "O")
    with open(tmp_path / "of_rows/predictions.jsonl", encoding="utf-8") as file:
        tagged = [json.loads(line) for line in file]
    assert [row["tokens"] for row in tagged] == [list(sentence) for sentence in SENTENCES]
    assert all(len(row["ner_tags"]) == len(row["tokens"]) for row in tagged)


def test_tags_that_training_never_saw_are_reported(script, tmp_path):
    write_tagged(tmp_path / "other.conll", [["B-ship"] * len(sentence) for sentence in SENTENCES])
    printed = script(output_dir=tmp_path / "other", do_train=True, do_eval=True, train_step=1,
                     eval_file=tmp_path / "other.conll")
    assert "other.conll has tags that the model does not know and cannot predict: B-ship" in printed
    assert results_of(tmp_path / "other")["accuracy"] == 0
