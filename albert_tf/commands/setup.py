"""Prepares TensorFlow for a run, as the flags say: threads, devices, precision and seed."""

from __future__ import annotations

import tensorflow as tf
from absl import flags

from albert_tf import devices, keras
from albert_tf.training import trainer
from albert_tf.training.strategy import TpuAddress, create_strategy, resolve_strategy
from albert_tf.utils import imports
from albert_tf.utils.progress import count_of

FLAGS = flags.FLAGS


def set_up() -> tf.distribute.Strategy:
    """Sets seed and precision, and returns the distribution strategy. Call it before anything is built.

    Raises:
      ValueError: see create_strategy; or a batch size that is used is not a multiple of the number of replicas.
    """
    if "cpu_parts" in FLAGS:
        _divide_threads()
    strategy = create_strategy(_strategy_name(),
                               TpuAddress(FLAGS.tpu_name, FLAGS.tpu_zone, FLAGS.gcp_project, FLAGS.master))
    _check_batch_sizes(strategy.num_replicas_in_sync)
    if not devices.is_tpu(strategy):  # TensorFlow issue 58934: it fails on a TPU VM
        imports.start_xla()
    keras.utils.set_random_seed(FLAGS.random_seed)
    keras.mixed_precision.set_global_policy(FLAGS.precision)
    return strategy


def cpu_parts() -> int:
    """The number of parts of a batch that are computed at the same time: --cpu_parts, or its default."""
    if FLAGS.cpu_parts:
        return FLAGS.cpu_parts
    return 1 if FLAGS.jit_compile or _strategy_name() != "one_device" else trainer.parts_of_cpu()


def _strategy_name() -> str:
    return resolve_strategy("tpu" if FLAGS.use_tpu else FLAGS.distribution_strategy)


def _divide_threads() -> None:
    """Divides the cores among the parts of a batch, if all batches of this run have that many parts."""
    count = cpu_parts()
    if all(FLAGS[name].value % (count * micro_batches) == 0 for name, micro_batches in _used_batch_sizes().items()):
        trainer.divide_threads(count)


def _check_batch_sizes(replicas: int) -> None:
    for name, micro_batches in _used_batch_sizes().items():
        if FLAGS[name].value % (replicas * micro_batches):
            accumulation = f" times {micro_batches} --gradient_accumulation_steps" if micro_batches > 1 else ""
            raise ValueError(f"--{name} must be a multiple of {count_of(replicas, 'replica')}{accumulation}. "
                             f"Received: {FLAGS[name].value}")


def _used_batch_sizes() -> dict[str, int]:
    """The names of the batch sizes that this run uses, each with its number of micro-batches."""
    return {f"{purpose}_batch_size": FLAGS.gradient_accumulation_steps if purpose == "train" else 1
            for purpose in ("train", "eval", "predict") if f"do_{purpose}" in FLAGS and FLAGS[f"do_{purpose}"].value}
