"""Dropout with masks that are a function of a seed and of each value's position.

A random op and the ops that apply its mask take 5 ms for 2,048 x 256 values on one core, in total a fifth of a small
model's step. As part of a chain of ops that XLA compiles anyway (see fused.py), the mask takes 1 ms, forward and
backward, and is never stored in memory.
"""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.fused import fused


class Dropouts:
    """The dropouts of one call of the model. Each has a mask of its own; all masks are functions of one seed.

    So a resumed run, a recomputed block and a run on other devices drop the same units.

    Args:
      seed: int32 [2]; None for no dropout (inference).
      part: int32 scalar, the index of these rows among the equal parts of a batch, from 0. A part has the masks that
        its rows have in the whole batch.
    """

    def __init__(self, seed, part=0):
        self._seed, self._part, self._count = seed, part, 0

    @property
    def training(self) -> bool:
        """Whether there is any dropout."""
        return self._seed is not None

    def for_layer(self, number: int) -> Dropouts:
        """The dropouts of an encoder layer, with the same masks each time that the layer is computed."""
        return type(self)(None if self._seed is None else self._seed + [1 + number, 0], self._part)

    def next_mask(self, rate: float) -> tuple:
        """Seed, part and rate of the next mask, as arguments of `dropped`; () for no dropout."""
        if self._seed is None or not rate:
            return ()
        self._count += 1
        return tf.concat([self._seed + [0, self._count], [self._part]], axis=0), tf.constant(rate, tf.float32)

    def __call__(self, x: tf.Tensor, rate: float) -> tf.Tensor:
        """Applies dropout to x with the next mask."""
        mask = self.next_mask(rate)
        return _dropout_in_float32(x, *mask) if mask else x


def dropouts(inputs: dict, training) -> Dropouts:
    """The dropouts of a call of a model, none without training.

    If the inputs have no dropout_seed, int32 [2], it is random; if they have no dropout_part (see Dropouts), it is 0.
    """
    if not training:
        return Dropouts(None)
    seed = inputs.get("dropout_seed")
    if seed is None:
        seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
    return Dropouts(tf.convert_to_tensor(seed), inputs.get("dropout_part", 0))


def dropped(x: tf.Tensor, seed: tf.Tensor | None = None, rate: tf.Tensor | None = None) -> tf.Tensor:
    """Applies dropout to x, float32 [rows, ...], with TensorFlow ops that can be part of a fused chain.

    seed, int32 [3], is two words of a seed and the number of the part (see Dropouts). rate, a float32 scalar, is the
    probability that a value becomes 0. Other values are divided by 1 - rate. None of either: no dropout.
    """
    if seed is None or rate is None:
        return x
    is_kept = _random_bits(seed, tf.shape(x)) >= tf.cast(rate * 2.0**32, tf.uint32)
    return tf.where(is_kept, x * (1.0 / (1.0 - rate)), 0.0)


@fused
def _dropout_in_float32(x, *dropout):
    return tf.cast(dropped(tf.cast(x, tf.float32), *dropout), x.dtype)


def _random_bits(seed, shape):
    """Random uint32 of a shape: a hash of the seed's two words and the position of each value in the whole batch."""
    one, two = (tf.bitcast(seed[word], tf.uint32) for word in range(2))

    def word_hash(high):  # of the position; 0 changes nothing, since it is mixed to 0
        return _mixed(tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(_mixed(one), two), _mixed(high)))

    row_shape = shape[1:]
    row_size = tf.reduce_prod(row_shape)
    one_per_row = tf.concat([shape[:1], tf.ones_like(row_shape)], axis=0)
    low, high = (tf.reshape(word, one_per_row) for word in _row_starts(seed[2], shape[0], row_size))
    positions = low  # modulo 2^32
    # Axis by axis, since TensorFlow would put the sum of all axes into the graph as a constant as large as a row.
    for axis in range(1, shape.shape[0]):
        later = shape[axis + 1:]
        offsets = tf.bitcast(tf.range(shape[axis]) * tf.reduce_prod(later), tf.uint32)
        positions += tf.reshape(offsets, tf.concat([[-1], tf.ones_like(later)], axis=0))
    bits = tf.where(positions < low, word_hash(high + 1), word_hash(high))
    return _mixed(tf.bitwise.bitwise_xor(bits, positions))


def _row_starts(part, rows, row_size):
    """The positions of the first values of a part's rows in the whole batch: low and high words, uint32 [rows].

    A batch can have more than 2^31 attention values, which int32 cannot count.
    """
    part, rows, row_size = (tf.cast(number, tf.int64) for number in (part, rows, row_size))
    starts = (part * rows + tf.range(rows)) * row_size
    low = tf.bitwise.bitwise_and(starts, tf.constant(2**32 - 1, tf.int64))
    return tf.cast(low, tf.uint32), tf.cast(tf.bitwise.right_shift(starts, tf.constant(32, tf.int64)), tf.uint32)


def _mixed(bits):
    """MurmurHash3's finalizer (Appleby, 2011): flipping a bit flips each bit of the result with probability 1/2."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        bits = tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint32)))
        bits *= tf.constant(factor, tf.uint32)
    return bits
