"""Losses of sentence vectors: those of sentence-transformers, to 1e-5."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.vectors import VectorPrecision
from albert_tf.tasks.sentence_vectors.task import SentenceVectorTask


@pytest.fixture(scope="module")
def numbers(golden):
    return json.loads((golden / "sentence_transformers/numbers.json").read_text())["losses"]


def loss(numbers, objective, columns, dims=()):
    vectors = np.array(numbers["vectors"], np.float32)[:, :columns]
    task = SentenceVectorTask(encoder(numbers), objective, 0.05, dims)
    ids = np.arange(5 * columns).reshape(5, columns, 1)  # different texts
    batch = dict(input_ids=tf.constant(ids), label_ids=tf.constant(numbers["labels"], tf.float32))
    return float(task.loss(dict(sentence_embedding=tf.constant(vectors)), batch, task.loss_denominators(batch))[0])


def encoder(numbers):
    return types.SimpleNamespace(vector_size=numbers["dims"][0], stored_vectors=VectorPrecision())


def test_pairs_and_hard_negatives_have_the_ranking_loss(numbers):
    assert loss(numbers, "contrastive", 2) == pytest.approx(numbers["pairs"], rel=1e-5)
    assert loss(numbers, "contrastive", 4) == pytest.approx(numbers["hard_negatives"], rel=1e-5)


def test_the_matryoshka_loss_is_the_sum_over_truncated_vectors(numbers):
    for objective, columns, name in (("contrastive", 4, "hard_negatives"), ("similarity", 2, "similarity")):
        assert loss(numbers, objective, columns, numbers["dims"]) == pytest.approx(numbers[f"matryoshka_{name}"],
                                                                                   rel=1e-5)


def test_a_hard_negative_that_belongs_to_the_first_text_is_no_negative(numbers):
    """The hard negative of the second row is a text of the first row, and is left out there alone."""
    vectors = np.array(numbers["vectors"], np.float32)[:2, :3]
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    candidates = np.concatenate([units[:, 1], units[:, 2]])
    logits = units[:, 0] @ candidates.T / 0.05
    task = SentenceVectorTask(encoder(numbers), "contrastive", 0.05)
    for copied in ([1], [2]):  # the first or the second text of the first row
        ids = tf.constant([[[1], [2], [3]], [[4], [5], copied]])
        expected = np.mean([np.log(np.exp(logits[0, :3]).sum()) - logits[0, 0],
                            np.log(np.exp(logits[1]).sum()) - logits[1, 1]])
        batch = dict(input_ids=ids)
        found = task.loss(dict(sentence_embedding=tf.constant(vectors)), batch, task.loss_denominators(batch))[0]
        assert float(found) == pytest.approx(expected, rel=1e-4)


def test_a_single_row_can_be_learned_with_hard_negatives(numbers):
    task = SentenceVectorTask(encoder(numbers), "contrastive")
    batch = dict(input_ids=tf.constant([[[1], [2], [3]]]))
    vectors = tf.constant(np.array(numbers["vectors"], np.float32)[:1, :3])
    assert task.loss(dict(sentence_embedding=vectors), batch, task.loss_denominators(batch))[0] > 0


def test_truncated_vectors_and_those_of_a_precision_are_predicted(numbers):
    vectors = np.array(numbers["vectors"], np.float32)[:, :2]
    model = types.SimpleNamespace(vector_size=16, stored_vectors=VectorPrecision("binary"))
    found = SentenceVectorTask(model, "similarity", matryoshka_dims=(16, 4)).predictions(
        dict(sentence_embedding=tf.constant(vectors)))
    signs = np.sign(vectors)
    np.testing.assert_allclose(found["cosine"], (signs[:, 0] * signs[:, 1]).mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(found["cosine_4"], (signs[:, 0, :4] * signs[:, 1, :4]).mean(axis=1), atol=1e-6)
    assert set(found) == {"cosine", "cosine_4"}


def test_too_many_dimensions_are_refused(numbers):
    with pytest.raises(ValueError, match="matryoshka_dims must be from 1 to 16, .* Received: 32, 16"):
        SentenceVectorTask(encoder(numbers), "similarity", matryoshka_dims=(32, 16))
