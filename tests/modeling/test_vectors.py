"""Vectors of texts: pooling and sizes."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY, rows

from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import normalized, pooled

OUTPUTS = dict(sequence_output=np.array([[[1.0, -2.0], [3.0, -4.0], [50.0, 60.0]]], np.float32),
               pooled_output=np.array([[0.5, 0.25]], np.float32))
MASK = np.array([[1, 1, 0]], np.int32)


@pytest.mark.parametrize("pooling, expected", [
    ("mean", [2, -3]), ("max", [3, -2]), ("cls", [1, -2]), ("pooler", [0.5, 0.25])])
def test_padding_does_not_count(pooling, expected):
    np.testing.assert_allclose(pooled(OUTPUTS, MASK, pooling), [expected], atol=1e-6)


def test_rows_of_padding_and_of_zeros_have_finite_vectors():
    for pooling in ("mean", "max"):
        assert np.isfinite(pooled(OUTPUTS, np.zeros_like(MASK), pooling)).all()
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


CONFIG = TINY.replace(hidden_size=12, initializer_range=0.5)
INPUTS = rows(4, 4)


def test_vectors_are_truncated_before_they_are_normalized():
    whole = AlbertSentenceEncoder(CONFIG)
    model = AlbertSentenceEncoder(CONFIG, normalize=True, truncate_dim=5)
    model.set_weights(whole.get_weights())
    first = whole(INPUTS)["sentence_embedding"].numpy()[:, :5]
    outputs = model(INPUTS)
    np.testing.assert_allclose(outputs["sentence_embedding"], first / np.linalg.norm(first, axis=1, keepdims=True),
                               atol=1e-6)
    again = AlbertSentenceEncoder.from_config(model.get_config())
    assert again.settings.truncate_dim == again.vector_size == 5
