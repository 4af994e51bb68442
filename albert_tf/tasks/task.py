"""Task: the methods of a command that fine-tunes, and their arguments. tasks/fine_tuning.py calls them."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import io
import os
from typing import Any, Callable, ClassVar, Collection, Iterable, Mapping, Self, Sequence, cast

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.batching import (
    EvaluationData,
    bucket_lengths,
    lengths_of_run,
    padded_lengths,
    table_batches,
    table_to_evaluate,
    training_rows,
)
from albert_tf.data.feature_table import FeatureCache, FeatureTable
from albert_tf.modeling.settings import LabelSettings, Settings
from albert_tf.tasks.config import FineTuningConfig, Scoring
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training import loop
from albert_tf.training.config import Schedule
from albert_tf.training.distillation import DistilledObjective, teacher_outputs, with_teacher_outputs
from albert_tf.training.objective import Objective
from albert_tf.training.prediction import Predictions, Predictor
from albert_tf.training.strategy import chief_first
from albert_tf.training.teacher import StoredTeacher, Teacher
from albert_tf.training.trainer import parts_of
from albert_tf.utils.manifests import output_folder
from albert_tf.weights.choice import ChosenModel
from albert_tf.weights.from_pretrained import RestoreReport, build, load_into
from albert_tf.weights.runs import checkpoint_of, saved_runs
from albert_tf.weights.settings import SETTINGS, label_difference, settings_in
from albert_tf.weights.vocabulary import VocabularyFiles


@dataclasses.dataclass(frozen=True)
class Setup:
    """The arguments of a task."""

    model: ChosenModel  # the config, vocabulary and stored settings that the options select
    strategy: tf.distribute.Strategy
    tokenizer: FullTokenizer  # the model's
    max_seq_length: int  # the largest number of tokens of a row
    cache: FeatureCache  # makes the tables of features


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The weights that predict."""

    step: int  # at which they were saved (of an ensemble, the largest); 0 if no run of this package saved them
    run: str | None  # the directory of their run in output_dir; None for an ensemble and for initial weights
    settings: Settings  # that are stored with them; empty for an ensemble


# A table of features (None if it would be empty), and a function that writes its predictions.
TableToPredict = tuple[FeatureTable | None, Callable[[Predictions, "TrainedModels"], None]]
# The outputs of a teacher for the table that a function makes.
TeacherPredict = Callable[[Callable[[], FeatureTable]], dict[str, np.ndarray]]


class Task(loop.Task):
    """A command that fine-tunes: its data, objective, scores and answers. A subclass may set the attributes."""

    options: FineTuningConfig
    HEADS: ClassVar[Collection[str]]  # the names of the heads that the models may have
    name: str | None = None  # of the task, which its runs store; None for a command with one task
    unit = "text"  # what an example is, for messages
    shortest_row = 1  # the smallest number of tokens to which a batch may be padded
    num_examples: int | None = None  # of an epoch; None for the number of rows of the training table
    data_files: Mapping[str, str] = {}  # names of the files of "train" and "dev" that are used, for the model cards
    reading: Mapping[str, Any] = {}  # the settings of how the task reads texts by name, such as doc_stride
    teacher: Teacher | StoredTeacher | None = None

    @classmethod
    def of_dev_file(cls, model: keras.Model, options: Scoring, setup: Setup) -> Self:
        """The task with options.score_data as its dev set, to score exports of a model. It writes only to the cache."""
        raise NotImplementedError

    def __init__(self, options: FineTuningConfig, setup: Setup):
        super().__init__(setup.model, setup.strategy, options.training, options.devices)
        self.options, self.setup, self.recipe = options, setup, options.recipe

    @abc.abstractmethod
    def training_table(self) -> FeatureTable:
        """The features to train on."""

    @abc.abstractmethod
    def dev_tables(self) -> list[FeatureTable | None]:
        """The features of the dev sets (None if they would be empty); no tables if a dev set has no answers."""

    @abc.abstractmethod
    def predictions(self) -> Iterable[TableToPredict]:
        """Reads what the options ask to predict."""

    def texts(self, split: str) -> Iterable[str]:
        """The texts of "train" or "dev". The first ones are compared, and looked up in the vocabulary."""
        return ()

    def teacher_outputs(
        self, teacher: Teacher | StoredTeacher, table: FeatureTable, read: TeacherPredict
    ) -> dict[str, np.ndarray]:
        """The teacher's outputs for the rows of the training table, which must have its vocabulary.

        A subclass may `read` another table, which a function makes. A StoredTeacher needs no `read`.
        """
        return read(lambda: table)

    def after_training(self, trained: TrainedModels) -> None:  # noqa: B027 (most tasks do nothing)
        """Further actions with the trained model, before it predicts."""

    def export(self, directory: str, model: keras.Model, checkpoint: Checkpoint) -> None:
        """Writes a SavedModel that takes ids. Tasks of commands override this, so that it also takes texts."""
        with output_folder(directory) as temporary, contextlib.redirect_stdout(io.StringIO()):
            model.export(temporary)  # Keras prints the endpoints

    @property
    def buckets(self) -> tuple[int, ...]:
        """The lengths to which batches are padded."""
        lengths = bucket_lengths(self.setup.max_seq_length, self.options.pad_to_max_length)
        return tuple(length for length in lengths if length >= self.shortest_row)

    @property
    def vocabulary(self) -> VocabularyFiles:  # type: ignore[override]
        """The tokenizer's."""
        return VocabularyFiles.from_tokenizer(self.setup.tokenizer)

    @property
    def datasets(self) -> Mapping[str, dict]:  # type: ignore[override]
        """The names of the data files."""
        return dict.fromkeys(self.data_files.values(), {})

    @property
    def evaluated_on(self) -> str:  # type: ignore[override]
        """The name of the dev set's file."""
        return self.data_files.get("dev", "")

    def settings(self, model: keras.Model) -> Settings:
        """The model's settings, and how the task reads texts."""
        return model.settings.replaced(max_seq_length=self.buckets[-1], task=self.name, **self.reading)

    def training_objective(self) -> Objective:
        """The objective with random weights, which has the teacher's part if there is a teacher."""
        objective = self.objective(self.config)
        if self.teacher is None:
            return objective
        return DistilledObjective(objective, self.teacher.temperature, self.teacher.alpha)

    @functools.cached_property
    def training_set(self) -> tuple[FeatureTable, Schedule]:
        """The features to train on, with the teacher's outputs, and the steps."""
        options, teacher = self.options, self.teacher
        with chief_first(self.strategy):
            table = self.training_table()
        schedule = options.training.schedule(self.num_examples or len(table), self.unit, options.release_steps,
                                             options.LARGEST_INTERVAL)
        if teacher is None or not teacher.alpha:
            return table, schedule
        micro_batch = options.training.train_batch_size // options.training.gradient_accumulation_steps

        def read(make_table: Callable[[], FeatureTable]) -> dict[str, np.ndarray]:
            with self.strategy.scope():
                model = cast(Teacher, teacher).model()
            with chief_first(self.strategy):
                teacher_table = make_table()
            return teacher_outputs(model, teacher.outputs, teacher_table, options.cache, self.strategy, micro_batch,
                                   parts_of(options.devices))

        return with_teacher_outputs(table, self.teacher_outputs(teacher, table, read), teacher.outputs), schedule

    def training_data(self, seed: int) -> loop.TrainingData:
        """The batches of a run with a seed."""
        table, schedule = self.training_set
        rows = training_rows(table, self.training.train_batch_size, schedule.num_train_steps, seed,
                             self.options.group_by_length)
        lengths = lengths_of_run(table, rows, self.buckets)

        def batches_from(first_step: int) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
            # With several workers, only an endless data set keeps its static batch size.
            return lambda context: table_batches(table, rows[first_step:], lengths, context).repeat()

        return loop.TrainingData(schedule, batches_from, padded_lengths(table, rows, lengths), shapes_vary=True)

    def dev_sets(self) -> list[EvaluationData]:
        """The batches of the dev sets."""
        return [self.batches_of(table, self.options.eval_batch_size) for table in self.dev_tables()]

    def batches_of(self, table: FeatureTable | None, batch_size: int) -> EvaluationData:
        """The batches of a table to predict."""
        return table_to_evaluate(table, batch_size, self.buckets)


class TrainedModels:
    """The models that predict, with the checkpoints of runs or with initial weights."""

    def __init__(self, task: Task):
        self._task, self._options, self._model = task, task.options, task.setup.model
        self._loaded: dict[AlbertConfig, _LoadedModel] = {}  # equal configs share one graph

    def predict(self, data: EvaluationData) -> Predictions:
        """The predictions of the best checkpoint, or of each of --ensemble_checkpoints."""
        return [self.load(path).predictor(data) for path in self._paths()]

    def best_model(self) -> keras.Model:
        """The model with the weights of the best checkpoint."""
        return self.load(self.best_path()).objective.model

    def checkpoint(self) -> Checkpoint:
        """What predicts now."""
        stored = [self._model.open(path) for path in self._paths()]
        is_ensemble = bool(self._options.ensemble_checkpoints)
        run = None if is_ensemble else checkpoint_of(self._options.output_dir)
        return Checkpoint(max(each.step for each in stored), run and os.path.dirname(run),
                          Settings() if is_ensemble else stored[0].settings)

    def forget(self) -> None:
        """Forgets the loaded models, since the task now makes other ones."""
        self._loaded.clear()

    def _paths(self) -> tuple[str, ...]:
        return self._options.ensemble_checkpoints or (self.best_path(),)

    def best_path(self) -> str:
        """The checkpoint of the best run in output_dir, with any seed, or --init_checkpoint if there is none."""
        path = checkpoint_of(self._options.output_dir) or self._options.source.init_path
        if not path:
            raise ValueError(f"there is no checkpoint in {self._options.output_dir}, and --init_checkpoint is not "
                             "set: train with --do_train first, or set --init_checkpoint")
        return path

    def load(self, path: str) -> _LoadedModel:
        """A model with the weights and config of a path. Raises ValueError if they are damaged or not of the task."""
        for other in self._loaded.values():
            if other.path == path:
                return other
        # For initial weights, the user's config counts.
        is_initial = path == self._options.source.init_path and path not in self._options.ensemble_checkpoints
        stored = self._model.open(path)
        config = (None if is_initial else stored.optional_config) or self._task.config
        key = config.without_training()
        loaded = self._loaded.get(key)
        if loaded is None:
            with self._task.strategy.scope():
                objective, report = build(stored, functools.partial(self._task.objective, config))
            _check_fine_tuned(report, path)
            loaded = self._loaded[key] = _LoadedModel(objective, self._task.predictor(objective), path)
        else:
            loaded.path = None  # until the weights are complete
            _check_fine_tuned(load_into(loaded.objective.model, stored), path)
            loaded.path = path
        return loaded


@dataclasses.dataclass
class _LoadedModel:
    objective: Objective
    predictor: Predictor  # traces the model once
    path: str | None  # of its weights; None while they are loaded


def _check_fine_tuned(report: RestoreReport, path: str) -> None:
    """Raises ValueError if the weights of the task's head were not restored."""
    if missing := report.random_head:
        raise ValueError(f"{path} was not fine-tuned for this task: it has no {', '.join(missing)} "
                         f"({report.not_restored[missing[0]]})")


def check_labels(options: FineTuningConfig, model: ChosenModel, names: Sequence[str] | None) -> None:
    """Checks the labels (None for a regression) of the runs in --output_dir, and warns of those of other weights."""
    saved = saved_runs(options.output_dir)
    for path in saved:
        stored = settings_in(path).of_class(LabelSettings).label_names
        difference = label_difference(path, stored, names, f" ({SETTINGS})")
        if difference:
            raise ValueError(difference)
    number = model.run.num_labels() if model.run else None
    if number and number != (len(names) if names else 1):
        raise ValueError(f"{options.output_dir} has a run with {number} outputs, but the task has "
                         f"{len(names) if names else 1}: choose another --output_dir")
    predicting = [] if options.do_train or saved or not model.weights else [model.weights]
    for source in model.members or predicting:
        stored = source.settings.of_class(LabelSettings).label_names
        difference = label_difference(source.path, stored, names)
        if difference and sorted(stored or ()) == sorted(names or ()):
            raise ValueError(difference)
        if difference:
            logging.warning("%s", difference)


def check_num_labels(of_model: int, of_task: int, options: Scoring) -> None:
    """Raises ValueError if the task of --score_data does not have the model's number of labels."""
    if of_model != of_task:
        raise ValueError(f"the model has {of_model} labels, and the task of --score_data={options.score_data} has "
                         f"{of_task}")
