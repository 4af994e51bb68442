"""Layers compared with NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.layers import ReleaseDense, activation

pytestmark = pytest.mark.both_stacks


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("shape", [[3, 16], [3, 5, 16], [3, 1, 12, 16], [3, 5, 12, 16], [1, 1, 1, 16]], ids=str)
def test_dense_multiplies_the_last_axis_of_inputs_of_any_rank(shape, in_graph):
    layer = ReleaseDense("dense", 16, 7, initializer_range=1.0)
    layer.bias.assign(np.arange(7))
    call = tf.function(layer.call) if in_graph else layer.call
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(call(x), x @ layer.kernel.numpy() + np.arange(7), atol=1e-4)


@pytest.mark.parametrize("dtype, rounding", [("bfloat16", 2**-8), ("float16", 2**-11)])
@pytest.mark.parametrize("name", ["gelu", "gelu_exact", "tanh"])
def test_activations_round_once_in_training(name, dtype, rounding):
    x = tf.cast(tf.linspace(-2.0, 4.0, 1000), dtype)
    exact = tf.cast(x, tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, exact])
        trained, expected = activation(name, training=True)(x), activation(name)(exact)
    assert trained.dtype == dtype
    np.testing.assert_allclose(tf.cast(trained, tf.float32), expected, rtol=1.1 * rounding, atol=1e-6)
    gradients = [tf.cast(tape.gradient(*pair), tf.float32) for pair in ((trained, x), (expected, exact))]
    np.testing.assert_allclose(*gradients, rtol=1.1 * rounding, atol=1e-6)
