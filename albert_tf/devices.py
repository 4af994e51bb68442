"""The decisions that depend on the kind of device. All packages ask them here.

XLA compiles whole steps on a TPU, and not on a CPU or a GPU. So:

- chains of element-wise operations (modeling/fused.py) are parts of the step; otherwise XLA compiles each one
- batches of several lengths have a graph for each length (training/trainer.py); otherwise one for all
- up to iterations_per_loop steps are between two returns to the host (training/run.py); otherwise one
- no program is compiled for the host at the start (set_up in training/run.py); otherwise one is

The cores of a CPU compute parts of a batch at the same time (training/trainer.py), and a CPU reads its batches where
they are made (training/strategy.py). A GPU or a TPU core computes a batch as a whole, and batches are copied to it.
"""

from __future__ import annotations

import os

from albert_tf.utils.imports import tensorflow as tf


def is_tpu(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Whether XLA compiles each whole step, for static shapes, because of the kind of device: on a TPU.

    Args:
      strategy: the distribution strategy; None for the strategy of the caller's scope or replica.
    """
    return isinstance(strategy or tf.distribute.get_strategy(), tf.distribute.TPUStrategy)


def is_cpu_alone() -> bool:
    """Whether this machine computes on its CPU, since it has no GPU."""
    return not tf.config.list_physical_devices("GPU")


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
