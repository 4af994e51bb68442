"""Batches of a FeatureTable, padded to the smallest bucket that holds them.

Padding costs as much as text does. So examples of about one length come together, in training within a window of
batches of one epoch (length_order.py), and a batch is padded to one of a few lengths. The step has one program for each
of these lengths. Which examples a step gets does not depend on the buckets: --pad_to_max_length changes the padding and
nothing else. As in data/batching.py, the order is a pure function of (seed, step).

    buckets = bucket_lengths(max_seq_length)
    training_batches(table, batch_size, buckets, seed, first_step, context)
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.data.batching import per_replica
from albert_tf.data.epochs import endless_batches
from albert_tf.data.feature_table import FeatureTable
from albert_tf.data.length_order import LengthOrder

_LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384)
# Batches among which examples are sorted by length.
WINDOW = 50


def bucket_lengths(max_seq_length: int, pad_to_max_length: bool = False) -> tuple[int, ...]:
    """The lengths that batches are padded to, shortest first.

    Args:
      max_seq_length: the last one.
      pad_to_max_length: whether it is the only one (the release's way).
    """
    shorter = () if pad_to_max_length else tuple(length for length in _LENGTHS if length < max_seq_length)
    return (*shorter, max_seq_length)


def training_batches(
    table: FeatureTable, batch_size: int, buckets: tuple[int, ...], seed: int, first_step: int,
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    """Endless batches, from that of `first_step` on; each epoch is shuffled in its own way.

    No batch has an example twice, unless there are fewer examples than batch_size (see epochs.endless_batches).

    Args:
      table: the examples.
      batch_size: over all replicas.
      buckets: of bucket_lengths.
      seed: of the order.
      first_step: steps that were taken before.
      context: says which rows of each batch this process and its replicas have.
    """
    order = LengthOrder(table.lengths, batch_size, WINDOW, seed)
    batches = endless_batches(order.epoch, len(table), batch_size, first_step, order.arrange, WINDOW)
    # Several workers keep the static batch size only of a data set that says that it has no end.
    endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return _padded(batches, table, batch_size, buckets, context).apply(endless)


def evaluation_batches(
    table: FeatureTable, batch_size: int, buckets: tuple[int, ...], context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """All examples once, by length. The last batch is filled up.

    Args: as training_batches; batches have, besides the features, example, int64 [batch]: the row of the table, or -1
      where it only fills up.
    """
    order = np.argsort(table.lengths, kind="stable")
    order = np.concatenate([order, np.full(-len(order) % batch_size, -1, order.dtype)])
    batches = tf.data.Dataset.from_tensor_slices(order.reshape(-1, batch_size))
    return _padded(batches, table, batch_size, buckets, context)


def _padded(batches: tf.data.Dataset, table: FeatureTable, batch_size: int, buckets, context) -> tf.data.Dataset:
    """Batches of rows to batches of features; a bucket is that of the whole batch, the same for all replicas."""
    lengths, buckets = tf.constant(table.lengths), tf.constant(buckets)

    def with_bucket(rows):
        longest = tf.reduce_max(tf.gather(lengths, tf.maximum(rows, 0)))
        bucket = tf.reduce_min(tf.boolean_mask(buckets, buckets >= longest))
        return rows, tf.repeat(bucket, batch_size)

    def features(rows, bucket):
        return dict(table.batch(tf.maximum(rows, 0), bucket[0]), example=rows)

    return per_replica(batches.map(with_bucket), features, batch_size, context)
