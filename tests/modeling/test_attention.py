"""The masked softmax of training and its gradient."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.blocks import masked_softmax, masked_softmax_in_training

pytestmark = pytest.mark.both_stacks

DROPOUTS = pytest.mark.parametrize("dropout", [(), ([3, 4, 0], 0.25)], ids=["no dropout", "dropout"])


@pytest.fixture
def scores():
    """Scores [2, 3, 5, 5] that differ by more than float32's exponential can represent."""
    rng = np.random.default_rng(0)
    return rng.normal(scale=40, size=[2, 3, 5, 5]).astype(np.float32)


@pytest.fixture
def mask():
    """The mask of two rows, of which the second has three tokens."""
    return np.float32([[0, 0, 0, 0, 0], [0, 0, 0, -10000, -10000]])[:, None, None]


def with_gradient(function, scores, mask, upstream, dropout):
    scores, dropout = tf.constant(scores), [tf.constant(value) for value in dropout]
    with tf.GradientTape() as tape:
        tape.watch(scores)
        probabilities = function(scores, tf.constant(mask), *dropout)
    return probabilities, tape.gradient(probabilities, scores, tf.cast(upstream, probabilities.dtype))


@DROPOUTS
def test_it_and_its_gradient_are_those_of_the_plain_softmax(scores, mask, dropout):
    upstream = np.random.default_rng(1).normal(size=scores.shape).astype(np.float32)
    plain = with_gradient(masked_softmax, scores, mask, upstream, dropout)
    for trained, expected in zip(with_gradient(masked_softmax_in_training, scores, mask, upstream, dropout), plain):
        np.testing.assert_allclose(trained, expected, atol=2e-6)


def test_the_gradient_is_that_of_the_formula(mask):
    rng = np.random.default_rng(2)
    scores, upstream = rng.normal(size=[2, 2, 3, 5, 5])
    exponentials = np.exp(scores + mask.astype(np.float64))
    p = exponentials / exponentials.sum(-1, keepdims=True)
    expected = p * (upstream - (p * upstream).sum(-1, keepdims=True))
    _, gradient = with_gradient(masked_softmax_in_training, np.float32(scores), mask, np.float32(upstream), ())
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    assert not np.asarray(gradient)[1, :, :, 3:].any()  # padding


@DROPOUTS
def test_in_bfloat16_the_gradient_differs_by_rounding(scores, mask, dropout):
    upstream = np.random.default_rng(1).normal(size=scores.shape).astype(np.float32)
    rounded = tf.cast(scores / 40, tf.bfloat16)
    _, plain = with_gradient(masked_softmax, tf.cast(rounded, tf.float32), mask, upstream, dropout)
    _, gradient = with_gradient(masked_softmax_in_training, rounded, mask, upstream, dropout)
    assert gradient.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(gradient, tf.float32), plain, atol=0.02)
