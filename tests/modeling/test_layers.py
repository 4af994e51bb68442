"""Layers compared with NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.dropout import Dropouts, dropped
from albert_tf.modeling.layers import LAYER_NORM_EPSILON, ReleaseDense, activation, layer_norm

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


def exact_layer_norm(x, residual, gamma, beta, dropout):
    """LayerNorm in float64, whose gradients are TensorFlow's."""
    kept = tf.cast(dropped(tf.ones(x.shape), *dropout), tf.float64)
    total = x * kept + residual
    mean, variance = tf.nn.moments(total, axes=[-1], keepdims=True)
    return (total - mean) * tf.math.rsqrt(variance + LAYER_NORM_EPSILON) * gamma + beta


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("mean", [0.0, 10.0, 1000.0])
@pytest.mark.parametrize("shape", [[300, 24], [4, 30, 24]], ids=str)
def test_layer_norm_in_training_has_the_values_and_gradients_of_float64(shape, mean, rate):
    random = np.random.default_rng(1)
    values = [mean + random.normal(size=shape), random.normal(size=shape),
              random.normal(size=shape[-1:]), random.normal(size=shape[-1:])]
    upstream, dropout = random.normal(size=shape), Dropouts(tf.constant([1, 2])).next_mask(rate)
    results = []
    for dtype, function in ((tf.float64, exact_layer_norm), (tf.float32, lambda *a: layer_norm(*a[:4], True, a[4]))):
        inputs = [tf.constant(value, dtype) for value in values]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = function(*inputs, dropout)
        results.append([output, *tape.gradient(output, inputs, tf.constant(upstream, dtype))])
    # A value of 1000 has 7 digits in float32, 4 of which the mean takes.
    tolerance = 1e-5 if mean == 0 else 1e-6 * mean * (10 if rate else 1)
    for exact, computed in zip(*results):
        scale = float(tf.reduce_max(tf.abs(exact)))
        np.testing.assert_allclose(computed, exact, atol=tolerance * scale)


def test_the_gradient_of_layer_norm_is_finite_for_rows_of_equal_values():
    x = tf.ones([3, 8]) * [[0.0], [0.1], [1e4]]
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer_norm(x, tf.zeros([3, 8]), tf.ones(8), tf.zeros(8), training=True)
    assert np.all(np.isfinite(output)) and np.all(np.isfinite(tape.gradient(output, x)))
