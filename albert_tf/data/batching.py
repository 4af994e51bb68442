"""Batches of records, in an order that is a pure function of (seed, step).

A run that was killed and started again asks for the batches from its step on, and gets those that it would have had.
"""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.epochs import endless_batches
from albert_tf.data.records import CountedFile, RecordFile

# Records that are mixed at a time; the files' order changes with the epoch, too.
_SHUFFLE_BUFFER = 20_000


def counted(files: Sequence[RecordFile]) -> list[CountedFile]:
    """The files with their counts: by their manifests, and where one has none, by reading it.

    Raises:
      ValueError: a file without a manifest cannot be read to its end, or has no records.
    """
    with_counts = [CountedFile(file.path, _count(file.path) if file.count is None else file.count, file.made_from)
                   for file in files]
    for file in with_counts:
        if not file.count:
            raise ValueError(f"there are no records in {file.path}")
    return with_counts


@contextlib.contextmanager
def naming_changed_files(files: Sequence[RecordFile]) -> Iterator[None]:
    """Where records turn out to be damaged while they are read, raises a ValueError that names their file."""
    try:
        yield
    except tf.errors.DataLossError:
        for file in files:
            _count(file.path)
        raise


def training_batches(
    files: list[CountedFile], parse: Callable, batch_size: int, seed: int, first_step: int,
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    """Endless batches, from that of `first_step` on; each epoch is shuffled in its own way.

    As epochs.endless_batches says, no batch has a record twice, unless there are fewer records than batch_size.

    Args:
      files: the records, counted.
      parse: for a string tensor of serialized records [rows], the global numbers of the rows (int64 [rows]), gives
        the batch as a dict. The global number is step * batch_size + row, so a record has another one in each epoch.
      batch_size: over all replicas.
      seed: of the order.
      first_step: steps that were taken before.
      context: says which rows of each batch this process and its replicas have.
    """
    paths = tf.constant([file.path for file in files])
    first_numbers = tf.constant(np.cumsum([0, *(file.count for file in files[:-1])]), tf.int64)

    def numbered(file):
        return tf.data.TFRecordDataset(paths[file]).enumerate(first_numbers[file])

    def shuffled(epoch):
        tf.random.set_seed(seed + 1)  # of this function's graph, in the place of the process' seed; 0 would mean none
        order = tf.random.experimental.stateless_shuffle(tf.range(len(files)), seed=[seed, epoch])
        return tf.data.Dataset.from_tensor_slices(order).flat_map(numbered).shuffle(_SHUFFLE_BUFFER, seed=epoch)

    batches = endless_batches(shuffled, sum(file.count for file in files), batch_size, first_step)
    rows = tf.range(batch_size, dtype=tf.int64)
    batches = batches.enumerate(first_step).map(lambda step, examples: (examples[1], step * batch_size + rows))
    # Several workers keep the static batch size only of a data set that says that it has no end.
    endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return per_replica(batches, parse, batch_size, context).apply(endless)


def evaluation_batches(
    files: list[CountedFile], parse: Callable, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """All records once, in order. The last batch is filled up with its first record, at is_real_example 0.

    Args: as training_batches; batches have is_real_example, float32 [rows], besides what `parse` gives.
    """
    total = sum(file.count for file in files)
    records = tf.data.TFRecordDataset([file.path for file in files])
    filling = records.take(1).repeat(-total % batch_size)
    numbers = tf.data.Dataset.range(total + -total % batch_size)
    batches = tf.data.Dataset.zip((records.concatenate(filling), numbers)).batch(batch_size, drop_remainder=True)

    def parse_and_mark(records, numbers):
        return dict(parse(records, numbers), is_real_example=tf.cast(numbers < total, tf.float32))

    return per_replica(batches, parse_and_mark, batch_size, context)


def per_replica(
    batches: tf.data.Dataset, parse: Callable, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Cuts whole batches into those of this process' replicas, in order, and parses them.

    Args:
      batches: of (records, numbers), two tensors with a value for each row.
      parse: makes a replica's batch of its part of both.
      batch_size, context: as for training_batches.
    """
    replicas = context.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(f"the batch size must be a multiple of the number of replicas, {replicas}. "
                         f"Received: {batch_size}")
    rows = batch_size // replicas
    local = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * local

    def mine(records, numbers):
        cut = slice(first * rows, (first + local) * rows)
        parts = tuple(tf.reshape(tensor[cut], [local, rows]) for tensor in (records, numbers))
        return tf.data.Dataset.from_tensor_slices(parts)

    return batches.flat_map(mine).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _count(path: str) -> int:
    """How many records there are, each of them checked."""
    try:
        return int(tf.data.TFRecordDataset(path).reduce(np.int64(0), lambda count, _: count + 1))
    except tf.errors.DataLossError as error:
        reason = error.message.splitlines()[0].partition(" name:")[0]
        raise ValueError(f"{path} was cut or changed, or is no TFRecord file: {reason}") from error
