"""Batches of a FeatureTable, and of records that are streamed from files.

The examples of a step are a function of (seed, step), so a resumed run has the batches that it would have had.

Table. A batch has examples of similar length, since padding takes time too, and is padded to one of a few lengths, the
buckets. The rows of all batches of a run are one array, which does not depend on the buckets::

    rows = training_rows(table, batch_size, num_steps, seed)
    batches = table_batches(table, rows[first_step:], bucket_lengths(max_seq_length), context)

Records. A batch in which one epoch ends and the next begins could have a record twice. The second occurrence then waits
for the next batch, and a later record is used instead. Batches of 4, epochs of 6 records::

    shuffled    a b c d e f, e a c b f d
    batches     a b c d, e f a c, e b f d

So after any number of batches the records have been taken equally often, to within one.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
from typing import Any, Callable, Iterator, Sequence

import numpy as np
from absl import logging

from albert_tf.data.feature_table import FeatureTable
from albert_tf.data.records import CountedFile, RecordFile, without_autotuning
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.progress import count_of

_LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384)
WINDOW = 50  # batches within which examples are sorted by length
# Compiling a step for a length takes as long as 2 to 5 steps, and the next longer length adds a third to a step.
_STEPS_OF_A_LENGTH = 10
_SHUFFLE_BUFFER = 20_000  # records; the order of the files also changes with the epoch
_COUNTED_AT_ONCE = 1_000  # records; a function call for each record would take 40 times as long


def bucket_lengths(max_seq_length: int, pad_to_max_length: bool = False) -> tuple[int, ...]:
    """The lengths that batches are padded to, shortest first. With pad_to_max_length it is one, as in the release."""
    shorter = () if pad_to_max_length else tuple(length for length in _LENGTHS if length < max_seq_length)
    return (*shorter, max_seq_length)


def training_rows(
    table: FeatureTable, batch_size: int, num_steps: int, seed: int, group_by_length: bool = True
) -> np.ndarray:
    """The rows of the table in each training batch of all replicas, int64 [num_steps, batch_size].

    Each epoch has another order. The examples are taken equally often, to within one. If there are fewer than
    batch_size, a batch has each of them floor(batch_size / examples) times, and some once more; a warning says so. More
    steps do not change the earlier ones. Without group_by_length, examples are drawn at random.
    """
    warn_of_repeated_examples(len(table), batch_size)
    copies = (batch_size - 1) // len(table)  # of the whole table, in each batch
    window, sizes = (WINDOW, table.sizes) if group_by_length else (1, np.zeros_like(table.sizes))
    drawn = _distinct_rows(sizes, batch_size - copies * len(table), window, seed)
    rows = np.array(list(itertools.islice(drawn, num_steps)), np.int64)
    whole_table = np.tile(np.arange(len(table)), copies)
    return np.concatenate([rows, np.broadcast_to(whole_table, (num_steps, len(whole_table)))], axis=1)


def _distinct_rows(sizes: np.ndarray, batch_size: int, window: int, seed: int) -> Iterator[np.ndarray]:
    """Batches of distinct rows without end. What remains of an epoch shares a batch with similar rows of the next."""
    remaining: np.ndarray = np.zeros(0, np.int64)
    for epoch in itertools.count():
        random = np.random.RandomState([seed, epoch])  # its draws are the same in every version of NumPy
        order = random.permutation(len(sizes))
        if len(remaining):
            others = order[~np.isin(order, remaining)][: window * batch_size]
            differences = np.abs(sizes[others] - np.median(sizes[remaining]))
            added = others[np.argsort(differences, kind="stable")[: batch_size - len(remaining)]]
            yield np.concatenate([remaining, added])
            order = order[~np.isin(order, added)]
        # What no full batch holds stays for the next epoch: rows of neighbouring sizes, drawn at random.
        candidates, count = order[: window * batch_size], len(order) % batch_size
        first = random.randint(len(candidates) - count + 1)
        remaining = candidates[np.argsort(sizes[candidates], kind="stable")][first : first + count]
        batches = order[~np.isin(order, remaining)].reshape(-1, batch_size)
        for rows in np.array_split(batches, -(-len(batches) // window) or 1):  # windows of equal size, to within one
            by_size = np.argsort(sizes[rows.ravel()], kind="stable")
            yield from random.permutation(rows.ravel()[by_size].reshape(rows.shape))


def warn_of_repeated_examples(num_examples: int, batch_size: int) -> None:
    """Warns if a batch has more examples than the training set."""
    if batch_size > num_examples:
        logging.warning("a batch of %s repeats the training set of %s: a smaller --train_batch_size takes less time "
                        "and memory", count_of(batch_size, "example"), f"{num_examples:,}")


def evaluation_rows(table: FeatureTable, batch_size: int) -> np.ndarray:
    """All rows of the table once, in the order of their sizes, int64 [steps, batch_size]; -1 fills the last batch."""
    order = np.argsort(table.sizes, kind="stable")
    return np.concatenate([order, np.full(-len(order) % batch_size, -1)]).reshape(-1, batch_size)


def padded_lengths(table: FeatureTable, rows: np.ndarray, buckets: tuple[int, ...]) -> list[int]:
    """The length to which the batch of each step is padded (see table_batches), for rows [steps, batch_size]."""
    return np.array(buckets)[np.searchsorted(buckets, np.asarray(table.lengths)[rows].max(axis=1))].tolist()


def lengths_of_run(table: FeatureTable, rows: np.ndarray, buckets: tuple[int, ...]) -> tuple[int, ...]:
    """The buckets that pay for their compilation in a run with these rows, [steps, batch_size].

    A bucket that fewer than 10 steps would use is left out, and they use the next longer one. The longest one stays.
    """
    steps, waiting, lengths = collections.Counter(padded_lengths(table, rows, buckets)), 0, []
    for length in sorted(steps):
        waiting += steps[length]
        if waiting >= _STEPS_OF_A_LENGTH or length == max(steps):
            lengths.append(length)
            waiting = 0
    return tuple(lengths)


def table_batches(
    table: FeatureTable, rows: np.ndarray, buckets: tuple[int, ...], context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Batches of features (see FeatureTable.batch), padded on all replicas to the smallest bucket that holds the batch.

    Rows are int64 [steps, batch_size], over all replicas; -1 fills a batch. A batch also has example, int64 [batch],
    the row in the table.
    """
    batch_size, most = rows.shape[1], table.schema.num_choices
    powers = [2**i for i in range((most - 1).bit_length())] if table.schema.are_windows else []  # of windows
    sizes = [(tf.constant(table.lengths), tf.constant(buckets)),
             (tf.constant(table.num_sequences), tf.constant([*powers, most]))]

    def with_shape(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        largest = [(tf.reduce_max(tf.gather(values, tf.maximum(rows, 0))), choices) for values, choices in sizes]
        shape = [tf.reduce_min(tf.boolean_mask(choices, choices >= value)) for value, choices in largest]
        return rows, tf.tile([shape], [batch_size, 1])

    def features(rows: tf.Tensor, shape: tf.Tensor) -> dict[str, tf.Tensor]:
        length, num_sequences = shape[0, 0], shape[0, 1] if table.schema.are_windows else None  # else it stays static
        return dict(table.batch(tf.maximum(rows, 0), length, num_sequences), example=rows)

    return per_replica(tf.data.Dataset.from_tensor_slices(rows).map(with_shape), features, batch_size, context)


def per_replica(
    batches: tf.data.Dataset, parse: Callable, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Splits global batches into one batch for each replica of this process, in order, and parses them.

    `batches` has structures of tensors [rows, ...], whose rows can be divided among the replicas.
    """
    replicas = context.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(f"the batch size must be a multiple of the number of replicas, {replicas}. "
                         f"Received: {batch_size}")
    local = replicas // context.num_input_pipelines

    def of_replicas(tensor: tf.Tensor) -> tf.Tensor:
        rows = (tensor.shape[0] or tf.shape(tensor)[0]) // replicas
        first = context.input_pipeline_id * local * rows
        return tf.reshape(tensor[first : first + local * rows], [local, rows, *tensor.shape[1:]])

    def split(*batch: Any) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(of_replicas, batch))

    parsed = batches.flat_map(split).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return without_autotuning(parsed.prefetch(tf.data.AUTOTUNE))


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
    context: tf.distribute.InputContext, pack: Callable | None = None
) -> tf.data.Dataset:
    """An endless data set of batches (see endless_batches). Each epoch has another order.

    `parse` returns the batch as a dict. Its arguments are the serialized records, string [rows], and the number of each
    row in the run, int64 [rows]: step * batch_size + row. batch_size counts all replicas. `pack` may change the number
    of rows of a parsed batch of all replicas.
    """
    paths = tf.constant([file.path for file in files])
    first_numbers = tf.constant(np.cumsum([0, *(file.count for file in files[:-1])]), tf.int64)

    def numbered(file: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(paths[file]).enumerate(first_numbers[file])

    def shuffled(epoch: tf.Tensor) -> tf.data.Dataset:
        tf.random.set_seed(seed + 1)  # for this function's graph, instead of the process's seed; 0 would mean no seed
        order = tf.random.experimental.stateless_shuffle(tf.range(len(files)), seed=[seed, epoch])
        return tf.data.Dataset.from_tensor_slices(order).flat_map(numbered).shuffle(_SHUFFLE_BUFFER, seed=epoch)

    batches = endless_batches(shuffled, sum(file.count for file in files), batch_size, first_step)
    rows = tf.range(batch_size, dtype=tf.int64)
    batches = batches.enumerate(first_step).map(lambda step, examples: (examples[1], step * batch_size + rows))
    if pack:
        batches = batches.map(lambda *batch: pack(parse(*batch)), num_parallel_calls=tf.data.AUTOTUNE)
    batches = per_replica(batches, (lambda batch: batch) if pack else parse, batch_size, context)
    # With several workers, only an endless data set keeps its static batch size.
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


@dataclasses.dataclass(frozen=True)
class EvaluationData:
    """Examples to predict, each once, in batches.

    Attributes:
      size: the number of examples.
      steps: the number of batches.
      batches: function of an InputContext that returns the batches. Each has `example`, int64 [rows]: the number of the
        example, from 0 to size - 1; -1 for a row that fills the last batch.
    """

    size: int
    steps: int
    batches: Callable[[tf.distribute.InputContext], tf.data.Dataset]


def table_to_evaluate(table: FeatureTable | None, batch_size: int, buckets: tuple[int, ...]) -> EvaluationData:
    """All rows of a table (None: no rows), in batches of similar sizes over all replicas."""
    if table is None:
        return EvaluationData(0, 0, lambda context: tf.data.Dataset.range(0))
    rows = evaluation_rows(table, batch_size)
    return EvaluationData(len(table), len(rows), lambda context: table_batches(table, rows, buckets, context))


def records_to_evaluate(
    files: list[CountedFile], parse: Callable, batch_size: int, max_steps: int = 0
) -> EvaluationData:
    """The records of files in their order, at most max_steps batches of them (0: all).

    `parse` is as in training_record_batches. The last batch is filled up with copies of the first record.
    """
    total = sum(file.count for file in files)
    steps = min(-(-total // batch_size), max_steps or total)

    def parse_and_number(records: tf.Tensor, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        return dict(parse(records, numbers), example=tf.where(numbers < total, numbers, -1))

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset([file.path for file in files])
        records = records.concatenate(records.take(1).repeat(-total % batch_size))
        numbered = tf.data.Dataset.zip((records, tf.data.Dataset.range(steps * batch_size)))
        return per_replica(numbered.batch(batch_size, drop_remainder=True), parse_and_number, batch_size, context)

    return EvaluationData(min(total, steps * batch_size), steps, batches)


def endless_batches(
    epoch_of: Callable[[tf.Tensor], tf.data.Dataset], num_examples: int, batch_size: int, first_step: int
) -> tf.data.Dataset:
    """An endless data set of batches that begins with the batch of `first_step`, which does not change the batches.

    If there are fewer examples than batch_size, a batch has each of them several times, as in training_rows.

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

    def take(waiting: tuple[tf.Tensor, ...], arriving: tuple[tf.Tensor, ...]) -> tuple[tuple[tf.Tensor, ...], ...]:
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
