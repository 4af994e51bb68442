"""Dropout: the rate, the inputs that masks depend on, and the same mask in the gradients."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.dropout import Dropouts

pytestmark = pytest.mark.both_stacks

SHAPE = [256, 400]
# Of a correlation of this many independent values, five standard errors.
NOISE = 5 / np.sqrt(np.prod(SHAPE))


def masks(rate=0.3, seed=(1, 2), sites=1, layer=None):
    """float [sites, 256, 400], 1 if a value is kept."""
    dropouts = Dropouts(tf.constant(seed))
    dropouts = dropouts if layer is None else dropouts.of_layer(layer)
    return np.stack([dropouts(tf.ones(SHAPE), rate).numpy() > 0 for _ in range(sites)]).astype(float)


def correlation(one, other):
    return np.corrcoef(one.ravel(), other.ravel())[0, 1]


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_the_rate_is_the_share_of_zeros_and_the_mean_stays(rate):
    dropped = Dropouts(tf.constant([1, 2]))(tf.ones(SHAPE), rate).numpy()
    error = 5 * np.sqrt(rate * (1 - rate) / np.prod(SHAPE))
    assert abs((dropped == 0).mean() - rate) < error
    np.testing.assert_allclose(np.unique(dropped), [0, 1 / (1 - rate)], rtol=1e-6)
    # Of rows and columns too: none is dropped more than others.
    for axis, count in enumerate(SHAPE[::-1]):
        shares = (dropped == 0).mean(axis=1 - axis)
        assert abs(shares.std() / np.sqrt(rate * (1 - rate) / count) - 1) < 0.2


def test_sites_layers_and_seeds_have_masks_of_their_own():
    of_all = np.concatenate([masks(sites=3), masks(sites=3, layer=0), masks(sites=3, layer=1), masks(seed=(2, 1)),
                             masks(seed=(1, 30)), masks(seed=(-(2**31), 2**31 - 9))])
    correlations = np.corrcoef(of_all.reshape(len(of_all), -1)) - np.eye(len(of_all))
    assert np.abs(correlations).max() < NOISE


@pytest.mark.parametrize("offset", [(0, 1), (0, 2), (0, 16), (0, 100), (1, 0), (1, 1), (2, 0), (16, 0), (1, 399)],
                         ids=str)
def test_neighbours_are_dropped_independently(offset):
    mask, = masks()
    assert abs(correlation(mask, np.roll(mask, offset, axis=(0, 1)))) < NOISE


def test_masks_are_a_function_of_seed_and_site():
    np.testing.assert_array_equal(masks(sites=2, layer=3), masks(sites=2, layer=3))


def test_a_part_of_a_batch_has_the_masks_that_its_rows_have_in_the_whole_batch():
    whole, *in_parts = (
        dropouts.of_layer(1)(tf.ones([SHAPE[0] // parts, SHAPE[1]]), 0.3)
        for dropouts, parts in [(Dropouts(tf.constant([1, 2])), 1),
                                *((Dropouts(tf.constant([1, 2]), part), 4) for part in range(4))])
    np.testing.assert_array_equal(tf.concat(in_parts, axis=0), whole)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_has_the_mask_of_the_values(dtype):
    x = tf.cast(tf.ones(SHAPE), dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        dropped = Dropouts(tf.constant([1, 2]))(x, 0.3)
    np.testing.assert_array_equal(tape.gradient(dropped, x), dropped)


def test_a_graph_without_xla_has_the_same_masks():
    class PlainDropouts(Dropouts):
        training = False

    results = [tf.function(lambda x, of=of: of(tf.constant([1, 2]))(x, 0.3), autograph=False)(tf.ones(SHAPE))
               for of in (Dropouts, PlainDropouts)]
    np.testing.assert_array_equal(*results)


def test_nothing_is_dropped_at_rate_0_and_without_a_seed():
    x = tf.ones([2, 3])
    assert Dropouts(tf.constant([1, 2]))(x, 0.0) is x and Dropouts(None)(x, 0.5) is x
