"""The flags of the commands that train, and what their values make: the options of a run, and its devices."""

from __future__ import annotations

import tensorflow as tf
from absl import flags

from albert_tf import devices, keras
from albert_tf.commands.flag_fields import define_float, define_integer, define_required, from_flags, group
from albert_tf.commands.shared_flags import define_precision_flag
from albert_tf.training import trainer
from albert_tf.training.optimizer import OPTIMIZERS
from albert_tf.training.run import RunOptions, TrainerOptions
from albert_tf.training.strategy import STRATEGIES, TpuAddress, create_strategy, resolve_strategy
from albert_tf.utils import bounds, imports
from albert_tf.utils.files import check_directory
from albert_tf.utils.progress import count_of

FLAGS = flags.FLAGS
flags.disclaim_key_flags()  # a flag belongs to the command that calls these functions


@group("Training")
def define_training_flags(
    optimizer: str, learning_rate: float, train_batch_size: int, save_checkpoints_steps: int
) -> None:
    """Defines the flags of a training run. The arguments are the script's defaults."""
    define_required("output_dir", "Directory of checkpoints and results. A run that was started there before is "
                    "continued.")
    flags.DEFINE_enum("optimizer", optimizer, OPTIMIZERS, "The optimizer.")
    flags.DEFINE_bool("bias_correction", False, "Whether the optimizer corrects the bias of its moments, as AdamW of "
                      "PyTorch and of Keras does. The release does not, so its early updates are larger.")
    define_float("learning_rate", learning_rate, "The peak learning rate, after the warm-up.", lower_bound=0.0)
    define_integer("train_batch_size", train_batch_size, "Number of examples in a training step, summed over all "
                   "devices.", *bounds.BATCH_SIZE)
    define_integer("gradient_accumulation_steps", 1,
                   "Number of micro-batches into which each device splits its part of a batch. They are computed "
                   "one after the other: more micro-batches need less memory.", *bounds.BATCH_SIZE)
    define_integer("cpu_parts", 0, "Largest number of equal parts of a batch that a CPU computes at the same "
                   f"time. 0: a part for each core, but at most {trainer.MOST_PARTS}; one part with "
                   "--jit_compile or several devices.", *bounds.WORKERS.at_least(0))
    flags.DEFINE_bool("gradient_checkpointing", False, "Whether to recompute a layer's activations for its gradients "
                      "instead of keeping them in memory. This needs less memory and more time.")
    define_integer("save_checkpoints_steps", None, "Number of steps between two checkpoints, and between two "
                   f"evaluations. Default: {save_checkpoints_steps:,}, but at most a fifth of the run.", *bounds.STEPS)
    define_integer("keep_checkpoint_max", 5,
                   "Number of the latest checkpoints to keep, besides the best one.", *bounds.STEPS)
    define_integer("iterations_per_loop", 1000, "On TPU, the largest number of steps between two returns to the "
                   "host. It has no effect on other devices.", *bounds.STEPS)
    define_integer("random_seed", 12345,
                   "Seed of the initial weights, the order of the data, dynamic masks and dropout.", *bounds.SEED)


@group("Devices")
def define_device_flags() -> None:
    """Defines the flags of precision and of the devices to compute on."""
    define_precision_flag()
    flags.DEFINE_bool("jit_compile", False, "Whether to compile the whole computation of gradients and predictions "
                      "with XLA. Without this flag, XLA compiles only the LayerNorm, softmax and activations of "
                      "training (albert_tf/modeling/fused.py).")
    flags.DEFINE_enum("distribution_strategy", "auto", STRATEGIES, "The devices that share a step. auto: all workers "
                      "if TF_CONFIG names several; otherwise all GPUs if there are several; otherwise one device.")
    flags.DEFINE_bool("use_tpu", False, "The release's name for --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "Name of the TPU, or its grpc:// address.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the TPU. Default: the zone of this machine.")
    flags.DEFINE_string("gcp_project", None, "Google Cloud project of the TPU. Default: the project of this machine.")
    flags.DEFINE_string("master", None, "Address of the TPU. If it is set, --tpu_name is ignored.")
    define_integer("num_tpu_cores", 8, "Has no effect, since TensorFlow 2 detects the number of cores. Scripts for the "
                   "release can set it.", *bounds.DEVICES)


def trainer_options(**values) -> TrainerOptions:
    """TrainerOptions from the flags. The arguments are those of from_flags."""
    return from_flags(TrainerOptions, loss_scaling=FLAGS.precision == "mixed_float16", parts=cpu_parts(), **values)


def run_options() -> RunOptions:
    """RunOptions from the flags."""
    check_directory(FLAGS.output_dir)
    return from_flags(RunOptions)


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
