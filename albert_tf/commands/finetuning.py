"""Flags of fine-tuning, which shared_flags.py does not have, and functions that make runs of them."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Callable, Collection, Mapping, Sequence

import tensorflow as tf
from absl import flags, logging

from albert_tf import keras
from albert_tf.commands import shared_flags as shared, usage
from albert_tf.config import AlbertConfig
from albert_tf.data.batching import bucket_lengths
from albert_tf.data.feature_table import FeatureTable
from albert_tf.export.precision import with_precision
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.training.evaluation import saved_runs
from albert_tf.training.finetuning import Evaluate, FineTuning, FineTuningOptions
from albert_tf.training.strategy import chief_first, is_chief
from albert_tf.training.task import PredictingTask
from albert_tf.utils import bounds
from albert_tf.utils.files import make_directory
from albert_tf.utils.json_files import read_json_object
from albert_tf.weights.heads import head_of
from albert_tf.weights.model_card import write_run_card
from albert_tf.weights.resolved_model import ResolvedModel
from albert_tf.weights.settings import SETTINGS, settings_in, settings_of, write_settings
from albert_tf.weights.vocabulary_files import VocabularyFiles

FLAGS = flags.FLAGS
RECIPES = pathlib.Path(__file__).parents[1] / "recipes"


@usage.group("Runs")
def define_finetuning_flags(max_seq_length: int, do_train: bool = False, do_eval: bool = False) -> None:
    """Defines the flags of fine-tuning runs. The arguments are the script's defaults."""
    flags.DEFINE_string("recipe", None,
                        "Defaults of flags: the name of a file in albert_tf/recipes/ (the paper's hyper-parameters of "
                        "a task), or the path of a JSON file of flags. Flags of the command line take precedence.")
    flags.DEFINE_alias("seed", "random_seed")
    flags.DEFINE_bool("do_train", do_train, "Whether to train.")
    flags.DEFINE_bool("do_eval", do_eval, "Whether to evaluate. With --do_train, each checkpoint is evaluated when it "
                      "is saved. Without it, the checkpoints of all runs in --output_dir are evaluated, or "
                      "--init_checkpoint if there are none.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict, with the best run in --output_dir (its best "
                      "checkpoint, or its latest one if it was not evaluated), or with --init_checkpoint if there is "
                      "no run.")
    shared.define_integer("max_seq_length", max_seq_length,
                          "Largest number of tokens of an input sequence, including special tokens. A run in "
                          "--output_dir that is not trained further keeps the length that it was trained with. If the "
                          "flag is not set, a run that is continued keeps its length too, and a new run has the "
                          "default, or the model's max_position_embeddings if that is smaller.",
                          *bounds.SEQ_LENGTH.at_least(SPECIAL_TOKENS + 1))
    flags.DEFINE_bool("pad_to_max_length", False, "Whether to pad every batch to --max_seq_length, as in the release. "
                      "If false, a batch is padded to the shortest of several lengths that its examples fit in.")
    flags.DEFINE_bool("group_by_length", True, "Whether the examples of a training batch have similar lengths, which "
                      "saves the time of padding. If false, they are drawn at random, as in the release.")
    shared.define_integer("eval_batch_size", 8, "Number of examples in an evaluation step, summed over all devices.",
                          *bounds.BATCH_SIZE)
    shared.define_integer("predict_batch_size", 8, "Number of examples in a prediction step, summed over all devices.",
                          *bounds.BATCH_SIZE)
    flags.DEFINE_string("cached_dir", None, "Directory in which features are cached as records. Default: --output_dir.")
    shared.define_integer("early_stopping_patience", 0, "Number of consecutive evaluations without a new best result "
                          "after which training ends. 0: training never ends early.", *bounds.EVALUATIONS.at_least(0))
    shared.define_integer("num_runs", 1, "Number of runs, with the seeds --random_seed, --random_seed + 1, ... Each "
                          "run has its own directory. The medians of their results are reported, and the best run "
                          "predicts.", *bounds.RUNS)
    flags.DEFINE_list("ensemble_checkpoints", [], "Comma-separated list of checkpoints whose predictions are averaged. "
                      "Default: predictions are those of the run's own checkpoint.")


def set_defaults(*heads: str) -> ResolvedModel:
    """Sets flags that the command line does not set, and finds the model. A script calls it first.

    The flags are those of --recipe, and --max_seq_length by the run or the model. A run that is evaluated or predicts
    keeps the length that it was trained with.

    Args:
      *heads: the names of the script's heads (see resolve).

    Returns:
      The model.

    Raises:
      ValueError: see apply_recipe and resolve.
    """
    apply_recipe()
    model, name = shared.resolve_model(*heads), "max_seq_length"
    if requested(name) is None:
        FLAGS.set_default(name, shared.default_length(model, FLAGS[name].default))
    else:
        FLAGS[name].value = model.setting(name, requested(name))
    return model


def requested(name: str) -> Any:
    """The value of a flag that the command line or the recipe sets; None if neither does."""
    return FLAGS[name].value if FLAGS[name].present or name in _recipe()[1] else None


def apply_recipe() -> None:
    """Sets the flags that --recipe lists, except those that the command line sets.

    Raises:
      ValueError: there is no such recipe, it is not a JSON object, or it has a name that is not a flag of the script.
    """
    path, values = _recipe()
    for name, value in values.items():
        try:
            if value is None:
                raise ValueError(f"--{name} has no value")
            FLAGS.set_default(name, value)
        except flags.Error as error:
            raise ValueError(f"{path}: {usage.described_error(error)}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _recipe() -> tuple[str, dict[str, Any]]:
    """The path of --recipe and the values of flags in it; empty without a recipe."""
    if not FLAGS.recipe:
        return "", {}
    named = RECIPES / f"{FLAGS.recipe.lower()}.json"
    path = str(named) if named.is_file() else FLAGS.recipe
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        names = ", ".join(sorted(file.stem for file in RECIPES.glob("*.json")))
        raise ValueError(f"no recipe {FLAGS.recipe!r}: expected one of {names}, or the path of a JSON file")
    return path, read_json_object(path)


def in_place_of(names: Collection[str], replacement: str) -> int | None:
    """The value of flag `replacement`; None if only a recipe sets it and the command line sets a flag in `names`."""
    is_dropped = any(FLAGS[name].present for name in names) and not FLAGS[replacement].present
    return None if is_dropped else FLAGS[replacement].value


def check_purpose(*others: str) -> None:
    """Checks that at least one action is requested.

    Args:
      *others: the script's own flags that request an action, besides --do_train, --do_eval, --do_predict and
        --export_dir.

    Raises:
      ValueError: none of these flags is set.
    """
    names = ("do_train", "do_eval", "do_predict", *others, "export_dir")
    if not any(FLAGS[name].value for name in names):
        raise ValueError(f"nothing to do: set {', '.join(f'--{name}' for name in names[:-1])} or --{names[-1]}")


def check_data_dir(is_read: bool, contents: str) -> None:
    """Raises ValueError, which says what the directory contains, if --data_dir is read and is not set."""
    if is_read and not FLAGS.data_dir:
        raise ValueError(f"--data_dir is missing: the directory that holds {contents}")


def finetuning_options(num_train_steps: int, num_warmup_steps: int) -> FineTuningOptions:
    """FineTuningOptions from the flags of define_finetuning_flags.

    Args:
      num_train_steps, num_warmup_steps: see learning_rate_schedule.
    """
    run = shared.run_options(num_train_steps=num_train_steps)
    trainer = shared.trainer_options(num_warmup_steps=num_warmup_steps, shapes_vary=True)
    seeds = tuple(range(FLAGS.random_seed, FLAGS.random_seed + FLAGS.num_runs))
    return shared.from_flags(FineTuningOptions, run=run, trainer=trainer, seeds=seeds,
                             buckets=bucket_lengths(FLAGS.max_seq_length, FLAGS.pad_to_max_length),
                             init_checkpoint=shared.init_path(), ensemble_checkpoints=tuple(FLAGS.ensemble_checkpoints))


def new_finetuning(
    options: FineTuningOptions, strategy: tf.distribute.Strategy, model: ResolvedModel,
    new_task: Callable[[AlbertConfig], PredictingTask], best_metric: str, config: AlbertConfig | None = None
) -> FineTuning:
    """Makes FineTuning and its directory.

    Args:
      options, strategy, new_task, best_metric: see FineTuning.
      model: the result of set_defaults.
      config: the model's config; None for that of `model`.

    Raises:
      ValueError: --max_seq_length is larger than max_position_embeddings.
    """
    config = config or model.config
    shared.check_length(options.buckets[-1], config)
    make_directory(options.run.output_dir)
    return FineTuning(options, strategy, config, new_task, model.reader(), best_metric)


def define_step_flags(train_step: int, warmup_step: int) -> None:
    """Defines --train_step and --warmup_step. The arguments are the script's defaults."""
    shared.define_integer("train_step", train_step, "Number of training steps.", *bounds.STEPS)
    shared.define_integer("warmup_step", warmup_step, "Number of steps in which the learning rate increases from 0 to "
                          "its peak.", *bounds.STEPS.at_least(0))


def export(runs: FineTuning, write: Callable[[str, keras.Model], None]) -> None:
    """Exports the model that predicts to --export_dir, if this flag is set.

    Args:
      runs: the runs in --output_dir.
      write: function of a directory and a model that writes the SavedModel.
    """
    if not FLAGS.export_dir:
        return
    model = runs.best_model()
    if is_chief(runs.strategy):
        write(FLAGS.export_dir, with_precision(model, FLAGS.export_precision))
        logging.info("exported to %s", FLAGS.export_dir)


def check_labels(model: ResolvedModel, names: Sequence[str] | None) -> None:
    """Checks the labels of the runs in --output_dir and, if other weights predict, warns of other labels.

    Args:
      model: the result of set_defaults.
      names: the labels of the task; None for a regression.

    Raises:
      ValueError: a run has other labels, or other weights that predict have the same labels in another order.
    """
    saved = saved_runs(model.request.output_dir or "")
    for path in saved:
        difference = _label_difference(path, settings_in(path).label_names, names, f" ({SETTINGS})")
        if difference:
            raise ValueError(difference)
    number = model.run.num_labels() if model.run else None
    if number and number != (len(names) if names else 1):
        raise ValueError(f"{model.request.output_dir} has a run with {number} outputs, but the task has "
                         f"{len(names) if names else 1}: choose another --output_dir")
    initial = [] if FLAGS.do_train or saved or not model.initial else [model.initial]
    for source in (*model.members, *initial):
        difference = _label_difference(source.path, source.settings.label_names, names)
        if difference and sorted(source.settings.label_names or ()) == sorted(names or ()):
            raise ValueError(difference)
        if difference:
            logging.warning("%s", difference)


def _label_difference(
    path: str, stored: Sequence[str] | None, names: Sequence[str] | None, place: str = ""
) -> str | None:
    """How the labels that are stored with weights differ from the task's; None if they do not, or none are stored."""
    if stored is None or names is not None and tuple(stored) == tuple(names):
        return None
    wanted = f"those of the task are {', '.join(names)}" if names else "the task is a regression"
    return f"{path}: the model was trained with the labels {', '.join(stored)}{place}, but {wanted}"


def train_and_evaluate(
    runs: FineTuning, vocabulary: VocabularyFiles, training_table: Callable[[], FeatureTable] | None,
    evaluate: Evaluate | None, data_files: Collection[str] = (), lengths: Mapping[str, Any] | None = None,
) -> None:
    """Trains and writes the model card of each run, or evaluates existing checkpoints.

    Args:
      runs: the result of new_finetuning.
      vocabulary: the model's vocabulary, which is copied to the checkpoints' directory, with the model's settings and
        --max_seq_length.
      training_table: function that makes the training table; None without --do_train.
      evaluate: see FineTuning; None without --do_eval.
      data_files: names of the files of training and evaluation data, for the model cards.
      lengths: the settings of the task's features (see Settings), by name: doc_stride, max_query_length, max_qa_length.
    """
    def write_inputs(directory: str, model: keras.Model) -> None:
        settings = dataclasses.replace(settings_of(model), max_seq_length=runs.options.buckets[-1],
                                       head=head_of(model).name, **(lengths or {}))
        write_settings(settings, model.config, directory, vocabulary)

    def write_card(directory: str, seed: int, model: keras.Model, scores: dict[str, float], trained: bool) -> None:
        options = runs.options
        write_run_card(model, dataclasses.replace(options.run, output_dir=directory),
                       dataclasses.replace(options.trainer, random_seed=seed), shared.command_line(),
                       options.init_checkpoint, dict.fromkeys(data_files, {}), scores, options.recipe, trained)

    if training_table and runs.options.early_stopping_patience and evaluate is None:
        raise ValueError("--early_stopping_patience needs evaluations: set --do_eval")
    if training_table:
        with chief_first(runs.strategy):
            table = training_table()
        runs.train(table, evaluate, write_inputs, write_card)
    elif evaluate is not None:
        runs.evaluate(evaluate)


def cached_dir() -> str:
    """The directory of cached features."""
    return FLAGS.cached_dir or FLAGS.output_dir
