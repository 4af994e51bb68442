"""The flags of the commands that train, and what their values make: the options of a run, and its devices."""

from __future__ import annotations

import dataclasses
from typing import Any

from albert_tf.commands import flag_fields as fields
from albert_tf.commands.shared_flags import PrecisionFlags
from albert_tf.training.options import (
    MOST_PARTS,
    OPTIMIZERS,
    RUNTIMES,
    STRATEGIES,
    DeviceOptions,
    JaxOptions,
    RunOptions,
    TpuAddress,
    TrainerOptions,
)
from albert_tf.utils import bounds
from albert_tf.utils.files import check_directory, check_no_wildcard


@dataclasses.dataclass(frozen=True)
class TrainingFlags:
    """The flags of a training run."""

    GROUP = "Training"

    output_dir: str = fields.required("Directory of checkpoints and results. A run that was started there before is "
                                      "continued.")
    optimizer: str = fields.choice("adamw", OPTIMIZERS, "The optimizer.")
    bias_correction: bool = fields.boolean(
        TrainerOptions.bias_correction, "Whether the optimizer corrects the bias of its moments, as AdamW of PyTorch "
        "and of Keras does. The release does not, so its early updates are larger.")
    learning_rate: float = fields.number(5e-5, "The peak learning rate, after the warm-up.", 0.0)
    train_batch_size: int = fields.integer(
        32, "Number of examples in a training step, summed over all devices.", bounds.BATCH_SIZE)
    gradient_accumulation_steps: int = fields.integer(
        TrainerOptions.gradient_accumulation_steps, "Number of micro-batches into which each device splits its part of "
        "a batch. They are computed one after the other: more micro-batches need less memory.", bounds.BATCH_SIZE)
    cpu_parts: int = fields.integer(
        0, "Largest number of equal parts of a batch that a CPU computes at the same time. 0: a part for each core, "
        f"but at most {MOST_PARTS}; one part with --jit_compile or several devices.",
        bounds.WORKERS.at_least(0))
    gradient_checkpointing: bool = fields.boolean(
        TrainerOptions.gradient_checkpointing, "Whether to recompute a layer's activations for its gradients instead "
        "of keeping them in memory. This needs less memory and more time.")
    save_checkpoints_steps: int | None = fields.integer(
        None, "Number of steps between two checkpoints, and between two evaluations. Default: a fifth of the run, but "
        "at most 1,000 (run_pretraining: 5,000; run_race, run_tagging and run_sentence_embeddings: 100).", bounds.STEPS)
    keep_checkpoint_max: int = fields.integer(
        RunOptions.keep_checkpoint_max, "Number of the latest checkpoints to keep, besides the best one.", bounds.STEPS)
    iterations_per_loop: int = fields.integer(
        RunOptions.iterations_per_loop, "On TPU, by TensorFlow, the largest number of steps between two returns to the "
        "host. It has no effect on other devices, nor with --runtime=jax.", bounds.STEPS)
    random_seed: int = fields.integer(
        12345, "Seed of the initial weights, the order of the data, dynamic masks and dropout.", bounds.SEED)


@dataclasses.dataclass(frozen=True)
class DeviceFlags(PrecisionFlags):
    """The flags of precision and of the devices to compute on."""

    GROUP = "Devices"

    jit_compile: bool = fields.boolean(
        TrainerOptions.jit_compile, "Whether to compile the whole computation of gradients and predictions with XLA. "
        "Without this flag, XLA compiles only the LayerNorm, softmax and activations of training "
        "(albert_tf/modeling/fused.py).")
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


@dataclasses.dataclass(frozen=True)
class TeacherOptions:
    """The flag of a teacher."""

    teacher_checkpoint: str | None = fields.string(
        None, "Weights of a teacher, in any format of --init_checkpoint: a trained model whose answers to the training "
        "examples the model learns. In fine-tuning, they are computed once and cached in --cached_dir.")


@dataclasses.dataclass(frozen=True)
class DistillationOptions(TeacherOptions):
    """The flags of distillation beside the labels of a task."""

    distillation_temperature: float = fields.number(
        1.0, "Number by which the logits of teacher and model are divided before they are compared: above 1, labels "
        "that the teacher finds unlikely count more. It has no effect on a regression.", 1e-3,
        needs="teacher_checkpoint")
    distillation_alpha: float = fields.number(
        0.5, "Weight, from 0 to 1, of the difference from the teacher of --teacher_checkpoint in the loss. The loss of "
        "the labels has the rest. 0: the teacher is not used; 1: the labels are not used.", 0.0, 1.0,
        needs="teacher_checkpoint")


@dataclasses.dataclass(frozen=True)
class LayerDistillationOptions(DistillationOptions):
    """The flags of pre-training beside those of a teacher's answers."""

    distillation_hidden_weight: float = fields.number(
        0.0, "Weight of the mean squared error of the layers' outputs against those of the teacher's layers, which is "
        "added to the loss. If the widths differ, a projection is trained with the model and is no part of it.", 0.0,
        needs="teacher_checkpoint")
    distillation_attention_weight: float = fields.number(
        0.0, "Weight of the KL divergence from the attention of the teacher's layers, as in MiniLMv2, which is added "
        "to the loss: how similar the queries of two tokens are, and their keys, and their values.", 0.0,
        needs="teacher_checkpoint")
    distillation_layers: tuple[int, ...] = fields.whole_numbers(
        (), "Comma-separated list with a layer of the teacher, from 1, for each layer of the model, which learns from "
        "it. Default: evenly over the teacher's layers; 3,6,9,12 for 4 and 12 layers.", bounds.LAYERS,
        needs="teacher_checkpoint")
    distillation_relation_heads: int | None = fields.integer(
        None, "Number of parts of the queries, keys and values that --distillation_attention_weight compares "
        "separately. It must divide the widths of both models. Default: the teacher's number of heads.", bounds.WIDTH,
        needs="teacher_checkpoint")


def device_options(options: Any, *purposes: str) -> DeviceOptions:
    """DeviceOptions from the options of a command that trains.

    Args:
      options: has TrainingFlags and DeviceFlags, and the flags of its purposes: do_eval and eval_batch_size.
      *purposes: the purposes of batches that the command can have.
    """
    # They import TensorFlow, before which flags are parsed.
    from albert_tf.training.strategy import resolve_strategy
    from albert_tf.training.trainer import parts_of_cpu

    uses_jax = options.runtime == "jax"
    if uses_jax:
        _check_jax(options)
    strategy = resolve_strategy("tpu" if options.use_tpu else options.distribution_strategy)
    default_parts = 1 if options.jit_compile or uses_jax or strategy != "one_device" else parts_of_cpu()
    batch_sizes = {f"{purpose}_batch_size": (getattr(options, f"{purpose}_batch_size"),
                                             options.gradient_accumulation_steps if purpose == "train" else 1)
                   for purpose in purposes if getattr(options, f"do_{purpose}")}
    return DeviceOptions(strategy, fields.made_from(TpuAddress, options), options.cpu_parts or default_parts,
                         options.precision, options.random_seed, batch_sizes,
                         fields.made_from(JaxOptions, options) if uses_jax else None)


def _check_jax(options: Any) -> None:
    """Raises ValueError for flags that jax cannot follow."""
    if options.use_tpu or options.distribution_strategy not in ("auto", "one_device"):
        name = "use_tpu" if options.use_tpu else f"distribution_strategy={options.distribution_strategy}"
        raise ValueError(f"--{name} is for TensorFlow: --runtime=jax uses all devices that jax finds, also a TPU's")
    if options.precision == "mixed_float16":
        raise ValueError("--runtime=jax does not scale losses, as --precision=mixed_float16 needs: use mixed_bfloat16")
    if options.cpu_parts > 1:
        raise ValueError("--cpu_parts is for TensorFlow: with --runtime=jax, XLA divides a step among the cores")


def trainer_options(options: Any, devices: DeviceOptions, **values: Any) -> TrainerOptions:
    """TrainerOptions from the options of a command that trains, and from other values."""
    return fields.made_from(TrainerOptions, options, loss_scaling=devices.precision == "mixed_float16",
                            parts=devices.parts, **values)


def run_options(options: TrainingFlags) -> RunOptions:
    """RunOptions from the options of a command that trains."""
    check_no_wildcard(options.output_dir)
    check_directory(options.output_dir)
    return fields.made_from(RunOptions, options)
