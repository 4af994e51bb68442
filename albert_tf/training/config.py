"""Devices, Training and Distillation: the configs of devices, of a training, and of learning from a teacher.

This module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import re

from absl import logging

from albert_tf import options as fields
from albert_tf.devices import PRECISIONS
from albert_tf.options import Config
from albert_tf.utils import bounds
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

    precision: str = fields.choice("float32", PRECISIONS, "Data type of the model's computations. Its variables are "
                                    "always float32.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Devices(Precision, group="Devices"):
    """The devices that compute steps, evaluations and predictions, and how they do (training/run.py: set_up)."""

    cpu_parts: int = fields.integer(
        0, "Largest number of equal parts of a batch that a CPU computes at the same time. 0: a part for each core, "
        f"but at most {MOST_PARTS}; one part with --jit_compile or several devices, and where the loss compares texts.",
        bounds.WORKERS.at_least(0))
    jit_compile: bool = fields.boolean(
        False, "Whether to compile the whole computation of gradients and predictions with XLA. "
        "Without this flag, XLA compiles only the LayerNorm, softmax and activations of training "
        "(albert_tf/modeling/operations.py).")
    runtime: str = fields.choice(
        "tensorflow", RUNTIMES, "What computes steps, evaluations and predictions. jax: jax, on all devices that it "
        "finds; TensorFlow reads the data and writes the files on the host (docs/devices.md).")
    shard_weights: bool = fields.boolean(
        False, "Whether each device of a machine holds a share of the weights and of the optimizer's moments instead "
        "of all of them, for models that are too large for a device.", needs="runtime=jax")
    jax_cache_dir: str | None = fields.string(
        None, "Directory of compiled programs, so that a second run starts sooner. Default: nothing is kept.",
        needs="runtime=jax")
    jax_coordinator: str | None = fields.string(
        None, "Address, host:port, of the first of several processes that train together. auto: jax finds it, and the "
        "numbers of processes, in the environment of a cluster, such as a TPU pod or Slurm. Default: one process.",
        needs="runtime=jax")
    jax_num_processes: int | None = fields.integer(
        None, "Number of processes that train together.", bounds.DEVICES, needs="jax_coordinator")
    jax_process_id: int | None = fields.integer(
        None, "Number of this process, from 0. Process 0 writes the files.", bounds.DEVICES.at_least(0),
        needs="jax_coordinator")
    distribution_strategy: str = fields.choice(
        "auto", STRATEGIES, "The devices that share a step. auto: all workers if TF_CONFIG names several; otherwise "
        "all GPUs if there are several; otherwise one device.")
    use_tpu: bool = fields.boolean(False, "The release's name for --distribution_strategy=tpu.")
    tpu_name: str | None = fields.string(None, "Name of the TPU, or its grpc:// address.")
    tpu_zone: str | None = fields.string(None, "Zone of the TPU. Default: the zone of this machine.")
    gcp_project: str | None = fields.string(
        None, "Google Cloud project of the TPU. Default: the project of this machine.")
    master: str | None = fields.string(None, "Address of the TPU. If it is set, --tpu_name is ignored.")
    num_tpu_cores: int = fields.integer(
        8, "Has no effect, since TensorFlow 2 detects the number of cores. Scripts for the release can set it.",
        bounds.DEVICES)

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

    optimizer: str = fields.choice("adamw", OPTIMIZERS, "The optimizer.")
    bias_correction: bool = fields.boolean(
        False, "Whether the optimizer corrects the bias of its moments, as AdamW of PyTorch "
        "and of Keras does. The release does not, so its early updates are larger.")
    learning_rate: float = fields.number(5e-5, "The peak learning rate, after the warm-up.", 0.0)
    train_batch_size: int = fields.integer(
        32, "Number of examples in a training step, summed over all devices.", bounds.BATCH_SIZE)
    gradient_accumulation_steps: int = fields.integer(
        1, "Number of micro-batches into which each device splits its part of "
        "a batch. They are computed one after the other: more micro-batches need less memory.", bounds.BATCH_SIZE)
    gradient_checkpointing: bool = fields.boolean(
        False, "Whether to recompute a layer's activations for its gradients instead "
        "of keeping them in memory. This needs less memory and more time.")
    save_checkpoints_steps: int | None = fields.integer(
        None, "Number of steps between two checkpoints, and between two evaluations. Default: a fifth of the run, but "
        "at most 1,000 (run_pretraining: 5,000; run_race, run_tagging and run_sentence_embeddings: 100).", bounds.STEPS)
    keep_checkpoint_max: int = fields.integer(
        5, "Number of the latest checkpoints to keep, besides the best one.", bounds.STEPS)
    iterations_per_loop: int = fields.integer(
        1000, "On TPU, by TensorFlow, the largest number of steps between two returns to the "
        "host. It has no effect on other devices, nor with --runtime=jax.", bounds.STEPS)
    random_seed: int = fields.integer(
        12345, "Seed of the initial weights, the order of the data, dynamic masks and dropout.", bounds.SEED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningTraining(Training, group="Training"):
    """How a model is fine-tuned: also for how long, and which of its weights."""

    num_train_epochs: float | None = fields.number(
        None, "Number of passes over the training examples. The number of steps is this number times examples divided "
        "by --train_batch_size. Default: 3.", 0.0)
    train_step: int | None = fields.integer(
        None, "Number of training steps, instead of --num_train_epochs. Default as in the release: 1,000 for tasks of "
        "GLUE and 12,000 for RACE.", bounds.STEPS)
    warmup_proportion: float | None = fields.number(
        None, "Share of the training steps, from 0 to 1, in which the learning rate increases from 0 to its peak. "
        "Default: 0.1.", 0.0, 1.0)
    warmup_step: int | None = fields.integer(
        None, "Number of warm-up steps, instead of --warmup_proportion. Default without a recipe and epochs, as in the "
        "release: 0 for tasks of GLUE and 1,000 for RACE.", bounds.STEPS.at_least(0))
    trainable: str = fields.string(
        ALL, "The weights that train. all: all. head: the head, with the pooler if the head reads it. last_K, such as "
        "last_2: the head and the last K layers, which needs layers that do not share their weights with earlier ones.")

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
class TeacherConfig(Config):
    """The teacher of a model."""

    teacher_checkpoint: str | None = fields.string(
        None, "Weights of a teacher, a trained model, in any format of --init_checkpoint. The model learns from the "
        "teacher's outputs. In fine-tuning, they are computed once and cached in --cached_dir.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation(TeacherConfig):
    """Distillation beside the labels of a task."""

    distillation_temperature: float = fields.number(
        1.0, "Number by which the logits of teacher and model are divided before they are compared: above 1, labels "
        "that the teacher finds unlikely count more. It has no effect on a regression.", 1e-3,
        needs="teacher_checkpoint|teacher_scores")
    distillation_alpha: float = fields.number(
        0.5, "Weight, from 0 to 1, of the difference from the teacher in the loss. The loss of the labels has the "
        "rest. 0: the teacher is not used; 1: the labels are not used.", 0.0, 1.0,
        needs="teacher_checkpoint|teacher_scores")
