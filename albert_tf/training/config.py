"""Devices, Training and Distillation: the configs of devices, of a training, and of learning from a teacher.

This module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, ClassVar, Iterable

from absl import logging

from albert_tf.devices import PRECISIONS
from albert_tf.options import Config, Requirement
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range
from albert_tf.utils.progress import count_of

RESULTS = "eval_results"
OPTIMIZERS = ("lamb", "adamw")
RUNTIMES = ("tensorflow", "jax")
AUTO = "auto"  # for jax_coordinator
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu")
MOST_PARTS = 4  # of a batch, that a CPU computes at the same time; the gradients of each are as large as the model
ALL, HEAD = "all", "head"  # values of --trainable, besides last_K
LAST = re.compile(r"last_([1-9][0-9]{0,3})")
_EVALUATIONS = 5  # that a short run has at least


@dataclasses.dataclass(frozen=True, kw_only=True)
class Precision(Config, group="Devices"):
    """The data type of computations."""

    precision: Annotated[
        str, OneOf(PRECISIONS), "Data type of the model's computations. Its variables are always float32."] = "float32"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Devices(Precision, group="Devices"):
    """The devices that compute steps, evaluations and predictions, and how they do (training/run.py: set_up)."""

    cpu_parts: Annotated[
        int, bounds.WORKERS.at_least(0), "Largest number of equal parts of a batch that a CPU computes at the same "
        f"time. 0: a part for each core, but at most {MOST_PARTS}; one part with --jit_compile or several devices, and "
        "where the loss compares texts."] = 0
    jit_compile: Annotated[
        bool, "Whether to compile the whole computation of gradients and predictions with XLA. Without this flag, XLA "
        "compiles only the LayerNorm, softmax and activations of training (albert_tf/modeling/operations.py)."] = False
    runtime: Annotated[
        str, OneOf(RUNTIMES), "What computes steps, evaluations and predictions. jax: jax, on all devices that it "
        "finds; TensorFlow reads the data and writes the files on the host (docs/devices.md)."] = "tensorflow"
    compilation_cache_dir: Annotated[
        str | None, "Directory where compiled programs are kept, so that a later run starts sooner; with TensorFlow "
        "2.21 on a CPU, or with --runtime=jax. Empty: they are not kept. Default: albert_tf/programs in "
        "$XDG_CACHE_HOME or ~/.cache; nothing is kept with --jax_coordinator."] = None
    shard_weights: Annotated[
        bool, "Whether each device of a machine holds a share of the weights and of the optimizer's moments instead of "
        "all of them, for models that are too large for a device."] = False
    jax_coordinator: Annotated[
        str | None, "Address, host:port, of the first of several processes that train together. auto: jax finds it, "
        "and the numbers of processes, in the environment of a cluster, such as a TPU pod or Slurm. Default: one "
        "process."] = None
    jax_num_processes: Annotated[int | None, bounds.DEVICES, "Number of processes that train together."] = None
    jax_process_id: Annotated[
        int | None, bounds.DEVICES.at_least(0), "Number of this process, from 0. Process 0 writes the files."] = None
    distribution_strategy: Annotated[
        str, OneOf(STRATEGIES), "The devices that share a step. auto: all workers if TF_CONFIG names several; "
        "otherwise all GPUs if there are several; otherwise one device."] = "auto"
    use_tpu: Annotated[bool, "The release's name for --distribution_strategy=tpu."] = False
    tpu_name: Annotated[str | None, "Name of the TPU, or its grpc:// address."] = None
    tpu_zone: Annotated[str | None, "Zone of the TPU. Default: the zone of this machine."] = None
    gcp_project: Annotated[str | None, "Google Cloud project of the TPU. Default: the project of this machine."] = None
    master: Annotated[str | None, "Address of the TPU. If it is set, --tpu_name is ignored."] = None
    num_tpu_cores: Annotated[
        int, bounds.DEVICES, "Has no effect, since TensorFlow 2 detects the number of cores. Scripts for the release "
        "can set it."] = 8

    def requirements(self) -> Iterable[Requirement]:  # noqa: D102
        return [*super().requirements(),
                Requirement(("shard_weights", "jax_coordinator"), self.runtime == "jax", "--runtime=jax"),
                Requirement(("jax_num_processes", "jax_process_id"), bool(self.jax_coordinator), "--jax_coordinator")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runtime != "jax":
            return
        if self.use_tpu or self.distribution_strategy not in ("auto", "one_device"):
            name = "use_tpu" if self.use_tpu else f"distribution_strategy={self.distribution_strategy}"
            raise ValueError(f"--{name} is for TensorFlow: --runtime=jax uses all devices that jax finds, also a TPU's")
        if self.precision == "mixed_float16":
            raise ValueError("--runtime=jax does not scale losses, as --precision=mixed_float16 needs: use "
                             "mixed_bfloat16")
        if self.cpu_parts > 1:
            raise ValueError("--cpu_parts is for TensorFlow: with --runtime=jax, XLA divides a step among the cores")

    @property
    def strategy(self) -> str:
        """The requested distribution strategy, one of STRATEGIES."""
        return "tpu" if self.use_tpu else self.distribution_strategy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(Config, group="Training"):
    """How a model is trained."""

    optimizer: Annotated[str, OneOf(OPTIMIZERS), "The optimizer."] = "adamw"
    bias_correction: Annotated[
        bool, "Whether the optimizer corrects the bias of its moments, as AdamW of PyTorch and of Keras does. The "
        "release does not, so its early updates are larger."] = False
    learning_rate: Annotated[float, Range(0.0), "The peak learning rate, after the warm-up."] = 5e-5
    train_batch_size: Annotated[
        int, bounds.BATCH_SIZE, "Number of examples in a training step, summed over all devices."] = 32
    gradient_accumulation_steps: Annotated[
        int, bounds.BATCH_SIZE, "Number of micro-batches into which each device splits its part of a batch. They are "
        "computed one after the other: more micro-batches need less memory."] = 1
    gradient_checkpointing: Annotated[
        bool, "Whether to recompute a layer's activations for its gradients instead of keeping them in memory. This "
        "needs less memory and more time."] = False
    save_checkpoints_steps: Annotated[
        int | None, bounds.STEPS, "Number of steps between two checkpoints, and between two evaluations. Default: a "
        "fifth of the run, but at most 1,000 (run_pretraining: 5,000; run_race, run_tagging and "
        "run_sentence_embeddings: 100)."] = None
    keep_checkpoint_max: Annotated[
        int, bounds.STEPS, "Number of the latest checkpoints to keep, besides the best one."] = 5
    iterations_per_loop: Annotated[
        int, bounds.STEPS, "On TPU, by TensorFlow, the largest number of steps between two returns to the host. It has "
        "no effect on other devices, nor with --runtime=jax."] = 1000
    random_seed: Annotated[
        int, bounds.SEED, "Seed of the initial weights, the order of the data, dynamic masks and dropout."] = 12345


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningTraining(Training, group="Training"):
    """How a model is fine-tuned: also for how long, and which of its weights."""

    num_train_epochs: Annotated[
        float | None, Range(0.0), "Number of passes over the training examples. The number of steps is this number "
        "times examples divided by --train_batch_size. Default: 3."] = None
    train_step: Annotated[
        int | None, bounds.STEPS, "Number of training steps, instead of --num_train_epochs. Default as in the release: "
        "1,000 for tasks of GLUE and 12,000 for RACE."] = None
    warmup_proportion: Annotated[
        float | None, Range(0.0, 1.0), "Share of the training steps, from 0 to 1, in which the learning rate increases "
        "from 0 to its peak. Default: 0.1."] = None
    warmup_step: Annotated[
        int | None, bounds.STEPS.at_least(0), "Number of warm-up steps, instead of --warmup_proportion. Default "
        "without a recipe and epochs, as in the release: 0 for tasks of GLUE and 1,000 for RACE."] = None
    trainable: Annotated[
        str, "The weights that train. all: all. head: the head, with the pooler if the head reads it. last_K, such as "
        "last_2: the head and the last K layers, which needs layers that do not share their weights with earlier "
        "ones."] = ALL

    def __post_init__(self) -> None:
        super().__post_init__()
        for one, other in (("train_step", "num_train_epochs"), ("warmup_step", "warmup_proportion")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"--{one} and --{other} exclude each other: set one of them")
        if self.trainable not in (ALL, HEAD) and not LAST.fullmatch(self.trainable):
            raise ValueError(f"--trainable must be {ALL}, {HEAD} or last_K, such as last_2. Received: {self.trainable}")

    def schedule(self, examples: int, unit: str, release_steps: tuple[int, int | None] | None = None,
                 largest_interval: int = 1000) -> Schedule:
        """The steps, as in the release: epochs * examples / batch size. Logs how often the examples are read.

        Args:
          unit: what an example is, for messages.
          release_steps: the release's steps and warm-up steps (None: a tenth), the defaults unless epochs are set.
          largest_interval: the default of save_checkpoints_steps for a long run.
        """
        steps, warmup, batch_size = self.train_step, self.warmup_step, self.train_batch_size
        if release_steps and self.num_train_epochs is None:
            steps = steps or release_steps[0]
            warmup = release_steps[1] if warmup is None and self.warmup_proportion is None else warmup
        passes = 3.0 if self.num_train_epochs is None else self.num_train_epochs
        if steps is None:
            steps = int(examples / batch_size * passes)
        else:
            passes = steps * batch_size / examples
        if not steps:
            raise ValueError(f"{count_of(examples, unit)} cannot fill a step of {batch_size}: decrease "
                             "--train_batch_size, or increase --num_train_epochs")
        logging.info("%.3g passes over %s: %s of %d", passes, count_of(examples, unit), count_of(steps, "step"),
                     batch_size)
        if warmup is None:
            warmup = int(steps * (0.1 if self.warmup_proportion is None else self.warmup_proportion))
        return Schedule(steps, warmup, self.save_checkpoints_steps or default_interval(steps, largest_interval))


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The steps of a run."""

    num_train_steps: int
    num_warmup_steps: int = 0
    save_checkpoints_steps: int = 1000
    start_warmup_step: int = 0
    poly_power: float = 1.0

    def __post_init__(self) -> None:
        for name in ("num_train_steps", "save_checkpoints_steps"):
            bounds.STEPS.check(name, getattr(self, name))


def default_interval(num_train_steps: int, largest: int) -> int:
    """The default of save_checkpoints_steps: `largest`, or a fifth of a shorter run, rounded down to two digits."""
    fifth = max(1, num_train_steps // _EVALUATIONS)
    return min(largest, fifth - fifth % 10 ** max(0, len(str(fifth)) - 2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherConfig(Config, group="Teacher"):
    """The teacher of a model."""

    teacher_checkpoint: Annotated[
        str | None, "Weights of a teacher, a trained model, in any format of --init_checkpoint. The model learns from "
        "the teacher's outputs. In fine-tuning, they are computed once and cached in --cached_dir."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation(TeacherConfig, group="Teacher"):
    """Distillation beside the labels of a task."""

    TEACHERS: ClassVar[tuple[str, ...]] = ("teacher_checkpoint",)  # the options that name one

    distillation_temperature: Annotated[
        float, Range(1e-3), "Number by which the logits of teacher and model are divided before they are compared: "
        "above 1, labels that the teacher finds unlikely count more. It has no effect on a regression."] = 1.0
    distillation_alpha: Annotated[
        float, Range(0.0, 1.0), "Weight, from 0 to 1, of the difference from the teacher in the loss. The loss of the "
        "labels has the rest. 0: the teacher is not used; 1: the labels are not used."] = 0.5

    def requirements(self) -> Iterable[Requirement]:  # noqa: D102
        return [*super().requirements(), Requirement(
            ("distillation_temperature", "distillation_alpha"), any(getattr(self, name) for name in self.TEACHERS),
            " or ".join(f"--{name}" for name in self.TEACHERS))]
