"""A random order of training examples in which the examples of a batch have similar lengths."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.data.epochs import Examples


class LengthOrder:
    """The order of an epoch and the arrangement of a window of batches, for epochs.endless_batches.

    Args:
      lengths: int32 [examples].
      batch_size: examples of a batch.
      window: the largest number of batches among which examples are sorted by length.
      seed: seed of the order.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, window: int, seed: int):
        self._lengths, self._count = tf.constant(lengths), len(lengths)
        self._batch_size, self._window, self._seed = batch_size, window, seed

    def epoch(self, epoch: tf.Tensor) -> tf.data.Dataset:
        """The examples of an epoch, shuffled, as 1-tuples of their numbers.

        The examples on both sides of an epoch's end, which share a batch, come from the same quantile of the lengths.
        """
        order = tf.range(self._count, dtype=tf.int64)
        order = tf.random.experimental.stateless_shuffle(order, seed=[self._seed, epoch])
        rest = (epoch + 1) * self._count % self._batch_size  # examples that share a batch with the next epoch
        order = self._similar_first(order[::-1], rest, self._quantile(epoch + 1))
        rest, order = order[:rest], order[rest:][::-1]
        order = self._similar_first(order, self._batch_size, self._quantile(epoch))
        return tf.data.Dataset.from_tensor_slices((tf.concat([order, rest], axis=0),))

    def arrange(self, first_step: tf.Tensor, examples: Examples) -> Examples:
        """Sorts the examples of a window by length, cuts them into batches and shuffles the batches."""
        numbers = tf.reshape(examples[0], [-1])
        numbers = tf.gather(numbers, tf.argsort(tf.gather(self._lengths, numbers), stable=True))
        batches = tf.reshape(numbers, tf.shape(examples[0]))
        return (tf.random.experimental.stateless_shuffle(batches, seed=[self._seed, -1 - first_step]),)

    def _quantile(self, epoch: tf.Tensor) -> tf.Tensor:
        """A random number from 0 to 1 for each epoch: the quantile of the lengths at the epoch's start."""
        return tf.random.stateless_uniform([], tf.random.experimental.stateless_fold_in([self._seed, epoch], 1))

    def _similar_first(self, order: tf.Tensor, count: tf.Tensor | int, quantile: tf.Tensor) -> tf.Tensor:
        """Moves `count` examples of similar length, chosen from the first window, to the front."""
        pool = order[: self._window * self._batch_size]
        by_length = tf.argsort(tf.gather(self._lengths, pool), stable=True)
        last = tf.maximum(tf.size(pool, tf.int64) - count, 0)
        begin = tf.cast(quantile * tf.cast(last, tf.float32), tf.int64)
        chosen = by_length[begin : begin + count]
        stays = tf.tensor_scatter_nd_update(tf.ones_like(pool), chosen[:, None], tf.zeros_like(chosen, pool.dtype)) > 0
        return tf.concat([tf.gather(pool, chosen), tf.boolean_mask(pool, stays), order[tf.size(pool) :]], axis=0)
