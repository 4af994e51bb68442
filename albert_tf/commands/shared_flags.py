"""Flags of training, devices and export, and functions that turn the values of flags into objects.

In the package, flags are read only here, in model_flags.py, finetuning_flags.py and setup.py, and where the command
line itself is handled (app.py, help_text.py). A command reads its flags in one function::

    @dataclasses.dataclass(frozen=True)
    class Options:

        run: RunOptions
        input_file: str  # --input_file

    def options_from_flags() -> Options:
        return shared_flags.from_flags(Options, run=shared_flags.run_options())

    def main():
        options = options_from_flags()
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from typing import TypeVar

from absl import flags

from albert_tf.commands import help_text, names
from albert_tf.commands.options import define_float, define_required
from albert_tf.commands.setup import cpu_parts
from albert_tf.export.precision import SERVED_PRECISIONS
from albert_tf.training import trainer
from albert_tf.training.optimizer import OPTIMIZERS
from albert_tf.training.run import RunOptions, TrainerOptions
from albert_tf.training.strategy import STRATEGIES
from albert_tf.utils import bounds
from albert_tf.utils.files import check_directory

FLAGS = flags.FLAGS
_DEFAULT_INTERVAL: list[int] = []  # the script's default of --save_checkpoints_steps, which a recipe may replace
_EVALUATIONS = 5  # that a short run has at least
AnyOptions = TypeVar("AnyOptions")


@help_text.group("Training")
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
    flags.DEFINE_integer("train_batch_size", train_batch_size, "Number of examples in a training step, summed over all "
                         "devices.", *bounds.BATCH_SIZE)
    flags.DEFINE_integer("gradient_accumulation_steps", 1,
                         "Number of micro-batches into which each device splits its part of a batch. They are computed "
                         "one after the other: more micro-batches need less memory.", *bounds.BATCH_SIZE)
    flags.DEFINE_integer("cpu_parts", 0, "Largest number of equal parts of a batch that a CPU computes at the same "
                         f"time. 0: a part for each core, but at most {trainer.MOST_PARTS}; one part with "
                         "--jit_compile or several devices.", *bounds.WORKERS.at_least(0))
    flags.DEFINE_bool("gradient_checkpointing", False, "Whether to recompute a layer's activations for its gradients "
                      "instead of keeping them in memory. This needs less memory and more time.")
    flags.DEFINE_integer("save_checkpoints_steps", save_checkpoints_steps,
                         "Number of steps between two checkpoints, and between two evaluations. If neither the command "
                         "line nor a recipe sets the flag, it is at most a fifth of the run.", *bounds.STEPS)
    _DEFAULT_INTERVAL[:] = [save_checkpoints_steps]
    flags.DEFINE_integer("keep_checkpoint_max", 5,
                         "Number of the latest checkpoints to keep, besides the best one.", *bounds.STEPS)
    flags.DEFINE_integer("iterations_per_loop", 1000, "On TPU, the largest number of steps between two returns to the "
                         "host. It has no effect on other devices.", *bounds.STEPS)
    flags.DEFINE_integer("random_seed", 12345,
                         "Seed of the initial weights, the order of the data, dynamic masks and dropout.", *bounds.SEED)


@help_text.group("Devices")
def define_precision_flag() -> None:
    """Defines the flag of the data type of computations."""
    flags.DEFINE_enum("precision", "float32", ("float32", "mixed_bfloat16", "mixed_float16"),
                      "Data type of the model's computations. Its variables are always float32.")


@help_text.group("Devices")
def define_device_flags() -> None:
    """Defines the flags of precision and of the devices to compute on."""
    define_precision_flag()
    flags.DEFINE_bool("jit_compile", False, "Whether to compile the whole computation of gradients and predictions "
                      "with XLA. Without this flag, XLA compiles only the LayerNorm, softmax and activations of "
                      "training (albert_tf/modeling/fused.py).")
    flags.DEFINE_enum("distribution_strategy", "auto", STRATEGIES,
                      "The devices that share a step. auto: all workers if TF_CONFIG names several; otherwise all GPUs "
                      "if there are several; otherwise one device.")
    flags.DEFINE_bool("use_tpu", False, "The release's name for --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "Name of the TPU, or its grpc:// address.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the TPU. Default: the zone of this machine.")
    flags.DEFINE_string("gcp_project", None, "Google Cloud project of the TPU. Default: the project of this machine.")
    flags.DEFINE_string("master", None, "Address of the TPU. If it is set, --tpu_name is ignored.")
    flags.DEFINE_integer("num_tpu_cores", 8,
                         "Has no effect, since TensorFlow 2 detects the number of cores. Scripts for the release can "
                         "set it.", *bounds.DEVICES)


@help_text.group("Export")
def define_export_flags(accepted: str = "raw text, ids, or serialized tf.Examples") -> None:
    """Defines the flags of a SavedModel to export that accepts these inputs."""
    flags.DEFINE_string("export_dir", None, f"Directory of a SavedModel to export, which accepts {accepted}. Default: "
                        "nothing is exported.")
    flags.DEFINE_enum("export_precision", None, SERVED_PRECISIONS,
                      "Data type of the exported model's computations. Default: the data type in which this command "
                      "computes.")


def from_flags(options_class: type[AnyOptions], **values) -> AnyOptions:
    """Makes an options dataclass from the flags that have the names of its fields.

    Args:
      options_class: the dataclass.
      values: values of the fields that are not flags, or that differ from the flags.
    """
    names = {field.name for field in dataclasses.fields(options_class)} - set(values)  # type: ignore[arg-type]
    return options_class(**values, **{name: FLAGS[name].value for name in names if name in FLAGS})


def command_line() -> str:
    """The command line that started this command."""
    return f"{names.program(sys.argv[0])} {shlex.join(sys.argv[1:])}".rstrip()


def trainer_options(**values) -> TrainerOptions:
    """TrainerOptions from the flags. The arguments are those of from_flags."""
    return from_flags(TrainerOptions, loss_scaling=FLAGS.precision == "mixed_float16", parts=cpu_parts(), **values)


def run_options(**values) -> RunOptions:
    """RunOptions from the flags. The arguments are those of from_flags."""
    check_directory(FLAGS.output_dir)
    steps = values["num_train_steps"] if "num_train_steps" in values else FLAGS.num_train_steps
    return from_flags(RunOptions, **values, save_checkpoints_steps=_save_checkpoints_steps(steps))


def _save_checkpoints_steps(num_train_steps: int) -> int:
    """--save_checkpoints_steps; if only the script's default sets it, at most a fifth of the run.

    The fifth is rounded down to two digits, for steps that are easy to read and that a TPU's loop divides well.
    """
    flag = FLAGS["save_checkpoints_steps"]
    if flag.present or [flag.default] != _DEFAULT_INTERVAL:
        return flag.value
    fifth = max(1, num_train_steps // _EVALUATIONS)
    return min(flag.value, fifth - fifth % 10 ** max(0, len(str(fifth)) - 2))
