"""Dropout: the rate, the inputs that masks depend on, and the same mask in the gradients."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.operations import Dropouts, dropped

pytestmark = pytest.mark.both_stacks

SHAPE = [256, 400]
# Of a correlation of this many independent values, five standard errors.
NOISE = 5 / np.sqrt(np.prod(SHAPE))


def masks(rate=0.3, seed=(1, 2), sites=1, layer=None):
    """float [sites, 256, 400], 1 if a value is kept."""
    dropouts = Dropouts(tf.constant(seed))
    dropouts = dropouts if layer is None else dropouts.for_layer(layer)
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


def test_a_part_of_a_batch_has_the_masks_that_its_rows_have_in_the_whole_batch():
    whole, *in_parts = (
        dropouts.for_layer(1)(tf.ones([SHAPE[0] // parts, SHAPE[1]]), 0.3)
        for dropouts, parts in [(Dropouts(tf.constant([1, 2])), 1),
                                *((Dropouts(tf.constant([1, 2]), part), 4) for part in range(4))])
    np.testing.assert_array_equal(tf.concat(in_parts, axis=0), whole)


def mask_of_part(part, rows=4, row_size=2**14):
    return dropped(tf.ones([rows, row_size]), tf.constant([1, 2, part]), tf.constant(0.5)).numpy() > 0


def test_masks_do_not_repeat_after_2_to_the_32_values():
    parts = [mask_of_part(part).astype(float) for part in (0, 2**15, 2**16, 2**17)]  # from 0, 2^31, 2^32 and 2^33 on
    for i, one in enumerate(parts):
        for other in parts[:i]:
            assert abs(correlation(one, other)) < 5 / np.sqrt(one.size)


def test_a_row_that_crosses_2_to_the_32_has_the_masks_of_its_positions():
    row_size, crossing = 349_525, 4096
    assert 3 * 2**12 * row_size == 2**32 - crossing  # where row 3 * 2^12 begins
    row = mask_of_part(3 * 2**12, rows=1, row_size=row_size)[0]
    np.testing.assert_array_equal(row[crossing : 2 * crossing], mask_of_part(2**20, rows=1, row_size=crossing)[0])
    np.testing.assert_array_equal(row[:crossing], mask_of_part(2**20 - 1, rows=1, row_size=crossing)[0])


def test_masks_are_those_of_earlier_versions():
    """The hash as in versions that counted positions in int32: a resumed run drops the same units."""
    def mixed(bits):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            bits = (bits ^ (bits >> np.uint32(shift))) * np.uint32(factor)
        return bits

    bits = np.zeros(1, np.uint32)
    for word in (np.uint32([7]), np.uint32([9]), np.arange(24, 48, dtype=np.uint32)):
        bits = mixed(bits ^ word)
    kept = dropped(tf.ones([2, 3, 4]), tf.constant([7, 9, 1]), tf.constant(0.5)).numpy() > 0
    np.testing.assert_array_equal(kept.ravel(), bits >= 2**31)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_has_the_mask_of_the_values(dtype):
    x = tf.cast(tf.ones(SHAPE), dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        dropped = Dropouts(tf.constant([1, 2]))(x, 0.3)
    np.testing.assert_array_equal(tape.gradient(dropped, x), dropped)


def test_nothing_is_dropped_at_rate_0_and_without_a_seed():
    x = tf.ones([2, 3])
    assert Dropouts(tf.constant([1, 2]))(x, 0.0) is x and Dropouts(None)(x, 0.5) is x
