"""Pooling of token vectors to text vectors: computed by hand, and in a model."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import normalized, pooled

OUTPUTS = dict(sequence_output=np.array([[[1.0, -2.0], [3.0, -4.0], [50.0, 60.0]]], np.float32),
               pooled_output=np.array([[0.5, 0.25]], np.float32))
MASK = np.array([[1, 1, 0]], np.int32)


@pytest.mark.parametrize("pooling, expected", [
    ("mean", [2, -3]), ("max", [3, -2]), ("cls", [1, -2]), ("pooler", [0.5, 0.25])])
def test_padding_does_not_count(pooling, expected):
    np.testing.assert_allclose(pooled(OUTPUTS, MASK, pooling), [expected], atol=1e-6)


def test_a_row_of_padding_alone_has_a_finite_vector():
    for pooling in ("mean", "max"):
        assert np.isfinite(pooled(OUTPUTS, np.zeros_like(MASK), pooling)).all()


def test_normalized_vectors_have_length_one_and_zero_stays_zero():
    np.testing.assert_allclose(normalized(tf.constant([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0, 0]], atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "cls", "pooler"])
def test_the_model_gives_the_same_for_texts_side_by_side(tiny_config, tiny_batch, pooling):
    model = AlbertSentenceEncoder(tiny_config, pooling, normalize=True)
    vectors = model(tiny_batch)["sentence_embedding"]
    assert vectors.shape == [3, 16]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    outputs = model.albert(tiny_batch)
    np.testing.assert_allclose(vectors, normalized(pooled(outputs, tf.constant(tiny_batch["input_mask"]), pooling)),
                               atol=1e-6)
    pairs = {name: np.stack([value, value[::-1]], axis=1) for name, value in tiny_batch.items()}
    both = model(pairs)["sentence_embedding"]
    assert both.shape == [3, 2, 16]
    np.testing.assert_allclose(both[:, 0], vectors, atol=1e-5)
    np.testing.assert_allclose(both[:, 1], vectors[::-1], atol=1e-5)


def test_an_unknown_pooling_is_named(tiny_config):
    with pytest.raises(ValueError, match="pooling must be one of mean, max, cls, pooler. Received: 'median'"):
        AlbertSentenceEncoder(tiny_config, "median")
