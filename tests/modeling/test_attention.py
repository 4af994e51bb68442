"""Attention in training and its gradient."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.blocks import attention, attention_in_training

pytestmark = pytest.mark.both_stacks

DROPOUTS = pytest.mark.parametrize("dropout", [(), ([3, 4, 0], 0.25)], ids=["no dropout", "dropout"])


@pytest.fixture
def vectors():
    """Query, key, value and upstream gradient, [2, 3, 5, 4]."""
    return np.random.default_rng(0).normal(size=[4, 2, 3, 5, 4])


@pytest.fixture
def mask():
    """The mask of two rows, of which the second has three tokens."""
    return np.float32([[0, 0, 0, 0, 0], [0, 0, 0, -10000, -10000]])[:, None, None]


def with_gradients(function, vectors, mask, dropout, dtype=tf.float32):
    """The context and the gradients of query, key and value."""
    *inputs, upstream = (tf.cast(tensor, dtype) for tensor in vectors)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        context = function(*inputs, tf.constant(mask), *map(tf.constant, dropout))
    return [context, *tape.gradient(context, inputs, upstream)]


@DROPOUTS
@pytest.mark.parametrize("scale", [1, 40], ids=["", "scores that differ by more than an exponential can represent"])
def test_it_and_its_gradients_are_those_of_plain_attention(vectors, mask, dropout, scale):
    vectors[0] *= scale
    plain = with_gradients(attention, vectors, mask, dropout)
    for trained, expected in zip(with_gradients(attention_in_training, vectors, mask, dropout), plain):
        np.testing.assert_allclose(trained, expected, atol=5e-6 * scale)


def test_the_gradients_are_those_of_the_formula(vectors, mask):
    query, key, value, upstream = vectors
    exponentials = np.exp(query @ key.swapaxes(-1, -2) + mask.astype(np.float64))
    p = exponentials / exponentials.sum(-1, keepdims=True)
    of_p = upstream @ value.swapaxes(-1, -2)
    of_scores = p * (of_p - (p * of_p).sum(-1, keepdims=True))
    expected = p @ value, of_scores @ key, of_scores.swapaxes(-1, -2) @ query, p.swapaxes(-1, -2) @ upstream
    found = with_gradients(attention_in_training, vectors, mask, ())
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)
    assert not any(np.asarray(gradient)[1, :, 3:].any() for gradient in found[2:])  # padding


@DROPOUTS
def test_in_bfloat16_the_gradients_differ_by_rounding(vectors, mask, dropout):
    rounded = [tf.cast(tensor, tf.bfloat16) for tensor in vectors]
    plain = with_gradients(attention, rounded, mask, dropout)
    for ours, expected in zip(with_gradients(attention_in_training, rounded, mask, dropout, tf.bfloat16), plain):
        assert ours.dtype == tf.bfloat16
        np.testing.assert_allclose(tf.cast(ours, tf.float32), expected, atol=0.06)
