"""Batches of a FeatureTable, padded to the smallest bucket that holds them.

A padding token costs as much time as any other. So a batch has examples of similar length, and is padded to one of a
few lengths, the buckets. Element-wise chains are compiled once per bucket. The rows of all batches of a run are one
array::

    rows = training_rows(table, batch_size, num_steps, seed)
    batches = table_batches(table, rows[first_step:], bucket_lengths(max_seq_length), context)

The rows of a step are a function of (seed, step): a run that was killed and started again continues with the batches
that it would have had. They do not depend on the buckets: --pad_to_max_length changes the padding and nothing else.
"""

from __future__ import annotations

import itertools
from typing import Callable, Iterator

import numpy as np
from absl import logging

from albert_tf.data.feature_table import FeatureTable
from albert_tf.data.records import without_autotuning
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.progress import count_of

_LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384)
WINDOW = 50  # batches within which examples are sorted by length


def bucket_lengths(max_seq_length: int, pad_to_max_length: bool = False) -> tuple[int, ...]:
    """The lengths that batches are padded to, shortest first. With pad_to_max_length it is one, as in the release."""
    shorter = () if pad_to_max_length else tuple(length for length in _LENGTHS if length < max_seq_length)
    return (*shorter, max_seq_length)


def training_rows(
    table: FeatureTable, batch_size: int, num_steps: int, seed: int, group_by_length: bool = True
) -> np.ndarray:
    """The rows of the table in each training batch of all replicas, int64 [num_steps, batch_size].

    Each epoch has another order. After any number of batches, the examples have been taken equally often, to within
    one. No batch has an example twice, unless there are fewer examples than batch_size: then it has each of them
    floor(batch_size / examples) times, and some of them once more; a warning says so. More steps do not change the
    earlier ones. Without group_by_length, examples are drawn at random.
    """
    warn_of_repeated_examples(len(table), batch_size)
    copies = (batch_size - 1) // len(table)  # of the whole table, in each batch
    window, sizes = (WINDOW, table.sizes) if group_by_length else (1, np.zeros_like(table.sizes))
    drawn = _distinct_rows(sizes, batch_size - copies * len(table), window, seed)
    rows = np.array(list(itertools.islice(drawn, num_steps)), np.int64)
    whole_table = np.tile(np.arange(len(table)), copies)
    return np.concatenate([rows, np.broadcast_to(whole_table, (num_steps, len(whole_table)))], axis=1)


def _distinct_rows(sizes: np.ndarray, batch_size: int, window: int, seed: int) -> Iterator[np.ndarray]:
    """Batches of distinct rows without end, one epoch after the other.

    The rows that remain of an epoch share a batch with rows of the next epoch, of about the same size.
    """
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


def table_batches(
    table: FeatureTable, rows: np.ndarray, buckets: tuple[int, ...], context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Batches of features (see FeatureTable.batch), padded on all replicas to the smallest bucket that holds the batch.

    Rows are int64 [steps, batch_size], over all replicas; -1 for any row, which fills a batch. `context` decides which
    are this process's. A batch also has example, int64 [batch], the row in the table.
    """
    batch_size, most = rows.shape[1], table.schema.num_choices
    powers = [2**i for i in range((most - 1).bit_length())] if table.schema.are_windows else []  # of windows
    sizes = [(tf.constant(table.lengths), tf.constant(buckets)),
             (tf.constant(table.num_sequences), tf.constant([*powers, most]))]

    def with_shape(rows):
        largest = [(tf.reduce_max(tf.gather(values, tf.maximum(rows, 0))), choices) for values, choices in sizes]
        shape = [tf.reduce_min(tf.boolean_mask(choices, choices >= value)) for value, choices in largest]
        return rows, tf.tile([shape], [batch_size, 1])

    def features(rows, shape):
        length, num_sequences = shape[0, 0], shape[0, 1] if table.schema.are_windows else None  # else it stays static
        return dict(table.batch(tf.maximum(rows, 0), length, num_sequences), example=rows)

    return per_replica(tf.data.Dataset.from_tensor_slices(rows).map(with_shape), features, batch_size, context)


def per_replica(
    batches: tf.data.Dataset, parse: Callable, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Splits global batches into one batch for each replica of this process, in order, and parses them.

    `batches` has (records, numbers), two tensors [rows, ...], and `parse` takes a replica's rows of both. `context`
    decides which rows of each batch belong to this process and its replicas.
    """
    replicas = context.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(f"the batch size must be a multiple of the number of replicas, {replicas}. "
                         f"Received: {batch_size}")
    rows, local = batch_size // replicas, replicas // context.num_input_pipelines
    first = context.input_pipeline_id * local * rows

    def split(*batch):
        parts = tuple(tf.reshape(tensor[first : first + local * rows], [local, rows, *tensor.shape[1:]])
                      for tensor in batch)
        return tf.data.Dataset.from_tensor_slices(parts)

    parsed = batches.flat_map(split).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return without_autotuning(parsed.prefetch(tf.data.AUTOTUNE))
