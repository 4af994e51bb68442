"""The decisions that depend on the kind of device. All packages take them from here.

XLA compiles whole steps on a TPU, but not on a CPU or a GPU. So on a TPU:

- chains of element-wise operations (modeling/operations.py) are parts of the step; elsewhere XLA compiles each chain
- batches of several lengths have a graph for each length (training/trainer.py); elsewhere one graph serves all lengths
- up to iterations_per_loop steps run between two returns to the host (training/run.py); elsewhere one step
- no program is compiled for the host at the start (set_up in training/run.py); elsewhere one is

With --runtime=jax, jax compiles whole steps on every kind of device, all devices are one replica
(training/jax_runtime.py), and the host starts each step.

The cores of a CPU compute parts of a batch at the same time (training/trainer.py), and a CPU reads its batches where
they are made (training/strategy.py). A GPU or a TPU core computes a batch as a whole, and batches are copied to it.
"""

from __future__ import annotations

import functools
import itertools
import os
from typing import Any

from albert_tf.utils.imports import tensorflow as tf

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")  # Keras' policies
SERVED_PRECISIONS = PRECISIONS[:2]


def is_tpu(strategy: Any = None) -> bool:
    """Whether the devices are TPU cores, for which XLA compiles each step as a whole, with static shapes.

    Args:
      strategy: the distribution strategy; None for the strategy of the caller's scope or replica.
    """
    strategy = strategy or tf.distribute.get_strategy()
    return strategy.platform == "tpu" if is_jax(strategy) else isinstance(strategy, tf.distribute.TPUStrategy)


def is_jax(strategy: Any = None) -> bool:
    """Whether jax computes the steps (training/jax_runtime.py), which are compiled as a whole on all devices."""
    return hasattr(strategy or tf.distribute.get_strategy(), "platform")


def cudnn_capability() -> float:
    """The compute capability of the GPU whose steps can use cuDNN's attention (modeling/operations.py); or 0."""
    strategy: Any = tf.distribute.get_strategy()
    return strategy.cudnn_capability if is_jax(strategy) else 0.0


def count(strategy: Any) -> int:
    """The number of devices that have the same number of rows of a batch."""
    return strategy.num_devices if is_jax(strategy) else strategy.num_replicas_in_sync


def is_cpu_alone() -> bool:
    """Whether this machine computes on its CPU, since it has no GPU."""
    return not tf.config.list_physical_devices("GPU")


def has_bfloat16() -> bool:
    """Whether bfloat16 is no slower than float32: on other devices than a CPU, and on one with instructions for it."""
    return not is_cpu_alone() or not cpu_instructions().isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})


def adds_bias_separately(dtype: Any) -> bool:
    """Whether products and biases stay two operations: in bfloat16 on a CPU with AMX (see docs/results/speed.md).

    TensorFlow would make one operation of both, for which oneDNN has half the speed of a product there.
    """
    return dtype == "bfloat16" and is_cpu_alone() and "amx_bf16" in cpu_instructions()


def use_onednn() -> None:
    """Turns oneDNN's operations on for CPUs with AVX2 but without VNNI: TensorFlow does not, but they train faster.

    TensorFlow reads TF_ENABLE_ONEDNN_OPTS when it is imported. What the user has set stays. See docs/results/speed.md.
    """
    if "avx2" in cpu_instructions():
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def cpu_instructions() -> frozenset[str]:
    """The sets of instructions of the CPU, by the names of Linux; none on other systems."""
    return frozenset(_cpu().get("flags", _cpu().get("Features", "")).split())


def cpu_kind() -> tuple[str, ...]:
    """What decides which machine code the CPU runs: its maker, model and instructions; () where Linux does not tell."""
    names = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU implementer",
             "CPU architecture", "CPU variant", "CPU part", "Features")
    return tuple(_cpu()[name] for name in names if name in _cpu())


def cpu_name() -> str:
    """The model name of the CPU; "" where Linux does not tell it."""
    return _cpu().get("model name", "")


@functools.cache
def _cpu() -> dict[str, str]:
    """What Linux says about the first processor, by the name of the line."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = list(itertools.takewhile(str.strip, file))  # up to the next processor: there may be hundreds
    except OSError:  # not Linux
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def fast_precision() -> str:
    """The precision of recipes: bfloat16 where it is no slower than float32."""
    return "mixed_bfloat16" if has_bfloat16() else "float32"


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
