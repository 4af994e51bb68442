"""Batches of records that are streamed from files, in an order that is a pure function of (seed, step).

A run that was killed and started again continues with the batches that it would have had without the interruption.

A batch in which one epoch ends and the next begins could have a record twice. The second occurrence then waits for
the next batch, and a later record takes its place. Batches of 4, epochs of 6 records::

    shuffled    a b c d e f, e a c b f d
    batches     a b c d, e f a c, e b f d

A batch takes nothing of an epoch before it has taken all that remains of the previous one. So after any number of
batches the records have been taken equally often, to within one.
"""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.batching import per_replica, warn_of_repeated_examples
from albert_tf.data.records import CountedFile, RecordFile, without_autotuning

_SHUFFLE_BUFFER = 20_000  # records; the order of the files also changes with the epoch
_COUNTED_AT_ONCE = 1_000  # records; a function call for each record would take 40 times as long


def counted(files: Sequence[RecordFile]) -> list[CountedFile]:
    """The files with their record counts. The records of a file without a manifest are counted by reading it."""
    with_counts = [CountedFile(file.path, _count(file.path) if file.count is None else file.count, file.made_from)
                   for file in files]
    if empty := [file.path for file in with_counts if not file.count]:
        raise ValueError(f"there are no records in {empty[0]}")
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
    """An endless data set of batches that begins with the batch of `first_step`. Each epoch has another order.

    `parse` returns the batch as a dict. Its arguments are the serialized records, string [rows], and the global number
    of each row, int64 [rows]: step * batch_size + row. A record has another number in each epoch. batch_size counts all
    replicas; `context` decides which rows belong to this process and its replicas. See endless_batches.
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


def with_infinite_cardinality(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Marks batches as endless. With several workers, only such a data set keeps its static batch size."""
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def evaluation_record_batches(
    files: list[CountedFile], parse: Callable, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Batches of all records, once and in order. The last batch is filled up with copies of the first record.

    A batch has the features from `parse` and is_real_example, float32 [rows], which is 0 for the copies.
    """
    total = sum(file.count for file in files)
    records = tf.data.TFRecordDataset([file.path for file in files])
    filling = records.take(1).repeat(-total % batch_size)
    numbers = tf.data.Dataset.range(total + -total % batch_size)
    batches = tf.data.Dataset.zip((records.concatenate(filling), numbers)).batch(batch_size, drop_remainder=True)

    def parse_and_mark(records, numbers):
        return dict(parse(records, numbers), is_real_example=tf.cast(numbers < total, tf.float32))

    return per_replica(batches, parse_and_mark, batch_size, context)


def endless_batches(
    epoch_of: Callable[[tf.Tensor], tf.data.Dataset], num_examples: int, batch_size: int, first_step: int
) -> tf.data.Dataset:
    """An endless data set of batches that begins with the batch of `first_step`.

    The batch of a step is the same for every `first_step`. If there are fewer examples than batch_size, a batch has
    each of them floor(batch_size / num_examples) times, and some of them once more; a warning says so.

    `epoch_of` returns the examples of an epoch, from its number, int64 []: tuples of scalars, the first one
    the example's number in the set, from 0 to num_examples - 1. The results are tuples of tensors, [batch_size].
    """
    warn_of_repeated_examples(num_examples, batch_size)
    copies = (batch_size - 1) // num_examples  # of the whole set, in each batch
    batches = _distinct(epoch_of, num_examples, batch_size - copies * num_examples, first_step)
    if copies:
        whole_set = tf.data.Dataset.range(1).flat_map(epoch_of).batch(num_examples, drop_remainder=True)
        whole_set = whole_set.cache().repeat()
        batches = tf.data.Dataset.zip((batches, whole_set)).map(
            lambda drawn, whole: tuple(tf.concat([a, *[b] * copies], axis=0) for a, b in zip(drawn, whole)))
    return batches


def _distinct(
    epoch_of: Callable[[tf.Tensor], tf.data.Dataset], num_examples: int, batch_size: int, first_step: int
) -> tf.data.Dataset:
    """Batches of distinct examples in the order of the epochs, beginning at `first_step`."""
    def spans_epochs(step: int) -> bool:
        return step * batch_size % num_examples + batch_size > num_examples

    start = first_step
    while start and spans_epochs(start - 1):
        start -= 1  # which examples wait after a batch that spans epochs depends on the earlier batches
    epoch, used = divmod(start * batch_size, num_examples)
    examples = tf.data.Dataset.range(epoch, tf.int64.max).flat_map(epoch_of).skip(used)

    def take(waiting, arriving):
        both = tuple(tf.concat(parts, axis=0) for parts in zip(waiting, arriving))  # [2 * batch_size]
        _, distinct = tf.unique(both[0])  # numbered in the order of their first occurrence
        indices = tf.range(tf.size(both[0], tf.int64))
        taken = tf.math.unsorted_segment_min(indices, distinct, tf.size(both[0]))[: batch_size]  # first occurrences
        waits = tf.tensor_scatter_nd_update(tf.ones_like(both[0]), taken[:, None], tf.zeros_like(taken)) > 0
        kept = tf.reshape(tf.where(waits), [batch_size])
        return tuple(tuple(tf.gather(values, indices) for values in both) for indices in (kept, taken))

    # At the start, the waiting batch has examples that do not exist. It becomes the first batch, which is skipped.
    nothing = (-1 - tf.range(batch_size, dtype=tf.int64),
               *(tf.zeros([batch_size], spec.dtype) for spec in examples.element_spec[1:]))
    batches = examples.batch(batch_size, drop_remainder=True).scan(nothing, take)
    return batches.skip(1 + first_step - start)


def _count(path: str) -> int:
    """The number of records in a file. All checksums are verified."""
    try:
        records = without_autotuning(tf.data.TFRecordDataset(path).batch(_COUNTED_AT_ONCE))
        return int(records.reduce(np.int64(0), lambda count, part: count + tf.size(part, tf.int64)))
    except tf.errors.DataLossError as error:
        reason = error.message.splitlines()[0].partition(" name:")[0]
        raise ValueError(f"{path} was truncated or changed, or is not a TFRecord file: {reason}") from error
