"""Token classification: the loss and the tags of words by hand."""

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.tasks.tagging.data import read_tagged_text
from albert_tf.tasks.tagging.fine_tuning import TaggingTask
from albert_tf.tasks.tagging.metrics import evaluate, tags_of_sentences, word_probabilities

TASK = TaggingTask(types.SimpleNamespace())


def test_the_loss_is_the_mean_over_tokens_with_a_tag():
    logits = np.log(np.array([[[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.5, 0.5], [0.5, 0.5]]], np.float32))
    batch = dict(tag_ids=tf.constant([[0, 1, 2], [2, 0, 0]]))
    denominators = TASK.loss_denominators(batch)
    assert float(denominators["tags"]) == 3
    loss, _ = TASK.loss(dict(logits=tf.constant(logits)), batch, denominators)
    assert float(loss) == pytest.approx(-np.log([0.9, 0.8, 0.6]).mean(), abs=1e-6)


def test_the_parts_of_a_batch_have_the_loss_of_the_whole():
    random = np.random.default_rng(1)
    logits, tags = random.normal(size=[4, 5, 3]).astype(np.float32), random.integers(0, 4, [4, 5], np.int32)

    def loss(rows, denominators):
        return TASK.loss(dict(logits=tf.constant(logits[rows])), dict(tag_ids=tf.constant(tags[rows])), denominators)[0]

    whole = TASK.loss_denominators(dict(tag_ids=tf.constant(tags)))
    parts = [loss(slice(0, 1), whole), loss(slice(1, 4), whole)]
    assert float(sum(parts)) == pytest.approx(float(loss(slice(0, 4), whole)), abs=1e-6)


def test_a_batch_without_tags_has_no_loss():
    batch = dict(tag_ids=tf.zeros([2, 3], tf.int32))
    assert float(TASK.loss(dict(logits=tf.ones([2, 3, 2])), batch, TASK.loss_denominators(batch))[0]) == 0


@pytest.fixture
def text(tmp_path):
    (tmp_path / "a.tsv").write_text("Ada\tA\nleft\tB\n\nNo\tC\n")
    return read_tagged_text(str(tmp_path / "a.tsv"))


def test_words_have_the_mean_over_their_pieces_windows_and_checkpoints(text):
    """Two windows of the first sentence, whose second word is in both; then the second sentence."""
    rows = [[0, 1, 2, 0], [0, 2, 1, 0], [0, 1, 0]]
    names = ("input_ids", "segment_ids", "word_pieces", "tag_ids")
    table = FeatureTable(FeatureSchema(4, {}), {name: tf.ragged.constant(rows, dtype=tf.int32) for name in names}, {})
    one = [np.zeros([4, 2], np.float32), np.zeros([4, 2], np.float32), np.zeros([8, 2], np.float32)]
    one[0][1:3] = [[1, 0], [0, 1]]
    one[1][1:3] = [[0.5, 0.5], [0.2, 0.8]]
    one[2][1] = [0.6, 0.4]
    two = [values[:, ::-1] for values in one]
    found = word_probabilities(table, [dict(probabilities=one)])
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]], atol=1e-6)
    both = word_probabilities(table, [dict(probabilities=one), dict(probabilities=two)])
    np.testing.assert_allclose(both, np.full([3, 2], 0.5), atol=1e-6)
    assert tags_of_sentences(text, found, ["A", "B"]) == [["A", "B"], ["A"]]


def test_a_tag_that_the_model_does_not_know_counts_as_wrong_and_has_no_loss(text):
    probabilities = np.array([[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]])
    results = evaluate(text, probabilities, ["A", "B"])
    assert results["accuracy"] == pytest.approx(2 / 3)
    assert results["eval_loss"] == results["loss"] == pytest.approx(-np.log([0.5, 0.8]).mean())


def test_answers_that_are_no_numbers_are_refused(text):
    with pytest.raises(ValueError, match="training has diverged, lower --learning_rate"):
        evaluate(text, np.full([3, 2], np.nan), ["A", "B"])
