"""The driver of the commands that fine-tune: from their options to a model that is trained, scored and exported.

What differs between these commands stands in their modules: flags of their own, the fields of a class that derives from
Options, and a class that derives from CommandTask::

    @dataclasses.dataclass(frozen=True)
    class Options(finetuning.Options):
        train_file: str | None = fields.string(None, "Path of the examples to train on.")

    def define_flags():
        finetuning_flags.define_flags(Options, max_seq_length=128)

    def options_from_flags():
        return finetuning_flags.options_from_flags(Options, finetuning_flags.set_defaults("classifier"))

    def main():
        finetuning.fine_tune(options_from_flags(), Reviews)  # Reviews is the CommandTask
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import io
import itertools
import os
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.commands import shared_flags as shared, training_flags, usage
from albert_tf.commands.distillation import Teacher
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureCache, FeatureTable
from albert_tf.export.precision import with_precision
from albert_tf.text.tokenization import warn_of_unknown_pieces
from albert_tf.training.checkpoints import saved_runs
from albert_tf.training.distillation import DistilledTask
from albert_tf.training.evaluation import shown, write_results
from albert_tf.training.finetuning import Evaluate, FineTuning, FineTuningOptions, Predictions
from albert_tf.training.run import training_in
from albert_tf.training.strategy import chief_first, is_chief
from albert_tf.training.task import PredictingTask
from albert_tf.training.teacher_answers import answers, with_answers
from albert_tf.utils.files import make_directory
from albert_tf.utils.outputs import output_folder
from albert_tf.weights.model_card import write_run_card
from albert_tf.weights.resolved_model import ResolvedModel
from albert_tf.weights.settings import SETTINGS, label_difference, settings_in, settings_of, write_settings
from albert_tf.weights.vocabulary_files import VocabularyFiles

# A table of features (None if it would be empty), and a function that writes its predictions; its other argument is the
# step of the checkpoint that predicts.
ToPredict = tuple[FeatureTable | None, Callable[[Predictions, int], None]]

_CHECKED_TEXTS = 2000  # at the start of the training set


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags with the same names; `model` and `finetuning` are made from several flags.

    LARGEST_INTERVAL is the command's default of --save_checkpoints_steps for a long run.

    Raises:
      ValueError: a requested action reads a file or folder whose flag is not set.
    """

    LARGEST_INTERVAL = 1000  # no field

    model: ResolvedModel
    finetuning: FineTuningOptions
    output_dir: str
    cached_dir: str
    max_seq_length: int
    do_train: bool
    do_eval: bool
    do_predict: bool
    export_dir: str | None
    export_precision: str | None

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


AnyOptions = TypeVar("AnyOptions", bound=Options)


class CommandTask(abc.ABC):
    """What differs between the commands that fine-tune. It is made after TensorFlow has been set up.

    Args:
      options: the command's options.

    Attributes:
      name: the name of the task, which its runs store; None for a command with one task.
      config: the config of the model to train.
      tokenizer, cache: for the tables of features.
      best_metric: the result that decides which checkpoint is the best; higher is better.
      unit: what an example is, for messages.
      data_files: names of the files of training and evaluation data, for the model cards.
      reading: the settings of how the task reads texts (see Settings) by name, such as doc_stride.
      teacher: the model that the model learns from; None without one.
    """

    name: str | None = None
    best_metric: str
    unit = "text"
    data_files: Collection[str] = ()
    reading: Mapping[str, Any] = {}
    teacher: Teacher | None = None

    def __init__(self, options: Options):
        self.options = options
        self.config: AlbertConfig = options.model.config
        self.tokenizer = options.model.vocabulary.tokenizer(self.config)
        self.cache = FeatureCache(self.tokenizer, options.cached_dir)

    @abc.abstractmethod
    def new_task(self, config: AlbertConfig) -> PredictingTask:
        """The model with random weights, and its loss."""

    @abc.abstractmethod
    def training_table(self) -> FeatureTable:
        """The features to train on."""

    def texts(self, split: str) -> Iterable[str]:
        """The texts of "train" or "dev", of which the first are compared and looked up in the vocabulary."""
        return ()

    def num_examples(self, table: FeatureTable) -> int:
        """The number of examples of an epoch: here one for each row of the training table."""
        return len(table)

    def teacher_table(self, table: FeatureTable) -> FeatureTable:
        """The examples of the training table, in the same order, as the teacher reads them.

        This one is the training table itself, for a teacher with the same vocabulary.
        """
        return table

    def targets(self, answers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the model learns of the teacher's answers (see teacher_answers.py): here the answers themselves."""
        return answers

    @property
    def is_evaluated(self) -> bool:
        """Whether checkpoints are evaluated."""
        return self.options.do_eval

    @abc.abstractmethod
    def evaluation(self) -> Evaluate:
        """Reads the dev set. Returns the function that evaluates a checkpoint (see training/finetuning.py)."""

    @abc.abstractmethod
    def predictions(self) -> Iterable[ToPredict]:
        """Reads what --do_predict predicts."""

    def prepare(self, runs: FineTuning) -> None:  # noqa: B027 (most commands do nothing)
        """Does what else the command does with the trained model before it predicts."""

    def use(self, runs: FineTuning) -> None:  # noqa: B027 (most commands do nothing)
        """Does what else the command does with the model, before it is exported."""

    def export(self, directory: str, model: keras.Model) -> None:
        """Writes a SavedModel. This one takes ids; those of the commands also take texts."""
        with output_folder(directory) as temporary, contextlib.redirect_stdout(io.StringIO()):
            model.export(temporary)  # Keras prints the endpoints


def fine_tune(options: AnyOptions, new_command_task: Callable[[AnyOptions], CommandTask]) -> None:
    """Does what the flags request: trains, evaluates, predicts, exports.

    Raises:
      ValueError: --max_seq_length is larger than max_position_embeddings, another training uses --output_dir or the
        folder of a run in it, or what the task and FineTuning raise.
    """
    strategy = training_flags.set_up()
    task = new_command_task(options)
    _check_task(options, task.name)
    shared.check_length(options.finetuning.buckets[-1], task.config)
    make_directory(options.output_dir)
    new_task = _distilled(task.new_task, task.teacher) if task.teacher else task.new_task
    runs = FineTuning(options.finetuning, strategy, task.config, new_task, options.model.reader(), task.best_metric)
    directories = dict.fromkeys([options.output_dir, *runs.runs.values()])
    with training_in(directories, strategy, options.do_train):
        _do(runs, options, task)


def _do(runs: FineTuning, options: Options, task: CommandTask) -> None:
    """Trains, evaluates, predicts, exports."""
    strategy = runs.strategy
    with chief_first(strategy):
        evaluate = task.evaluation() if task.is_evaluated else None
        to_predict = list(task.predictions()) if options.do_predict else []
    if options.do_train:
        _train(runs, options, task, evaluate)
    elif evaluate is not None:
        runs.evaluate(evaluate)
    task.prepare(runs)
    for table, write in to_predict:
        predictions = runs.predict(table) if table else [{}]
        if is_chief(strategy):
            write(predictions, runs.serving_step())
    task.use(runs)
    if options.export_dir:
        model = runs.best_model()
        if is_chief(strategy):
            task.export(options.export_dir, with_precision(model, options.export_precision))
            logging.info("exported to %s", options.export_dir)


def _train(runs: FineTuning, options: Options, task: CommandTask, evaluate: Evaluate | None) -> None:
    """Trains, and writes vocabulary, settings and model card of each run."""
    def write_inputs(directory: str, model: keras.Model) -> None:
        settings = settings_of(model).replaced(max_seq_length=options.finetuning.buckets[-1], task=task.name,
                                               lora_alpha=_lora_alpha(options), **task.reading)
        write_settings(settings, model.config, directory, VocabularyFiles.from_tokenizer(task.tokenizer))

    def write_card(directory: str, seed: int, model: keras.Model, scores: dict[str, float], trained: bool) -> None:
        tuning = options.finetuning
        write_run_card(model, dataclasses.replace(tuning.run, output_dir=directory), schedule,
                       dataclasses.replace(tuning.trainer, random_seed=seed), usage.command_line(),
                       tuning.init_checkpoint, dict.fromkeys(task.data_files, {}), scores, tuning.recipe, trained)

    _check_alpha(options)
    if options.finetuning.early_stopping_patience and evaluate is None:
        raise ValueError("--early_stopping_patience needs evaluations: set --do_eval")
    _check_texts(task)
    with chief_first(runs.strategy):
        table = task.training_table()
    schedule = options.finetuning.length.schedule(task.num_examples(table), task.unit,
                                                  options.finetuning.run.train_batch_size)
    if task.teacher and task.teacher.alpha:
        table = _with_answers(table, options, task, runs.strategy)
    runs.train(table, schedule, evaluate, write_inputs, write_card)


def _check_texts(task: CommandTask) -> None:
    """Warns of texts that the vocabulary does not have, and of a dev set that is the training set."""
    train = list(itertools.islice(task.texts("train"), _CHECKED_TEXTS))
    warn_of_unknown_pieces(task.tokenizer, train, " and ".join(list(task.data_files)[:1]))
    dev = list(itertools.islice(task.texts("dev"), _CHECKED_TEXTS // 20)) if task.is_evaluated else []
    if dev and set(dev) <= set(train):
        logging.warning("the texts of the dev set are also in the training set: their scores do not tell how good the "
                        "model is for other texts")


def _lora_alpha(options: Options) -> float | None:
    """The alpha of the adapters that are trained; None without adapters."""
    lora = options.finetuning.trainer.lora
    return None if lora is None else lora.scale * lora.rank


def _check_alpha(options: Options) -> None:
    """Raises ValueError if the run that is continued has adapters with another alpha, or adapters or none."""
    run, alpha = options.model.run, _lora_alpha(options)
    stored = settings_in(os.path.dirname(run.path)).lora_alpha if run else alpha
    if stored != alpha:
        there, here = ("no adapters" if value is None else f"adapters with lora_alpha {value:g}"
                       for value in (stored, alpha))
        raise ValueError(f"the run in --output_dir={options.output_dir} has {there}, and these flags mean {here}: "
                         "continue it with its own flags, or choose another --output_dir")


def _distilled(new_task: Callable[[AlbertConfig], Any], teacher: Teacher) -> Callable[[AlbertConfig], DistilledTask]:
    return lambda config: DistilledTask(new_task(config), teacher.temperature, teacher.alpha)


def _with_answers(
    table: FeatureTable, options: Options, task: CommandTask, strategy: tf.distribute.Strategy
) -> FeatureTable:
    """The training examples with the teacher's answers."""
    teacher, tuning = task.teacher, options.finetuning
    assert teacher is not None
    with chief_first(strategy):
        teacher_table = task.teacher_table(table)
    with strategy.scope():
        model = teacher.model()
    answered = answers(model, teacher.outputs, teacher_table, options.cached_dir, strategy,
                       tuning.run.train_batch_size // tuning.trainer.gradient_accumulation_steps, tuning.trainer.parts)
    return with_answers(table, task.targets(answered), teacher.outputs)


def report_predicted(options: Options, scores: dict[str, float], step: int) -> None:
    """Logs the scores of what was predicted, and writes them to predict_results.txt and .json."""
    logging.info("%s", shown(scores))
    write_results(options.output_dir, dict(scores, global_step=step), "predict_results")


def _check_task(options: Options, name: str | None) -> None:
    """Checks that training continues runs in --output_dir with the task that they were trained on.

    Another task may have the same labels.

    Raises:
      ValueError: a run was trained on another task.
    """
    for path in saved_runs(options.output_dir) if options.do_train else []:
        stored = settings_in(path).task
        if name and stored not in (None, name):
            raise ValueError(f"{path}: the run was trained on the task {stored}, and not on {name}: choose another "
                             "--output_dir")


def check_labels(options: Options, names: Sequence[str] | None) -> None:
    """Checks the labels of the runs in --output_dir and, if other weights predict, warns of other labels.

    Args:
      options: the command's options.
      names: the labels of the task; None for a regression.

    Raises:
      ValueError: a run has other labels, or other weights that predict have the same labels in another order.
    """
    model, saved = options.model, saved_runs(options.output_dir)
    for path in saved:
        difference = label_difference(path, settings_in(path).label_names, names, f" ({SETTINGS})")
        if difference:
            raise ValueError(difference)
    number = model.run.num_labels() if model.run else None
    if number and number != (len(names) if names else 1):
        raise ValueError(f"{options.output_dir} has a run with {number} outputs, but the task has "
                         f"{len(names) if names else 1}: choose another --output_dir")
    initial = [] if options.do_train or saved or not model.initial else [model.initial]
    for source in (*model.members, *initial):
        difference = label_difference(source.path, source.settings.label_names, names)
        if difference and sorted(source.settings.label_names or ()) == sorted(names or ()):
            raise ValueError(difference)
        if difference:
            logging.warning("%s", difference)
