"""The order of training examples: batches from an endless sequence of shuffled epochs, without an example twice.

A batch in which one epoch ends and the next begins could have an example twice. The second occurrence then waits for
the next batch, and a later example takes its place. Batches of 4, epochs of 6 examples::

    shuffled    a b c d e f, e a c b f d
    batches     a b c d, e f a c, e b f d

A batch takes nothing of an epoch before it has taken all that remains of the previous one. So after any number of
batches the examples have been taken equally often, to within one.

LengthOrder also gives the examples of a batch similar lengths.
"""

from __future__ import annotations

import dataclasses
from typing import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.utils.progress import count_of

# Examples as tensors [rows], or [batches, rows]; the first are their numbers in the set, int64.
Examples = tuple[tf.Tensor, ...]


def endless_batches(
    epoch_of: Callable[[tf.Tensor], tf.data.Dataset], num_examples: int, batch_size: int, first_step: int,
    arrange: Callable[[tf.Tensor, Examples], Examples] | None = None, window: int = 1,
) -> tf.data.Dataset:
    """An endless data set of batches that begins with the batch of `first_step`.

    The batch of a step is the same for every `first_step`. If there are fewer examples than batch_size, a batch has
    each of them floor(batch_size / num_examples) times, and some of them once more; a warning says so.

    Args:
      epoch_of: function of the number of an epoch, int64 [], that returns the examples in the order of that epoch. An
        example is a tuple of scalars; the first one is its number in the set, from 0 to num_examples - 1.
      num_examples: examples of an epoch.
      batch_size: examples of a batch.
      first_step: number of steps that have been done before.
      arrange: exchanges examples between the batches of a window, and the batches. It is called with the first step of
        the window, int64 [], and the examples, [batches, rows], and returns examples of the same shape.
      window: the largest number of batches that `arrange` gets. They are consecutive batches of one epoch.

    Returns:
      Examples [batch_size].
    """
    if batch_size > num_examples:
        logging.warning("a batch of %s repeats the training set of %s: a smaller --train_batch_size takes less time "
                        "and memory", count_of(batch_size, "example"), f"{num_examples:,}")
    copies = (batch_size - 1) // num_examples  # of the whole set, in each batch
    cut = _Cut(num_examples, batch_size - copies * num_examples, window)
    start = int(cut.window_of(tf.constant(first_step, tf.int64))[0]) if arrange else first_step
    batches = _distinct(epoch_of, cut, start)
    if arrange:
        batches = _arranged(batches, cut, start, arrange)
    batches = batches.skip(first_step - start)
    if copies:
        whole_set = tf.data.Dataset.range(1).flat_map(epoch_of).batch(num_examples, drop_remainder=True)
        whole_set = whole_set.cache().repeat()
        batches = tf.data.Dataset.zip((batches, whole_set)).map(
            lambda drawn, whole: tuple(tf.concat([a, *[b] * copies], axis=0) for a, b in zip(drawn, whole)))
    return batches


def with_infinite_cardinality(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Marks batches as endless. With several workers, only such a data set keeps its static batch size."""
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


@dataclasses.dataclass(frozen=True)
class _Cut:
    """How a sequence of epochs is divided into batches and windows.

    Args:
      num_examples: examples of an epoch.
      batch_size: examples of a batch, at most num_examples.
      window: the largest number of batches of a window.
    """

    num_examples: int
    batch_size: int
    window: int

    def spans_epochs(self, step):
        """Whether the batch of a step (int, or int64 tensor) begins in one epoch and ends in the next."""
        return step * self.batch_size % self.num_examples + self.batch_size > self.num_examples

    def window_of(self, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """First step and number of batches of the window that a step, int64 [], belongs to.

        The batches that lie within an epoch are divided into windows of equal size, to within one. A batch that spans
        epochs is a window of its own.
        """
        epoch = step * self.batch_size // self.num_examples
        first = -(-epoch * self.num_examples // self.batch_size)
        within = tf.maximum((epoch + 1) * self.num_examples // self.batch_size - first, 1)
        windows = -(-within // self.window)
        index = (step - first) * windows // within
        begin, end = (first - (-i * within // windows) for i in (index, index + 1))
        return begin, tf.where(self.spans_epochs(step), tf.ones_like(step), end - begin)


def _distinct(epoch_of: Callable[[tf.Tensor], tf.data.Dataset], cut: _Cut, first_step: int) -> tf.data.Dataset:
    """Batches of distinct examples in the order of the epochs, from that of `first_step` on."""
    start = first_step
    while start and cut.spans_epochs(start - 1):
        start -= 1  # which examples wait after a batch that spans epochs depends on the earlier batches
    epoch, used = divmod(start * cut.batch_size, cut.num_examples)
    examples = tf.data.Dataset.range(epoch, tf.int64.max).flat_map(epoch_of).skip(used)

    def take(waiting, arriving):
        both = tuple(tf.concat(parts, axis=0) for parts in zip(waiting, arriving))  # [2 * batch_size]
        taken = _first_places(both[0])[: cut.batch_size]
        waits = tf.tensor_scatter_nd_update(tf.ones_like(both[0]), taken[:, None], tf.zeros_like(taken)) > 0
        kept = tf.reshape(tf.where(waits), [cut.batch_size])
        return tuple(tuple(tf.gather(values, places) for values in both) for places in (kept, taken))

    # At the start, the waiting batch has examples that do not exist. It becomes the first batch, which is skipped.
    nothing = (-1 - tf.range(cut.batch_size, dtype=tf.int64),
               *(tf.zeros([cut.batch_size], spec.dtype) for spec in examples.element_spec[1:]))
    batches = examples.batch(cut.batch_size, drop_remainder=True).scan(nothing, take)
    return batches.skip(1 + first_step - start)


def _first_places(numbers: tf.Tensor) -> tf.Tensor:
    """int64 [rows]: the index of the first occurrence of each distinct number, in order; later entries are invalid."""
    _, distinct = tf.unique(numbers)  # numbered in the order of their first occurrence
    places = tf.range(tf.size(numbers, tf.int64))
    return tf.math.unsorted_segment_min(places, distinct, tf.size(numbers))


def _arranged(
    batches: tf.data.Dataset, cut: _Cut, first_step: int, arrange: Callable[[tf.Tensor, Examples], Examples]
) -> tf.data.Dataset:
    """The batches, arranged window by window; `first_step` is the first of a window."""
    def arranged(first, window):
        batched = window.map(lambda _, examples: examples).batch(cut.window)
        return batched.flat_map(lambda *examples: tf.data.Dataset.from_tensor_slices(arrange(first, examples)))

    return batches.map(lambda *examples: examples).enumerate(first_step).group_by_window(
        key_func=lambda step, _: cut.window_of(step)[0],
        reduce_func=arranged,
        window_size_func=lambda first: cut.window_of(first)[1])


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
