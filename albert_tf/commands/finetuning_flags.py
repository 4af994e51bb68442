"""The flags that the commands that fine-tune share, recipes, and the options that flags make (see finetuning.py)."""

from __future__ import annotations

import pathlib
from typing import Any, Sequence

import tensorflow as tf
from absl import flags

from albert_tf.commands import flag_fields as fields, shared_flags as shared, training_flags, usage
from albert_tf.commands.finetuning import AnyOptions, Options
from albert_tf.data.batching import bucket_lengths
from albert_tf.modeling.pooling import POOLER, POOLINGS
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.training.finetuning import FineTuningOptions
from albert_tf.training.run import Length
from albert_tf.utils import bounds
from albert_tf.utils.json_files import read_json_object
from albert_tf.utils.outputs import check_export, is_replaced
from albert_tf.weights.resolved_model import ResolvedModel

FLAGS = flags.FLAGS
RECIPES = pathlib.Path(__file__).parents[1] / "recipes"
# By a recipe's flag: the flags of the command line that it gives way to. Its warm-up belongs to its number of steps.
_REPLACED_BY = {"train_step": ("num_train_epochs",), "num_train_epochs": ("train_step",),
                "warmup_step": ("warmup_proportion", "num_train_epochs", "train_step"),
                "warmup_proportion": ("warmup_step",)}


def define_flags(
    options_class: type[Options], max_seq_length: int, learning_rate: float = 5e-5, train_batch_size: int = 32,
    trains_and_evaluates: bool = False,
    export_accepts: str = "raw text, ids, or serialized tf.Examples",
) -> None:
    """Defines the flags that the commands share, and those that are fields of the command's options.

    Args:
      options_class: the command's options.
      max_seq_length, learning_rate, train_batch_size: the command's defaults.
      trains_and_evaluates: the default of --do_train and --do_eval.
      export_accepts: what the exported model accepts, for --help.
    """
    shared.define_model_flags()
    training_flags.define_training_flags("adamw", learning_rate, train_batch_size, options_class.LARGEST_INTERVAL)
    _define_length_flags()
    _define_run_flags(max_seq_length, trains_and_evaluates)
    _define_trainable_flags()
    training_flags.define_device_flags()
    fields.define_fields(options_class)
    shared.define_export_flags(export_accepts)


@fields.group("Training")
def _define_length_flags() -> None:
    fields.define_float("num_train_epochs", None, "Number of passes over the training examples. The number of steps is "
                        "this number times examples divided by --train_batch_size. Default: 3.", lower_bound=0.0)
    fields.define_integer("train_step", None, "Number of training steps, instead of --num_train_epochs. Default for "
                          "tasks of GLUE and RACE: that of the release, 1,000 and 12,000.", *bounds.STEPS)
    fields.define_float("warmup_proportion", None, "Share of the training steps, from 0 to 1, in which the learning "
                        "rate increases from 0 to its peak. Default: 0.1.", 0.0, 1.0)
    fields.define_integer("warmup_step", None, "Number of these steps, instead of --warmup_proportion. Default for "
                          "tasks of GLUE and RACE, without a recipe and epochs: that of the release, 0 and 1,000.",
                          *bounds.STEPS.at_least(0))


@fields.group("Runs")
def _define_run_flags(max_seq_length: int, trains_and_evaluates: bool) -> None:
    flags.DEFINE_string("recipe", None,
                        "Defaults of flags: the name of a file in albert_tf/recipes/ (the paper's hyper-parameters of "
                        "a task), or the path of a JSON file of flags. Flags of the command line take precedence.")
    flags.DEFINE_alias("seed", "random_seed")
    flags.DEFINE_bool("do_train", trains_and_evaluates, "Whether to train.")
    flags.DEFINE_bool("do_eval", trains_and_evaluates, "Whether to evaluate. With --do_train, each checkpoint is "
                      "evaluated when it is saved. Without it, the checkpoints of all runs in --output_dir are "
                      "evaluated, or --init_checkpoint if there are none.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict, with the best run in --output_dir (its best "
                      "checkpoint, or its latest one if it was not evaluated), or with --init_checkpoint if there is "
                      "no run.")
    fields.define_integer("max_seq_length", max_seq_length, "Largest number of tokens of an input sequence, including "
                          "special tokens. A run in --output_dir that is not trained further keeps the length that it "
                          "was trained with. If the flag is not set, a run that is continued keeps its length too, and "
                          "a new run has the default, or the model's max_position_embeddings if that is smaller.",
                          *bounds.SEQ_LENGTH.at_least(SPECIAL_TOKENS + 1))
    flags.DEFINE_bool("pad_to_max_length", False, "Whether to pad every batch to --max_seq_length, as in the release. "
                      "If false, a batch is padded to the shortest of several lengths that its examples fit in.")
    flags.DEFINE_bool("group_by_length", True, "Whether the examples of a training batch have similar lengths, which "
                      "saves the time of padding. If false, they are drawn at random, as in the release.")
    fields.define_integer("eval_batch_size", 8, "Number of examples in an evaluation step, summed over all devices.",
                          *bounds.BATCH_SIZE)
    fields.define_integer("predict_batch_size", 8, "Number of examples in a prediction step, summed over all devices.",
                          *bounds.BATCH_SIZE)
    flags.DEFINE_string("cached_dir", None, "Directory in which features are cached as records. Default: --output_dir.")
    fields.define_integer("early_stopping_patience", 0, "Number of consecutive evaluations without a new best result "
                          "after which training ends. 0: training never ends early.", *bounds.EVALUATIONS.at_least(0))
    fields.define_integer("num_runs", 1, "Number of runs, with the seeds --random_seed, --random_seed + 1, ... Each "
                          "run has its own directory. The medians of their results are reported, and the best run "
                          "predicts.", *bounds.RUNS)
    flags.DEFINE_list("ensemble_checkpoints", [], "Comma-separated list of checkpoints whose predictions are averaged. "
                      "Default: predictions are those of the run's own checkpoint.")


@fields.group("Training")
def _define_trainable_flags() -> None:
    flags.DEFINE_string("trainable", None, "The weights that train. all: all. head: the head, with the pooler if the "
                        "head reads it. last_K, such as last_2: the head and the last K layers, which needs layers "
                        "that do not share their weights with earlier ones. Default: all, or with --lora_rank head.")
    fields.define_integer("lora_rank", 0, "Rank of low-rank adapters, which are trained with the head instead of the "
                          "kernels of the layers, and added to the kernels when the run is evaluated again, converted "
                          "or exported. 0: no adapters.", *bounds.WIDTH.at_least(0))
    fields.define_float("lora_alpha", None, "The adapters are multiplied by lora_alpha / lora_rank. Default: "
                        "--lora_rank.", lower_bound=0.0)
    flags.DEFINE_bool("lora_per_layer", False, "Whether each layer has adapters of its own, also if layers share their "
                      "weights. The model that is converted or exported then has layers without sharing.")


def set_defaults(*heads: str) -> ResolvedModel:
    """Sets flags that the command line does not set, and finds the model. A command calls it first.

    The flags are those of --recipe, and --max_seq_length by the run or the model. A run keeps the length that it was
    trained with.

    Args:
      *heads: the names of the command's heads (see resolve_model).

    Returns:
      The model.

    Raises:
      ValueError: see apply_recipe, resolve_model and ResolvedModel.setting.
    """
    apply_recipe()
    model, name = shared.resolve_model(*heads), "max_seq_length"
    if requested(name) is None:
        FLAGS.set_default(name, shared.default_length(model, FLAGS[name].default))
    else:
        FLAGS[name].value = model.setting(name, requested(name))
    return model


def stored_or_requested(model: ResolvedModel, name: str) -> Any:
    """The value of a setting (see ResolvedModel.setting) that is also a flag; the flag's default if none is stored."""
    return model.setting(name, requested(name)) or FLAGS[name].value


def requested(name: str) -> Any:
    """The value of a flag that the command line or the recipe sets; None if neither does."""
    return FLAGS[name].value if FLAGS[name].present or name in read_recipe(FLAGS.recipe)[1] else None


def apply_recipe() -> None:
    """Sets the flags that --recipe lists, except those that the command line sets or replaces.

    Raises:
      ValueError: there is no such recipe, it is not a JSON object, or it has a name that is not a flag of the command.
    """
    path, values = read_recipe(FLAGS.recipe)
    for name, value in values.items():
        if any(FLAGS[other].present for other in _REPLACED_BY.get(name, ())):
            continue
        try:
            if value is None:
                raise ValueError(f"--{name} has no value")
            FLAGS.set_default(name, value)
        except flags.Error as error:
            raise ValueError(f"{path}: {usage.described_error(error)}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def read_recipe(recipe: str | None) -> tuple[str, dict[str, Any]]:
    """The path of a recipe, which is its name or its path, and the values of flags in it; empty for None.

    Raises:
      ValueError: there is no such recipe, or it is not a JSON object.
    """
    if not recipe:
        return "", {}
    named = RECIPES / f"{recipe.lower()}.json"
    path = str(named) if named.is_file() else recipe
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        names = ", ".join(sorted(file.stem for file in RECIPES.glob("*.json")))
        raise ValueError(f"no recipe {recipe!r}: expected one of {names}, or the path of a JSON file")
    return path, read_json_object(path)


def _length(release_steps: tuple[int, int] | None, largest_interval: int) -> Length:
    """The length of the runs. See options_from_flags for `release_steps`."""
    for one, other in (("train_step", "num_train_epochs"), ("warmup_step", "warmup_proportion")):
        if FLAGS[one].value is not None and FLAGS[other].value is not None:
            raise ValueError(f"--{one} and --{other} exclude each other: set one of them")
    names = ("train_step", "num_train_epochs", "warmup_step", "warmup_proportion", "save_checkpoints_steps")
    values = {name: FLAGS[name].value for name in names if FLAGS[name].value is not None}
    if release_steps and FLAGS.num_train_epochs is None:
        values.setdefault("train_step", release_steps[0])
        if "warmup_proportion" not in values and "warmup_step" not in read_recipe(FLAGS.recipe)[1]:
            values.setdefault("warmup_step", release_steps[1])
    return Length(**values, largest_interval=largest_interval)


def options_from_flags(
    options_class: type[AnyOptions], model: ResolvedModel, actions: Sequence[str] = (),
    release_steps: tuple[int, int] | None = None, **values: Any
) -> AnyOptions:
    """The options of a command.

    Args:
      options_class: the command's options.
      model: the result of set_defaults.
      actions: the command's own flags that request an action, besides --do_train, --do_eval, --do_predict and
        --export_dir.
      release_steps: the release's defaults of --train_step and --warmup_step for this task; None for 3 epochs.
      **values: the fields that are no flags, or that differ from the flags.

    Raises:
      ValueError: no action is requested, or a flag is wrong or missing.
    """
    check_export(FLAGS.export_dir)
    if FLAGS.export_dir and is_replaced(FLAGS.output_dir, FLAGS.export_dir):
        raise ValueError(f"--output_dir={FLAGS.output_dir} must not be --export_dir or a folder in it, since an export "
                         "replaces its folder: choose another --export_dir")
    names = ("do_train", "do_eval", "do_predict", *actions, "export_dir")
    if not any(FLAGS[name].value for name in names):
        raise ValueError(f"nothing to do: set {', '.join(f'--{name}' for name in names[:-1])} or --{names[-1]}")
    tuning = fields.from_flags(
        FineTuningOptions, run=training_flags.run_options(),
        trainer=training_flags.trainer_options(shapes_vary=True),
        length=_length(release_steps, options_class.LARGEST_INTERVAL),
        seeds=tuple(range(FLAGS.random_seed, FLAGS.random_seed + FLAGS.num_runs)),
        buckets=bucket_lengths(FLAGS.max_seq_length, FLAGS.pad_to_max_length), init_checkpoint=shared.init_path(),
        ensemble_checkpoints=tuple(FLAGS.ensemble_checkpoints))
    return fields.from_flags(options_class, model=model, finetuning=tuning,
                             cached_dir=FLAGS.cached_dir or FLAGS.output_dir, **values)


def define_exit_flags(with_pooling: bool = True) -> None:
    """Defines the flags of exit heads and of a model that is cut after one of its first layers.

    Args:
      with_pooling: whether the outputs read one vector of a text.
    """
    flags.DEFINE_bool("exit_heads", None, "Whether to train an output after every layer (Zhou et al., 2020), so that "
                      "the model can be cut to its first layers (--num_layers). Default: false, or as in the training "
                      "of the model.")
    if with_pooling:
        flags.DEFINE_enum("exit_pooling", None, POOLINGS, "With --exit_heads: which vector of a text the outputs "
                          "before the last layer read: the mean or the maximum of the tokens, [CLS], or the pooled "
                          "output. Default: pooler, or as in the training of the model.")
    shared.define_num_layers_flag()


def exits_from_flags(model: ResolvedModel, teacher_checkpoint: str | None = None) -> dict[str, Any]:
    """The arguments of the model's constructor for exit heads (see EarlyExitModel), from the flags.

    Args:
      model: the result of set_defaults.
      teacher_checkpoint: the value of the flag.

    Raises:
      ValueError: exit heads have a teacher, or a flag needs exit heads that the model does not have, or contradicts
        the run that is to be continued.
    """
    exit_heads = bool(model.setting("exit_heads", FLAGS.exit_heads))
    if exit_heads and FLAGS.do_train and teacher_checkpoint:
        raise ValueError("--teacher_checkpoint teaches the last layer alone: train --exit_heads without it")
    if "exit_pooling" not in FLAGS:
        return dict(exit_heads=exit_heads)
    if FLAGS.exit_pooling and not exit_heads:
        raise ValueError(f"--exit_pooling={FLAGS.exit_pooling} needs --exit_heads")
    return dict(exit_heads=exit_heads, exit_pooling=model.setting("exit_pooling", FLAGS.exit_pooling) or POOLER,
                pooling=model.settings.pooling or POOLER)
