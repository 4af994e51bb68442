"""Batches of records, in an order that is a pure function of (seed, step).

A run that was killed and started again asks for the batches from its step on, and gets those that it would have had.
"""

from __future__ import annotations

from typing import Callable

import tensorflow as tf

from albert_tf.data.records import RecordFile

# Records that are mixed at a time; the files' order changes with the epoch, too.
_SHUFFLE_BUFFER = 20_000


def count_records(files: list[RecordFile]) -> int:
    """Records in all files: by their manifests, and where one has none, by reading it."""
    return sum(_count(file.path) if file.count is None else file.count for file in files)


def training_batches(
    files: list[RecordFile], parse: Callable, batch_size: int, seed: int, first_step: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Endless batches, from that of `first_step` on; each epoch is shuffled in its own way.

    Args:
      files: the records.
      parse: for a string tensor of serialized records [rows], the global numbers of the rows (int64 [rows]), gives
        the batch as a dict. The global number is the position in the endless order, so it differs in each epoch.
      batch_size: over all replicas.
      seed: of the order.
      first_step: steps that were taken before.
      context: says which rows of each batch this process and its replicas have.
    """
    total = count_records(files)
    if total < 1:
        raise ValueError(f"there are no records in {files[0].path}")
    epoch, used = divmod(first_step * batch_size, total)
    paths = tf.constant([file.path for file in files])

    def shuffled(epoch):
        order = tf.random.experimental.stateless_shuffle(paths, seed=[seed, epoch])
        return tf.data.TFRecordDataset(order).shuffle(_SHUFFLE_BUFFER, seed=seed + epoch)

    epochs = tf.data.Dataset.range(epoch, tf.int64.max).flat_map(shuffled)
    batches = epochs.skip(used).batch(batch_size, drop_remainder=True).enumerate(first_step)
    numbers = tf.range(batch_size, dtype=tf.int64)
    return _per_replica(batches.map(lambda step, records: (records, step * batch_size + numbers)), parse, batch_size, context)


def evaluation_batches(
    files: list[RecordFile], parse: Callable, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """All records once, in order. The last batch is filled up with its first record, at is_real_example 0.

    Args: as training_batches; batches have is_real_example, float32 [rows], besides what `parse` gives.
    """
    total = count_records(files)
    records = tf.data.TFRecordDataset([file.path for file in files])
    filling = records.take(1).repeat(-total % batch_size)
    numbers = tf.data.Dataset.range(total + -total % batch_size)
    batches = tf.data.Dataset.zip((records.concatenate(filling), numbers)).batch(batch_size, drop_remainder=True)

    def parse_and_mark(records, numbers):
        return dict(parse(records, numbers), is_real_example=tf.cast(numbers < total, tf.float32))

    return _per_replica(batches, parse_and_mark, batch_size, context)


def _per_replica(batches: tf.data.Dataset, parse: Callable, batch_size: int, context) -> tf.data.Dataset:
    """Cuts (records, numbers) of a whole batch into those of this process' replicas, one after the other, and parses."""
    replicas = context.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(f"the batch size must be a multiple of the number of replicas, {replicas}. Received: {batch_size}")
    rows = batch_size // replicas
    local = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * local

    def mine(records, numbers):
        cut = slice(first * rows, (first + local) * rows)
        return tf.data.Dataset.from_tensor_slices((tf.reshape(records[cut], [local, rows]), tf.reshape(numbers[cut], [local, rows])))

    return batches.flat_map(mine).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _count(path: str) -> int:
    return sum(1 for _ in tf.data.TFRecordDataset(path))
