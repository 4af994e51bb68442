"""Divides a batch among the cores of a CPU: equal parts of it are computed at the same time.

TensorFlow divides each operation among the cores instead. Operations of small models are too short for that, and the
loops that XLA compiles (modeling/fused.py) run on one core. With a part for each core and one thread for each
operation, a training step of three small models on two cores is up to 1.3 times as fast (docs/results.md).
"""

from __future__ import annotations

import os
from typing import Callable, Mapping

import tensorflow as tf

from albert_tf import devices

# Each part has gradients of its own, as large as the model, so many cores share a few parts.
MOST_PARTS = 4


def parts_of_cpu() -> int:
    """The number of parts for the cores that this process may use; 1 if there is a GPU."""
    return min(_cores(), MOST_PARTS) if devices.is_cpu_alone() else 1


def divide_threads(parts: int) -> None:
    """Divides the cores among parts: operations get as many threads as there are cores for a part.

    It has no effect after TensorFlow has made its threads, for instance if the caller is a notebook.
    """
    try:
        tf.config.threading.set_intra_op_parallelism_threads(-(-_cores() // parts))
    except RuntimeError:
        pass


def equal_parts(batch: Mapping[str, tf.Tensor], most: int) -> list[dict[str, tf.Tensor]]:
    """Splits a batch into as many equal parts as possible.

    Args:
      batch: tensors [rows, ...]. They are not split if the number of rows is not static.
      most: the largest number of parts.
    """
    rows = next(iter(batch.values())).shape[0]
    count = number_of_parts(rows, most) if rows else 1
    if count == 1:
        return [dict(batch)]
    split = {name: tf.split(tensor, count) for name, tensor in batch.items()}
    return [{name: tensors[part] for name, tensors in split.items()} for part in range(count)]


def number_of_parts(rows: int, most: int) -> int:
    """The largest divisor of a number of rows that is not larger than `most`."""
    return max(count for count in range(1, most + 1) if rows % count == 0)


def in_parts(
    function: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]], batch: Mapping[str, tf.Tensor], most: int
) -> dict[str, tf.Tensor]:
    """The outputs, [rows, ...], of a function of a batch that is applied to each of its parts.

    Args:
      function: a tf.function, so that all parts have one graph.
      batch, most: see equal_parts.
    """
    outputs = [function(part) for part in equal_parts(batch, most)]
    if len(outputs) == 1:
        return outputs[0]
    return {name: tf.concat([output[name] for output in outputs], axis=0) for name in outputs[0]}


def _cores() -> int:
    """The number of cores of this process, or of TF_NUM_INTRAOP_THREADS, with which users limit TensorFlow."""
    limit = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    if limit.isdecimal() and int(limit):
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
