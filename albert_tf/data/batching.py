"""Batches of records, in an order that is a pure function of (seed, step).

A run that was killed and started again continues with the batches that it would have had without the interruption.
"""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.order import endless_batches, with_infinite_cardinality
from albert_tf.data.records import CountedFile, RecordFile

# Size of the shuffle buffer, in records. The order of the files also changes with the epoch.
_SHUFFLE_BUFFER = 20_000
_COUNTED_AT_ONCE = 1_000  # records; a function call for each record would take 40 times as long


def counted(files: Sequence[RecordFile]) -> list[CountedFile]:
    """The files with their record counts. The records of a file without a manifest are counted by reading it.

    Raises:
      ValueError: a file has no records, or one without a manifest cannot be read to its end.
    """
    with_counts = [CountedFile(file.path, _count(file.path) if file.count is None else file.count, file.made_from)
                   for file in files]
    for file in with_counts:
        if not file.count:
            raise ValueError(f"there are no records in {file.path}")
    return with_counts


@contextlib.contextmanager
def naming_changed_files(files: Sequence[RecordFile]) -> Iterator[None]:
    """Turns the error for a damaged record, raised inside the block, into a ValueError that names the file."""
    try:
        yield
    except tf.errors.DataLossError:
        for file in files:
            _count(file.path)
        raise


def training_record_batches(
    files: list[CountedFile], parse: Callable, batch_size: int, seed: int, first_step: int,
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    """An endless data set of batches that begins with the batch of `first_step`. Each epoch has its own order.

    No batch has a record twice, unless there are fewer records than batch_size (see epochs.endless_batches).

    Args:
      files: the record files, with their counts.
      parse: function that returns the batch as a dict. Its arguments are the serialized records, string [rows], and the
        global number of each row, int64 [rows]: step * batch_size + row. A record has another number in each epoch.
      batch_size: records of a batch, over all replicas.
      seed: seed of the order.
      first_step: number of steps that have been done before.
      context: decides which rows of each batch belong to this process and its replicas.
    """
    paths = tf.constant([file.path for file in files])
    first_numbers = tf.constant(np.cumsum([0, *(file.count for file in files[:-1])]), tf.int64)

    def numbered(file):
        return tf.data.TFRecordDataset(paths[file]).enumerate(first_numbers[file])

    def shuffled(epoch):
        tf.random.set_seed(seed + 1)  # for this function's graph, instead of the process's seed; 0 would mean no seed
        order = tf.random.experimental.stateless_shuffle(tf.range(len(files)), seed=[seed, epoch])
        return tf.data.Dataset.from_tensor_slices(order).flat_map(numbered).shuffle(_SHUFFLE_BUFFER, seed=epoch)

    batches = endless_batches(shuffled, sum(file.count for file in files), batch_size, first_step)
    rows = tf.range(batch_size, dtype=tf.int64)
    batches = batches.enumerate(first_step).map(lambda step, examples: (examples[1], step * batch_size + rows))
    return with_infinite_cardinality(per_replica(batches, parse, batch_size, context))


def evaluation_record_batches(
    files: list[CountedFile], parse: Callable, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Batches of all records, once and in order. The last batch is filled up with copies of the first record.

    Arguments are those of training_record_batches. A batch has the features from `parse` and is_real_example, float32
    [rows], which is 0 for the copies.
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
    """Splits global batches into one batch for each replica of this process, in order, and parses them.

    Args:
      batches: data set of (records, numbers), two tensors whose first axis is that of the rows.
      parse: function that returns a replica's batch; its arguments are the replica's rows of both tensors.
      batch_size, context: see training_record_batches.
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
        parts = tuple(tf.reshape(tensor[cut], [local, rows, *tensor.shape[1:]]) for tensor in (records, numbers))
        return tf.data.Dataset.from_tensor_slices(parts)

    parsed = batches.flat_map(mine).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return without_autotuning(parsed.prefetch(tf.data.AUTOTUNE))


def _count(path: str) -> int:
    """The number of records in a file, whose checksums are all verified."""
    try:
        records = without_autotuning(tf.data.TFRecordDataset(path).batch(_COUNTED_AT_ONCE))
        return int(records.reduce(np.int64(0), lambda count, part: count + tf.size(part, tf.int64)))
    except tf.errors.DataLossError as error:
        reason = error.message.splitlines()[0].partition(" name:")[0]
        raise ValueError(f"{path} was truncated or changed, or is not a TFRecord file: {reason}") from error


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The data set without autotuning: tf.data.AUTOTUNE is then one parallel call per core, at most 16.

    The thread of autotuning sleeps for up to a minute at a time, and the end of an iterator can wait for it. So
    trainings and evaluations ended up to a minute late.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
