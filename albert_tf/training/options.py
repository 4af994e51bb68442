"""The options of a training, and the choices of its flags. This module does not import TensorFlow."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Mapping

from absl import logging

from albert_tf.utils import bounds
from albert_tf.utils.progress import count_of

if TYPE_CHECKING:
    from albert_tf.modeling.adapters import LoraOptions

# The names of the best checkpoint of a run, and of the results of its evaluations.
BEST, RESULTS, HISTORY = "model.ckpt-best", "eval_results", "eval_history.jsonl"
OPTIMIZERS = ("lamb", "adamw")
RUNTIMES = ("tensorflow", "jax")
AUTO = "auto"  # for jax_coordinator
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu")
# The largest number of parts of a batch that a CPU computes at the same time. Each part has gradients of its own, as
# large as the model, so many cores share a few parts.
MOST_PARTS = 4
ALL, HEAD = "all", "head"  # values of --trainable, besides last_K
LAST = re.compile(r"last_([1-9][0-9]{0,3})")
_EVALUATIONS = 5  # that a short run has at least


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Where a run is, and the size of its batches.

    Args:
      train_batch_size: examples of a step, over all replicas.
      iterations_per_loop: on TPU, the largest number of steps between two returns to the host; no effect with jax.
    """

    output_dir: str
    train_batch_size: int
    keep_checkpoint_max: int = 5
    iterations_per_loop: int = 1000

    def __post_init__(self):
        for name in ("keep_checkpoint_max", "iterations_per_loop"):
            bounds.STEPS.check(name, getattr(self, name))
        bounds.BATCH_SIZE.check("train_batch_size", self.train_batch_size)


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The steps of a run."""

    num_train_steps: int
    num_warmup_steps: int = 0
    save_checkpoints_steps: int = 1000
    start_warmup_step: int = 0
    poly_power: float = 1.0

    def __post_init__(self):
        for name in ("num_train_steps", "save_checkpoints_steps"):
            bounds.STEPS.check(name, getattr(self, name))


def default_interval(num_train_steps: int, largest: int) -> int:
    """The default of save_checkpoints_steps: `largest`, or a fifth of a shorter run.

    The fifth is rounded down to two digits, for steps that are easy to read and that a TPU's loop divides well.
    """
    fifth = max(1, num_train_steps // _EVALUATIONS)
    return min(largest, fifth - fifth % 10 ** max(0, len(str(fifth)) - 2))


@dataclasses.dataclass(frozen=True)
class Length:
    """How long a run is that trains on a number of examples.

    Args:
      train_step: number of steps; None for num_train_epochs.
      warmup_step: number of steps of the learning rate's warm-up; None for warmup_proportion.
      warmup_proportion: the same as a share of the steps.
      save_checkpoints_steps: number of steps between two checkpoints; None for default_interval.
    """

    train_step: int | None = None
    num_train_epochs: float = 3.0
    warmup_step: int | None = None
    warmup_proportion: float = 0.1
    save_checkpoints_steps: int | None = None
    largest_interval: int = 1000

    def schedule(self, examples: int, unit: str, batch_size: int) -> Schedule:
        """The steps, as in the release: epochs * examples / batch size. Logs how often the examples are read."""
        steps, passes = self.train_step, self.num_train_epochs
        if steps is None:
            steps = int(examples / batch_size * passes)
        else:
            passes = steps * batch_size / examples
        if not steps:
            raise ValueError(f"{count_of(examples, unit)} are not enough for a step of {batch_size}: decrease "
                             "--train_batch_size, or increase --num_train_epochs")
        logging.info("%.3g passes over %s: %s of %d", passes, count_of(examples, unit), count_of(steps, "step"),
                     batch_size)
        warmup = int(steps * self.warmup_proportion) if self.warmup_step is None else self.warmup_step
        return Schedule(steps, warmup, self.save_checkpoints_steps or default_interval(steps, self.largest_interval))


@dataclasses.dataclass(frozen=True)
class TrainerOptions:
    """How a task is trained.

    Args:
      gradient_checkpointing: whether to recompute a layer's activations for its gradients, which saves memory.
      trainable: "all", or see restrict_training; None for all, or with adapters for the head.
      lora_rank, lora_alpha, lora_per_layer: see LoraOptions. A rank of 0 means no adapters.
    """

    optimizer: str
    learning_rate: float
    bias_correction: bool = False
    random_seed: int = 0
    gradient_accumulation_steps: int = 1
    gradient_checkpointing: bool = False
    jit_compile: bool = False
    loss_scaling: bool = False
    shapes_vary: bool = False
    parts: int = 1
    rows_vary: bool = False
    trainable: str | None = None
    lora_rank: int = 0
    lora_alpha: float | None = None
    lora_per_layer: bool = False

    def __post_init__(self):
        if self.trainable not in (None, ALL, HEAD) and not LAST.fullmatch(self.trainable):
            raise ValueError(f"--trainable must be {ALL}, {HEAD} or last_K, such as last_2. Received: {self.trainable}")
        if not self.lora_rank and (self.lora_alpha is not None or self.lora_per_layer):
            raise ValueError("--lora_alpha and --lora_per_layer are for adapters: set --lora_rank too")
        if self.lora is not None and self.trainable not in (None, HEAD):
            raise ValueError("with --lora_rank the adapters and the head train: do not set "
                             f"--trainable={self.trainable}")

    @property
    def lora(self) -> LoraOptions | None:
        """The options of the adapters; None without adapters."""
        from albert_tf.modeling.adapters import LoraOptions  # this module imports no TensorFlow for flags

        return LoraOptions(self.lora_rank, self.lora_alpha, self.lora_per_layer) if self.lora_rank else None


@dataclasses.dataclass(frozen=True)
class TpuAddress:
    """How to find a TPU (the release's flags): by its address (master), or by its name in a project and zone."""

    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None


@dataclasses.dataclass(frozen=True)
class JaxOptions:
    """How jax computes.

    Args:
      shard_weights: whether each device of a machine holds a share of the variables instead of all of them.
      jax_cache_dir: folder of compiled programs, which later runs read; None for no cache.
      jax_coordinator: host:port of the first process, the same on all machines; AUTO if jax finds it, and the numbers
        of processes, in the environment of a cluster; None for one process.
      jax_num_processes, jax_process_id: the number of processes, and the number of this one, from 0.
    """

    shard_weights: bool = False
    jax_cache_dir: str | None = None
    jax_coordinator: str | None = None
    jax_num_processes: int | None = None
    jax_process_id: int | None = None


@dataclasses.dataclass(frozen=True)
class DeviceOptions:
    """On what a command computes, and how: the flags that set_up reads.

    Args:
      strategy: the name of the distribution strategy on this machine, without "auto".
      parts: the largest number of parts of a batch that a CPU computes at the same time.
      batch_sizes: the batch sizes that the command uses by the names of their flags, each with its number of
        micro-batches.
      jax: how jax computes; None if TensorFlow computes.
    """

    strategy: str
    tpu: TpuAddress
    parts: int
    precision: str
    random_seed: int
    batch_sizes: Mapping[str, tuple[int, int]]
    jax: JaxOptions | None = None


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """Options of fine-tuning.

    Args:
      run: options of each run. Its output_dir is the folder of all runs.
      trainer: options of each run's trainer. Its random_seed is replaced by the seed of the run.
      seeds: one seed for each run. Several runs are in output_dir/seed_N.
      buckets: lengths to which batches are padded.
      ensemble_checkpoints: paths of checkpoints whose predictions are averaged, instead of using a run's checkpoint.
      eval_batch_size, predict_batch_size: examples of a batch, over all replicas.
      recipe: name of the recipe that the options are from, for the model card.
    """

    run: RunOptions
    trainer: TrainerOptions
    length: Length
    seeds: tuple[int, ...]
    buckets: tuple[int, ...]
    group_by_length: bool = True
    init_checkpoint: str | None = None
    ensemble_checkpoints: tuple[str, ...] = ()
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    early_stopping_patience: int = 0
    recipe: str | None = None

    def __post_init__(self):
        bounds.BATCH_SIZE.check("eval_batch_size", self.eval_batch_size)
        bounds.BATCH_SIZE.check("predict_batch_size", self.predict_batch_size)
        bounds.EVALUATIONS.at_least(0).check("early_stopping_patience", self.early_stopping_patience)
