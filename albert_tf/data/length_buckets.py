"""Batches of a FeatureTable, padded to the smallest bucket that holds them.

A padding token costs as much time as any other. So a batch has examples of similar length, and is padded to one of a
few lengths, the buckets. In training, examples are sorted by length within a window of batches of one epoch
(order.py), unless --nogroup_by_length asks for random batches. Element-wise chains are compiled once per bucket.
Which examples a step gets does not depend on the buckets: --pad_to_max_length changes the padding and nothing else. As
in data/batching.py, the order is a pure function of (seed, step).

    buckets = bucket_lengths(max_seq_length)
    training_batches(table, batch_size, buckets, seed, first_step, context)
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.data.batching import per_replica
from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.data.order import LengthOrder, endless_batches, with_infinite_cardinality

_LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384)
# The number of batches within which examples are sorted by length.
WINDOW = 50


def bucket_lengths(max_seq_length: int, pad_to_max_length: bool = False) -> tuple[int, ...]:
    """The lengths that batches are padded to, shortest first.

    Args:
      max_seq_length: the largest length.
      pad_to_max_length: whether to pad all batches to max_seq_length, as in the release.
    """
    shorter = () if pad_to_max_length else tuple(length for length in _LENGTHS if length < max_seq_length)
    return (*shorter, max_seq_length)


def training_batches(
    table: FeatureTable, batch_size: int, buckets: tuple[int, ...], seed: int, first_step: int,
    context: tf.distribute.InputContext, group_by_length: bool = True,
) -> tf.data.Dataset:
    """An endless data set of batches that begins with the batch of `first_step`. Each epoch has its own order.

    No batch has an example twice, unless there are fewer examples than batch_size (see epochs.endless_batches).

    Args:
      table: the examples.
      batch_size: examples of a batch, over all replicas.
      buckets: the result of bucket_lengths.
      seed: seed of the order.
      first_step: number of steps that have been done before.
      context: decides which rows of each batch belong to this process and its replicas.
      group_by_length: whether the examples of a batch have similar lengths. If false, they are drawn at random.
    """
    window, sizes = (WINDOW, table.sizes) if group_by_length else (1, np.zeros_like(table.sizes))
    order = LengthOrder(sizes, batch_size, window, seed)
    batches = endless_batches(order.epoch, len(table), batch_size, first_step, order.arrange, window)
    return with_infinite_cardinality(padded_batches(batches, table, batch_size, buckets, context))


def evaluation_batches(
    table: FeatureTable, batch_size: int, buckets: tuple[int, ...], context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Batches of all examples, once and in the order of their lengths. The last batch is filled up with other examples.

    Arguments are those of training_batches. A batch has the features, and example, int64 [batch]: the row in the table,
    or -1 for an example that fills up the last batch.
    """
    order = np.argsort(table.sizes, kind="stable")
    order = np.concatenate([order, np.full(-len(order) % batch_size, -1, order.dtype)])
    batches = tf.data.Dataset.from_tensor_slices(order.reshape(-1, batch_size))
    return padded_batches(batches, table, batch_size, buckets, context)


def padded_batches(
    batches: tf.data.Dataset, table: FeatureTable, batch_size: int, buckets: tuple[int, ...],
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    """Turns batches of row numbers, int64 [batch], into batches of features.

    All replicas pad to the shape of the global batch. The other arguments are those of training_batches.
    """
    sizes = [(tf.constant(table.lengths), tf.constant(buckets)),
             (tf.constant(table.num_sequences), tf.constant(_sequence_buckets(table.schema)))]

    def with_shape(rows):
        largest = [(tf.reduce_max(tf.gather(values, tf.maximum(rows, 0))), choices) for values, choices in sizes]
        shape = [tf.reduce_min(tf.boolean_mask(choices, choices >= value)) for value, choices in largest]
        return rows, tf.tile([shape], [batch_size, 1])

    def features(rows, shape):
        length, num_sequences = shape[0, 0], shape[0, 1] if table.schema.are_windows else None  # else it stays static
        return dict(table.batch(tf.maximum(rows, 0), length, num_sequences), example=rows)

    return per_replica(batches.map(with_shape), features, batch_size, context)


def _sequence_buckets(schema: FeatureSchema) -> tuple[int, ...]:
    """The numbers of sequences that batches are padded to: for windows, powers of two and num_choices."""
    most = schema.num_choices
    return (*(2**i for i in range((most - 1).bit_length())), most) if schema.are_windows else (most,)
