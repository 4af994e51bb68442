"""The flags that the commands that fine-tune share, recipes, and the options that flags make (tasks/fine_tuning.py)."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import TYPE_CHECKING, Any, Mapping, Sequence, TypeVar

from absl import flags

from albert_tf.commands import flag_fields as fields, shared_flags as shared, training_flags, usage
from albert_tf.data.batching import bucket_lengths
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.training.options import FineTuningOptions, Length, TrainerOptions
from albert_tf.utils import bounds
from albert_tf.utils.files import is_inside, read_json_object
from albert_tf.utils.imports import check_installed, tensorflow as tf
from albert_tf.utils.outputs import check_export

if TYPE_CHECKING:
    from albert_tf.weights.resolved_model import ResolvedModel

FLAGS = flags.FLAGS
RECIPES = pathlib.Path(__file__).parents[1] / "recipes"
# By a recipe's flag: the flags of the command line that it gives way to. Its warm-up belongs to its number of steps.
_REPLACED_BY = {"train_step": ("num_train_epochs",), "num_train_epochs": ("train_step",),
                "warmup_step": ("warmup_proportion", "num_train_epochs", "train_step"),
                "warmup_proportion": ("warmup_step",)}


@dataclasses.dataclass(frozen=True)
class LengthFlags:
    """The flags of the length of a run."""

    GROUP = "Training"

    num_train_epochs: float | None = fields.number(
        None, "Number of passes over the training examples. The number of steps is this number times examples divided "
        "by --train_batch_size. Default: 3.", 0.0)
    train_step: int | None = fields.integer(
        None, "Number of training steps, instead of --num_train_epochs. Default for tasks of GLUE and RACE: that of "
        "the release, 1,000 and 12,000.", bounds.STEPS)
    warmup_proportion: float | None = fields.number(
        None, "Share of the training steps, from 0 to 1, in which the learning rate increases from 0 to its peak. "
        "Default: 0.1.", 0.0, 1.0)
    warmup_step: int | None = fields.integer(
        None, "Number of these steps, instead of --warmup_proportion. Default for tasks of GLUE and RACE, without a "
        "recipe and epochs: that of the release, 0 and 1,000.", bounds.STEPS.at_least(0))


@dataclasses.dataclass(frozen=True)
class TrainableFlags:
    """The flags of what is trained."""

    GROUP = "Training"

    trainable: str | None = fields.string(
        None, "The weights that train. all: all. head: the head, with the pooler if the head reads it. last_K, such as "
        "last_2: the head and the last K layers, which needs layers that do not share their weights with earlier ones. "
        "Default: all, or with --lora_rank head.")
    lora_rank: int = fields.integer(
        TrainerOptions.lora_rank, "Rank of low-rank adapters, which are trained with the head instead of the kernels "
        "of the layers, and added to the kernels when the run is evaluated again, converted or exported. 0: no "
        "adapters.", bounds.WIDTH.at_least(0))
    lora_alpha: float | None = fields.number(
        None, "The adapters are multiplied by lora_alpha / lora_rank. Default: --lora_rank.", 0.0)
    lora_per_layer: bool = fields.boolean(
        TrainerOptions.lora_per_layer, "Whether each layer has adapters of its own, also if layers share their "
        "weights. The model that is converted or exported then has layers without sharing.")


@dataclasses.dataclass(frozen=True)
class RunFlags:
    """The flags of the runs in --output_dir and of what is done with them."""

    GROUP = "Runs"

    recipe: str | None = fields.string(
        None, "Defaults of flags: the name of a file in albert_tf/recipes/ (the paper's hyper-parameters of a task), "
        "or the path of a JSON file of flags. Flags of the command line take precedence.")
    do_train: bool = fields.boolean(False, "Whether to train.")
    do_eval: bool = fields.boolean(
        False, "Whether to evaluate. With --do_train, each checkpoint is evaluated when it is saved. Without it, the "
        "checkpoints of all runs in --output_dir are evaluated, or --init_checkpoint if there are none.")
    do_predict: bool = fields.boolean(
        False, "Whether to predict, with the best run in --output_dir (its best checkpoint, or its latest one if it "
        "was not evaluated), or with --init_checkpoint if there is no run.")
    max_seq_length: int = fields.integer(
        512, "Largest number of tokens of an input sequence, including special tokens. A run in --output_dir that is "
        "not trained further keeps the length that it was trained with. If the flag is not set, a run that is "
        "continued keeps its length too, and a new run has the default, or the model's max_position_embeddings if that "
        "is smaller.", bounds.SEQ_LENGTH.at_least(SPECIAL_TOKENS + 1))
    pad_to_max_length: bool = fields.boolean(
        False, "Whether to pad every batch to --max_seq_length, as in the release. If false, a batch is padded to the "
        "shortest of several lengths that its examples fit in.")
    group_by_length: bool = fields.boolean(
        FineTuningOptions.group_by_length, "Whether the examples of a training batch have similar lengths, which saves "
        "the time of padding. If false, they are drawn at random, as in the release.")
    eval_batch_size: int = fields.integer(
        FineTuningOptions.eval_batch_size, "Number of examples in an evaluation step, summed over all devices.",
        bounds.BATCH_SIZE)
    predict_batch_size: int = fields.integer(
        FineTuningOptions.predict_batch_size, "Number of examples in a prediction step, summed over all devices.",
        bounds.BATCH_SIZE)
    cached_dir: str = fields.string(None, "Directory in which features are cached as records. Default: --output_dir.")
    early_stopping_patience: int = fields.integer(
        FineTuningOptions.early_stopping_patience, "Number of consecutive evaluations without a new best result after "
        "which training ends. 0: training never ends early.", bounds.EVALUATIONS.at_least(0))
    num_runs: int = fields.integer(
        1, "Number of runs, with the seeds --random_seed, --random_seed + 1, ... Each run has its own directory. The "
        "medians of their results are reported, and the best run predicts.", bounds.RUNS)
    ensemble_checkpoints: list[str] = fields.names(
        [], "Comma-separated list of checkpoints whose predictions are averaged. Default: predictions are those of the "
        "run's own checkpoint.")


@dataclasses.dataclass(frozen=True)
class Options(shared.ModelFlags, shared.NumLayersFlags, training_flags.TrainingFlags, LengthFlags, TrainableFlags,
              RunFlags, training_flags.DeviceFlags, shared.ExportFlags):
    """The flags of a command that fine-tunes. A command's own class adds its flags.

    Args:
      release_steps: the release's defaults of --train_step and --warmup_step for this task; None for 3 epochs.

    LARGEST_INTERVAL is the command's default of --save_checkpoints_steps for a long run.
    """

    LARGEST_INTERVAL = 1000  # no field

    model: ResolvedModel = fields.made()
    release_steps: tuple[int, int] | None = fields.made()

    def __post_init__(self):
        for flag, actions in self.readers.items():
            action = next((action for action in actions if getattr(self, action)), None)
            if action and not getattr(self, flag):
                raise ValueError(f"--{flag} is missing: --{action} reads it")

    @property
    def readers(self) -> Mapping[str, Sequence[str]]:
        """For each flag of a file or folder that the command reads: the flags of the actions that read it."""
        return {}

    @property
    def splits(self) -> list[str]:
        """The splits that are trained on and evaluated: train, dev, both or none."""
        return ["train"] * self.do_train + ["dev"] * self.do_eval

    @functools.cached_property
    def devices(self) -> training_flags.DeviceOptions:
        """On what the command computes."""
        return training_flags.device_options(self, "train", "eval", "predict")

    @functools.cached_property
    def finetuning(self) -> FineTuningOptions:
        """The options of the runs."""
        return fields.made_from(
            FineTuningOptions, self, init_checkpoint=self.init_path, run=training_flags.run_options(self),
            trainer=training_flags.trainer_options(self, self.devices, shapes_vary=True, rows_vary=False),
            length=self.length,
            seeds=tuple(range(self.random_seed, self.random_seed + self.num_runs)),
            buckets=bucket_lengths(self.max_seq_length, self.pad_to_max_length),
            ensemble_checkpoints=tuple(self.ensemble_checkpoints))

    @property
    def command_line(self) -> str:
        """The command line, for model cards."""
        return usage.command_line()

    @property
    def length(self) -> Length:
        """The length of the runs."""
        for one, other in (("train_step", "num_train_epochs"), ("warmup_step", "warmup_proportion")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"--{one} and --{other} exclude each other: set one of them")
        names = ("train_step", "num_train_epochs", "warmup_step", "warmup_proportion", "save_checkpoints_steps")
        values = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.release_steps and self.num_train_epochs is None:
            values.setdefault("train_step", self.release_steps[0])
            if self.warmup_proportion is None and not self.recipe:
                values.setdefault("warmup_step", self.release_steps[1])
        return Length(**values, largest_interval=self.LARGEST_INTERVAL)


AnyOptions = TypeVar("AnyOptions", bound=Options)


def define_flags(options_class: type[Options], **defaults: Any) -> None:
    """Defines the flags of a command."""
    fields.define_fields(options_class, **defaults)
    fields.define_alias("seed", "random_seed")


def set_defaults(*heads: str) -> ResolvedModel:
    """Sets flags that the command line does not set, and finds the model. A command calls it first.

    The flags are those of --recipe, and --max_seq_length by the run or the model. A run keeps the length that it was
    trained with.
    """
    apply_recipe()
    model = fields.from_flags(shared.ModelFlags).resolve_model(
        *heads, output_dir=FLAGS.output_dir, do_train=FLAGS.do_train, ensemble=tuple(FLAGS.ensemble_checkpoints),
        num_layers=FLAGS.num_layers)
    name = "max_seq_length"
    if requested(name) is None:
        FLAGS.set_default(name, shared.default_length(model, FLAGS[name].default))
    else:
        FLAGS[name].value = model.reconciled(name, requested(name))
    return model


def requested(name: str) -> Any:
    """The value of a flag that the command line or the recipe sets; None if neither does."""
    return FLAGS[name].value if FLAGS[name].present else None


def apply_recipe() -> None:
    """Sets the flags that --recipe lists, except those that the command line sets or replaces."""
    path, values = read_recipe(FLAGS.recipe)
    of_command_line = {name for name in FLAGS if FLAGS[name].present}
    for name, value in values.items():
        if not of_command_line.isdisjoint((name, *_REPLACED_BY.get(name, ()))):
            continue
        try:
            if value is None:
                raise ValueError(f"--{name} has no value")
            FLAGS.set_default(name, value)
            FLAGS[name].present += 1  # as for a flag of the command line
        except flags.Error as error:
            raise ValueError(f"{path}: {usage.described_error(error)}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def read_recipe(recipe: str | None) -> tuple[str, dict[str, Any]]:
    """The path of a recipe, which is its name or its path, and the values of flags in it; empty for None."""
    if not recipe:
        return "", {}
    named = RECIPES / f"{recipe.lower()}.json"
    path = str(named) if named.is_file() else recipe
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        names = ", ".join(sorted(file.stem for file in RECIPES.glob("*.json")))
        raise ValueError(f"no recipe {recipe!r}: expected one of {names}, or the path of a JSON file")
    return path, read_json_object(path)


def options_from_flags(
    options_class: type[AnyOptions], model: ResolvedModel, actions: Sequence[str] = (),
    release_steps: tuple[int, int] | None = None, **values: Any
) -> AnyOptions:
    """The options of a command.

    Args:
      actions: the command's own flags that request an action, besides --do_train, --do_eval, --do_predict and
        --export_dir.
      release_steps: the release's defaults of --train_step and --warmup_step for this task; None for 3 epochs.
      **values: the fields that are no flags, or that differ from the flags.
    """
    check_export(FLAGS.export_dir)
    if FLAGS.export_dir:
        check_installed("--export_dir", "tensorflow_text")
    if FLAGS.export_dir and is_inside(FLAGS.output_dir, FLAGS.export_dir):
        raise ValueError(f"--output_dir={FLAGS.output_dir} must not be --export_dir or a folder in it, since an export "
                         "has a folder of its own: choose another --export_dir")
    names = ("do_train", "do_eval", "do_predict", *actions, "export_dir")
    if not any(FLAGS[name].value for name in names):
        raise ValueError(f"nothing to do: set {', '.join(f'--{name}' for name in names[:-1])} or --{names[-1]}")
    return fields.from_flags(options_class, model=model, release_steps=release_steps,
                             cached_dir=FLAGS.cached_dir or FLAGS.output_dir, **values)
