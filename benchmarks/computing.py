"""Threads, data types and compilation of what several benchmarks run in their own process."""

from __future__ import annotations

from typing import Callable, Iterator

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.data.batching import table_batches
from albert_tf.data.feature_table import FeatureTable

POLICIES = dict(float32="float32", bfloat16="mixed_bfloat16")


def set_precision(name: str) -> None:
    """Sets Keras' global policy by a name of POLICIES, which are those that benchmarks and their workers take."""
    keras.mixed_precision.set_global_policy(POLICIES[name])


def use_one_thread() -> None:
    """Makes TensorFlow compute on one thread. It must not have computed anything before."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def take_step_of_each_bucket(
    step: Callable[[Iterator], object], table: FeatureTable, batch_size: int, buckets: tuple[int, ...]
) -> None:
    """Calls `step` once for each bucket, with the longest examples that fit it, if there are enough of them.

    Args:
      step: function of an iterator of batches.
      table, batch_size, buckets: see training_rows and table_batches.
    """
    order = np.argsort(table.lengths, kind="stable")
    ends = np.unique(np.searchsorted(table.lengths[order], buckets, side="right"))
    rows = [order[end - batch_size : end] for end in ends if end >= batch_size]
    batches = iter(table_batches(table, np.stack(rows), buckets, tf.distribute.InputContext()))
    for _ in rows:
        step(batches)
