"""Makes a training step compile what it compiles for each bucket, before its time is measured."""

from __future__ import annotations

from typing import Callable, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.data.batching import table_batches
from albert_tf.data.feature_table import FeatureTable


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
