"""The decisions that depend on the kind of device. All packages ask them here.

XLA compiles whole steps on a TPU, and not on a CPU or a GPU. So:

- chains of element-wise operations (modeling/fused.py) are parts of the step; otherwise XLA compiles each one
- batches of several lengths have a graph for each length (training/trainer.py); otherwise one for all
- up to iterations_per_loop steps are between two returns to the host (training/run.py); otherwise one
- no program is compiled for the host at the start (set_up in training/run.py); otherwise one is

With --runtime=jax, jax compiles whole steps on every kind of device, all devices are one replica
(training/jax_runtime.py), and the host starts each step.

The cores of a CPU compute parts of a batch at the same time (training/trainer.py), and a CPU reads its batches where
they are made (training/strategy.py). A GPU or a TPU core computes a batch as a whole, and batches are copied to it.
"""

from __future__ import annotations

import os
import re
from typing import Any

from albert_tf.utils.imports import tensorflow as tf


def is_tpu(strategy: Any = None) -> bool:
    """Whether XLA compiles each whole step, for static shapes, because of the kind of device: on a TPU.

    Args:
      strategy: the distribution strategy; None for the strategy of the caller's scope or replica.
    """
    strategy = strategy or tf.distribute.get_strategy()
    return strategy.platform == "tpu" if is_jax(strategy) else isinstance(strategy, tf.distribute.TPUStrategy)


def is_jax(strategy: Any = None) -> bool:
    """Whether jax computes the steps (training/jax_runtime.py), which are compiled as a whole on all devices."""
    return hasattr(strategy or tf.distribute.get_strategy(), "platform")


def has_cudnn_attention(strategy: Any = None) -> bool:
    """Whether steps are compiled for an NVIDIA GPU with cuDNN's attention (modeling/cudnn_attention.py)."""
    strategy = strategy or tf.distribute.get_strategy()
    return is_jax(strategy) and strategy.has_cudnn_attention


def count(strategy: Any) -> int:
    """The number of devices that have the same number of rows of a batch."""
    return strategy.num_devices if is_jax(strategy) else strategy.num_replicas_in_sync


def is_cpu_alone() -> bool:
    """Whether this machine computes on its CPU, since it has no GPU."""
    return not tf.config.list_physical_devices("GPU")


def has_bfloat16() -> bool:
    """Whether bfloat16 is no slower than float32: on other devices than a CPU, and on one with instructions for it."""
    if not is_cpu_alone():
        return True
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return bool(re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", file.read()))
    except OSError:  # not Linux
        return False


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
