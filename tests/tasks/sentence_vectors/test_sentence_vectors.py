"""The tasks of sentence vectors, and their targets."""

import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks.sentence_vectors.objective import SentenceVectorObjective
from albert_tf.tasks.sentence_vectors.vectors import projection
from albert_tf.training.prediction import mean_of

# Cosines: 1, 0 and 0.6; the vectors' lengths do not count.
VECTORS = np.array([[[2, 0], [1, 0]], [[0, 1], [3, 0]], [[0.6, 0.8], [1, 0]]], np.float32)


def loss(task, vectors, **batch):
    denominators = task.loss_denominators(dict(input_ids=np.zeros([len(vectors), 2, 4])))
    return float(task.loss(dict(sentence_embedding=tf.constant(vectors)), batch, denominators)[0])


def test_similarity_is_the_squared_error_of_the_cosine():
    task = SentenceVectorObjective(types.SimpleNamespace(vector_size=2), "similarity")
    right = tf.constant([0.5, 0.5, 0.5])
    assert loss(task, VECTORS, label_ids=right) == pytest.approx(np.mean([0.25, 0.25, 0.01]), abs=1e-6)
    predicted = task.predictions(dict(sentence_embedding=tf.constant(VECTORS)), {})["cosine"].numpy()
    np.testing.assert_allclose(predicted, [1, 0, 0.6], atol=1e-6)
    np.testing.assert_allclose(mean_of([dict(cosine=list(predicted)), dict(cosine=[0, 0, 0])], "cosine"), predicted / 2)


def texts(*rows):
    """int32 [rows, 2, 3]: rows of two texts with these tokens each."""
    return tf.constant([[[2, token, 3] for token in row] for row in rows])


@pytest.mark.parametrize("rows", [
    [(1, 2), (3, 4), (1, 2), (5, 6), (1, 2)],  # copies of a pair, as in a batch that is larger than the set
    [(1, 2), (1, 4), (5, 2), (7, 8), (2, 9)],  # the same first text, the same second text, and one that is both
    [(1, 1), (2, 2), (1, 1), (4, 4), (5, 5)],  # a text with itself (SimCSE), and a line that occurs twice
    [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10)]])
def test_copies_of_a_text_are_no_negatives(rows):
    vectors = np.random.default_rng(1).normal(size=[5, 2, 8]).astype(np.float32)
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses = []
    for i, (first, second) in enumerate(rows):
        others = [j for j in range(5) if j == i or rows[j][0] != first and rows[j][1] not in (first, second)]
        logits = units[i, 0] @ units[others, 1].T / 0.05
        losses.append(np.log(np.exp(logits).sum()) - units[i, 0] @ units[i, 1] / 0.05)
    task = SentenceVectorObjective(types.SimpleNamespace(), "contrastive", temperature=0.05)
    assert loss(task, vectors, input_ids=texts(*rows)) == pytest.approx(np.mean(losses), rel=1e-4)


def test_a_single_row_cannot_be_learned_by_contrast():
    task = SentenceVectorObjective(types.SimpleNamespace(), "contrastive")
    with pytest.raises(ValueError, match="at least 2 rows in each micro-batch"):
        loss(task, VECTORS[:1])


RANDOM = np.random.default_rng(3)


def test_vectors_of_another_width_keep_their_products_as_far_as_the_width_allows():
    vectors = RANDOM.normal(0, 2, [50, 8]).astype(np.float32)
    np.testing.assert_array_equal(vectors @ projection(vectors, 8), vectors)
    wide = vectors @ projection(vectors, 12)
    np.testing.assert_allclose(wide @ wide.T, vectors @ vectors.T, atol=1e-4)
    u, s, v = np.linalg.svd(vectors.astype(float), full_matrices=False)
    best = (u[:, :3] * s[:3]) @ v[:3]  # of rank 3
    narrow = vectors @ projection(vectors, 3)
    assert narrow.shape == (50, 3) and narrow.dtype == np.float32
    np.testing.assert_allclose(narrow @ narrow.T, best @ best.T, atol=1e-3)


def test_turned_vectors_keep_their_products_and_find_back_to_those_that_were_turned():
    vectors = RANDOM.normal(0, 2, [50, 8]).astype(np.float32)
    rotation, _ = np.linalg.qr(RANDOM.normal(size=[8, 8]))
    own = (3 * vectors @ rotation).astype(np.float32)
    turned = vectors @ projection(vectors, 8, own[::5], slice(None, None, 5))
    np.testing.assert_allclose(3 * turned, own, atol=1e-4)
    for size in (8, 12):
        others = vectors @ projection(vectors, size, RANDOM.normal(size=[50, size]).astype(np.float32))
        np.testing.assert_allclose(others @ others.T, vectors @ vectors.T, atol=1e-4)
        assert not np.allclose(others[:, :8], vectors, atol=0.1)
