"""The flags that GLUE, SQuAD and RACE share besides those of flags.py, and the runs that they ask for."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Callable, Collection

import tensorflow as tf
from absl import flags

from albert_tf import bounds, help, keras
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureTable
from albert_tf.data.length_buckets import bucket_lengths
from albert_tf.flags import (
    check_length,
    command_line,
    from_flags,
    run_options,
    starting_point,
    trainer_options,
    weights_reader,
)
from albert_tf.interchange.run_card import write_run_card
from albert_tf.interchange.vocabulary_files import VocabularyFiles, copy_vocabulary
from albert_tf.json_files import read_json_object
from albert_tf.tasks.task import PredictingTask
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.training.finetuning import Evaluate, FineTuning, FineTuningOptions
from albert_tf.training.strategy import is_chief
from albert_tf.training.workers import chief_first

FLAGS = flags.FLAGS
RECIPES = pathlib.Path(__file__).parent / "recipes"


@help.group("Runs")
def define_finetuning_flags(max_seq_length: int, do_train: bool = False, do_eval: bool = False) -> None:
    """Args: the defaults of the script."""
    flags.DEFINE_string("recipe", None,
                        "Values of flags that the command line does not set: a file of albert_tf/recipes/ by its name "
                        "(the paper's hyper-parameters, by task), or the path of a JSON file of flags.")
    flags.DEFINE_alias("seed", "random_seed")
    flags.DEFINE_bool("do_train", do_train, "Whether to train.")
    flags.DEFINE_bool("do_eval", do_eval, "Whether to evaluate: each checkpoint as it is saved; without --do_train, "
                      "the checkpoints in --output_dir, else --init_checkpoint.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict, with the best checkpoint, else the latest, else "
                      "--init_checkpoint.")
    flags.DEFINE_integer("max_seq_length", max_seq_length,
                         "Maximum number of tokens in an input sequence, special tokens included.",
                         *bounds.SEQ_LENGTH.at_least(SPECIAL_TOKENS + 1))
    flags.DEFINE_bool("pad_to_max_length", False, "Whether every batch is padded to --max_seq_length, as in the "
                      "release, and not to the smallest bucket that holds it.")
    flags.DEFINE_integer("eval_batch_size", 8, "Examples in an evaluation step, summed over all devices.",
                         *bounds.BATCH_SIZE)
    flags.DEFINE_integer("predict_batch_size", 8, "Examples in a prediction step, summed over all devices.",
                         *bounds.BATCH_SIZE)
    flags.DEFINE_string("cached_dir", None, "Directory in which features are kept as records. Default: --output_dir.")
    flags.DEFINE_integer("early_stopping_patience", 0, "Evaluations in a row without a new best after which training "
                         "ends; 0 for never.", *bounds.EVALUATIONS.at_least(0))
    flags.DEFINE_integer("num_runs", 1, "Runs with seeds --seed, --seed + 1, ..., each in a directory of its own; "
                         "their median is reported, and the best one predicts.", *bounds.RUNS)
    flags.DEFINE_list("ensemble_checkpoints", [], "Comma-separated list of checkpoints whose predictions are "
                      "averaged, instead of predicting with the run's own.")


def apply_recipe() -> None:
    """Gives the flags of --recipe their values there, but those of the command line.

    Raises:
      ValueError: there is no such recipe, it is no JSON object, or it has something that is no flag of the script.
    """
    if not FLAGS.recipe:
        return
    named = RECIPES / f"{FLAGS.recipe.lower()}.json"
    path = str(named) if named.is_file() else FLAGS.recipe
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        names = ", ".join(sorted(file.stem for file in RECIPES.glob("*.json")))
        raise ValueError(f"no recipe {FLAGS.recipe!r}: there are {names}, and files of one's own")
    for name, value in read_json_object(path).items():
        try:
            if value is None:
                raise ValueError(f"--{name} has no value")
            FLAGS.set_default(name, value)
        except (ValueError, flags.Error) as error:
            raise ValueError(f"{path}: {error}") from error


def in_place_of(name: str, stronger: str) -> int | None:
    """The value of the stronger flag, unless a recipe has set it and the command line gives the other."""
    return None if FLAGS[name].present and not FLAGS[stronger].present else FLAGS[stronger].value


def check_purpose(*others: str) -> None:
    """Checks that there is something to do.

    Args:
      *others: flags of the script that are a purpose too, besides those to train, evaluate, predict and export.

    Raises:
      ValueError: none of these flags is set.
    """
    names = ("do_train", "do_eval", "do_predict", *others, "export_dir")
    if not any(FLAGS[name].value for name in names):
        raise ValueError(f"nothing to do: give {', '.join(f'--{name}' for name in names[:-1])} or --{names[-1]}")


def finetuning_options(num_train_steps: int, num_warmup_steps: int) -> FineTuningOptions:
    """The runs that the flags of define_finetuning_flags ask for.

    Args:
      num_train_steps, num_warmup_steps: of the schedule.
    """
    run = run_options(num_train_steps=num_train_steps)
    trainer = trainer_options(num_warmup_steps=num_warmup_steps, shapes_vary=True)
    seeds = tuple(range(FLAGS.random_seed, FLAGS.random_seed + FLAGS.num_runs))
    return from_flags(FineTuningOptions, run=run, trainer=trainer, seeds=seeds,
                      buckets=bucket_lengths(FLAGS.max_seq_length, FLAGS.pad_to_max_length),
                      init_checkpoint=starting_point(), ensemble_checkpoints=tuple(FLAGS.ensemble_checkpoints))


def new_finetuning(
    options: FineTuningOptions, strategy: tf.distribute.Strategy, config: AlbertConfig,
    new_task: Callable[[], PredictingTask], best_metric: str
) -> FineTuning:
    """Makes FineTuning and its directory; the arguments are those of FineTuning.

    Raises:
      ValueError: batches are longer than the model's positions.
    """
    check_length(options.buckets[-1], config)
    tf.io.gfile.makedirs(options.run.output_dir)
    return FineTuning(options, strategy, config, new_task, weights_reader(), best_metric)


def train_and_evaluate(
    runs: FineTuning, vocabulary: VocabularyFiles, training_table: Callable[[], FeatureTable] | None,
    evaluate: Evaluate | None, data_files: Collection[str] = ()
) -> None:
    """Trains and writes the model card of each run, or evaluates what was trained before.

    Args:
      runs: of `finetuning`.
      vocabulary: of the model; it is put beside the checkpoints.
      training_table: makes the table to train on; None without --do_train.
      evaluate: see FineTuning; None without --do_eval.
      data_files: names of the files of training and evaluation data, for the model cards.
    """
    def write_card(directory: str, seed: int, model: keras.Model, scores: dict[str, float]) -> None:
        options = runs.options
        write_run_card(model, dataclasses.replace(options.run, output_dir=directory),
                       dataclasses.replace(options.trainer, random_seed=seed), command_line(), options.init_checkpoint,
                       dict.fromkeys(data_files, {}), scores, options.recipe)

    if training_table and runs.options.early_stopping_patience and evaluate is None:
        raise ValueError("--early_stopping_patience goes by the dev set: give --do_eval, too")
    if training_table:
        if is_chief(runs.strategy):
            for directory in runs.runs.values():
                copy_vocabulary(vocabulary, directory)
        with chief_first(runs.strategy):
            table = training_table()
        runs.train(table, evaluate, write_card)
    elif evaluate is not None:
        runs.evaluate(evaluate)


def cached_dir() -> str:
    """Where features are kept."""
    return FLAGS.cached_dir or FLAGS.output_dir
