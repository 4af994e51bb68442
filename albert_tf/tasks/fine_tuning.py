"""The driver of fine-tuning: from a config to a model that is trained, scored and exported.

What differs between tasks stands in two places: a config that derives from FineTuningConfig, whose options are also the
flags of the task's command, and a class that derives from FineTuning::

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class ReviewsConfig(FineTuningConfig):
        train_file: str | None = fields.string(None, "Path of the examples to train on.")

    Reviews(ReviewsConfig(train_file="train.tsv", output_dir="out", do_train=True)).run()  # derives from FineTuning
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import gc
import io
import itertools
import os
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig, check_length
from albert_tf.data.batching import bucket_lengths, table_batches, training_rows
from albert_tf.data.feature_table import FeatureCache, FeatureTable
from albert_tf.export.saved_model import with_precision
from albert_tf.tasks.config import FineTuningConfig
from albert_tf.text.tokenization import warn_of_unknown_pieces
from albert_tf.training.checkpoints import Checkpoints, copy_as_best, numbered, run_directory, saved_runs
from albert_tf.training.config import Schedule
from albert_tf.training.distillation import DistilledObjective, teacher_outputs, with_teacher_outputs
from albert_tf.training.evaluation import (
    Evaluate,
    Evaluator,
    Predictions,
    Predictor,
    checkpoint_of,
    shown,
    write_plot,
    write_results,
    write_summary,
)
from albert_tf.training.objective import Objective
from albert_tf.training.run import new_trainer, set_up, train, training_in
from albert_tf.training.strategy import chief_first, is_chief, wait_for_all
from albert_tf.training.trainer import parts_of
from albert_tf.utils.files import check_directory, check_no_wildcard, is_inside, make_directory
from albert_tf.utils.imports import check_installed
from albert_tf.utils.outputs import check_export, output_folder
from albert_tf.weights.from_pretrained import load_into
from albert_tf.weights.model_card import write_run_card
from albert_tf.weights.resolved_model import ResolvedModel, resolve
from albert_tf.weights.settings import (
    SETTINGS,
    VocabularyFiles,
    label_difference,
    settings_in,
    settings_of,
    write_settings,
)
from albert_tf.weights.teacher import Teacher

# A table of features (None if it would be empty), and a function that writes its predictions; its other argument is the
# step of the checkpoint that predicts.
ToPredict = tuple[FeatureTable | None, Callable[[Predictions, int], None]]

_CHECKED_TEXTS = 2000  # at the start of the training set


@dataclasses.dataclass
class _LoadedModel:
    """A model that predicts."""

    task: Objective
    path: str | None  # of its weights; None while they are loaded
    predictors: dict[int, Predictor] = dataclasses.field(default_factory=dict)


class FineTuning(abc.ABC):
    """The fine-tuning of a task by a command: trains one or several seeds, evaluates, predicts, exports.

    A command's class has what differs: the model and its loss, the tables of features, the scores, the answers.

    Args:
      options: what is to be done.
      command_line: how it was started, for the model cards.
      strategy: the distribution strategy; None to set up TensorFlow as the options say.

    Attributes:
      heads: the names of the heads that the task's models may have.
      model: what was found of the model: its config, vocabulary and stored settings.
      max_seq_length: the largest number of tokens of a row.
      name: the name of the task, which its runs store; None for a command with one task.
      best_metric: the result that decides which checkpoint is the best; higher is better.
      unit: what an example is, for messages.
      shortest_row: the smallest number of tokens to which a batch may be padded.
      data_files: names of the files of "train" and "dev" that are used, for the model cards.
      reading: the settings of how the task reads texts by name, such as doc_stride.
    """

    options: FineTuningConfig
    heads: Collection[str] = ()
    name: str | None = None
    best_metric: str
    unit, shortest_row = "text", 1
    data_files: Mapping[str, str] = {}
    reading: Mapping[str, Any] = {}
    teacher: Teacher | None = None

    def __init__(self, options: FineTuningConfig, command_line: str = "",
                 strategy: tf.distribute.Strategy | None = None):
        self.options, self.command_line = options, command_line
        _check_outputs(options)
        self.model = resolve(options.source, self.heads, options.output_dir, options.do_train,
                                   options.ensemble_checkpoints, options.num_layers)
        self.strategy = strategy or set_up(options.devices, options.training.random_seed, options.batch_sizes,
                                           options.training.gradient_accumulation_steps)
        self._loaded: dict[AlbertConfig, _LoadedModel] = {}  # the models that predict; equal configs share one graph
        self.config: AlbertConfig = self.model.config
        self.max_seq_length = self._max_seq_length()
        self.tokenizer = self.model.vocabulary.tokenizer(self.config)
        self.cache = FeatureCache(self.tokenizer, options.cache)

    @property
    def buckets(self) -> tuple[int, ...]:
        """The lengths to which batches are padded."""
        lengths = bucket_lengths(self.max_seq_length, self.options.pad_to_max_length)
        return tuple(length for length in lengths if length >= self.shortest_row)

    @abc.abstractmethod
    def new_task(self, config: AlbertConfig) -> Objective:
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
        """What the model learns of the teacher's answers (training/distillation.py): here the answers themselves."""
        return answers

    @property
    def is_evaluated(self) -> bool:
        """Whether checkpoints are evaluated."""
        return self.options.do_eval

    @abc.abstractmethod
    def evaluation(self) -> Evaluate:
        """Reads the dev set. Returns the function that evaluates a checkpoint (see Evaluate)."""

    @abc.abstractmethod
    def predictions(self) -> Iterable[ToPredict]:
        """Reads what --do_predict predicts."""

    def after_training(self) -> None:  # noqa: B027 (most commands do nothing)
        """Does what else the command does with the trained model before it predicts."""

    def interact(self) -> None:  # noqa: B027 (most commands do nothing)
        """Does what else the command does with the model, before it is exported."""

    def export(self, directory: str, model: keras.Model) -> None:
        """Writes a SavedModel. This one takes ids; those of the commands also take texts."""
        with output_folder(directory) as temporary, contextlib.redirect_stdout(io.StringIO()):
            model.export(temporary)  # Keras prints the endpoints

    def run(self) -> None:
        """Does what the flags request: trains, evaluates, predicts, exports."""
        options = self.options
        _check_task(options, self.name)
        check_length(self.buckets[-1], self.config)
        make_directory(options.output_dir)
        with training_in(dict.fromkeys([options.output_dir, *self.runs.values()]), self.strategy, options.do_train):
            self._do()

    def _do(self) -> None:
        options = self.options
        with chief_first(self.strategy):
            evaluate = self.evaluation() if self.is_evaluated else None
            to_predict = list(self.predictions()) if options.do_predict else []
        if options.do_train:
            self._train(evaluate)
        elif evaluate is not None:
            self.evaluate_runs(evaluate)
        self.after_training()
        for table, write in to_predict:
            predictions = self.predict(table) if table else [{}]
            if is_chief(self.strategy):
                write(predictions, self.predicting_step())
        self.interact()
        if options.export_dir:
            model = self.best_model()
            if is_chief(self.strategy):
                self.export(options.export_dir, with_precision(model, options.export_precision))
                logging.info("exported to %s", options.export_dir)

    def _train(self, evaluate: Evaluate | None) -> None:
        options = self.options
        self._check_alpha()
        if self.options.early_stopping_patience and evaluate is None:
            raise ValueError("--early_stopping_patience needs evaluations: set --do_eval")
        self._check_texts()
        with chief_first(self.strategy):
            table = self.training_table()
        schedule = options.training.schedule(self.num_examples(table), self.unit, options.release_steps,
                                             options.LARGEST_INTERVAL)
        if self.teacher and self.teacher.alpha:
            table = self._with_teacher_outputs(table, self.teacher)
        self.train_runs(table, schedule, evaluate)

    def _check_texts(self) -> None:
        """Warns of texts that the vocabulary does not have, and of a dev set that is the training set."""
        train = list(itertools.islice(self.texts("train"), _CHECKED_TEXTS))
        warn_of_unknown_pieces(self.tokenizer, train, self.data_files.get("train", ""))
        dev = list(itertools.islice(self.texts("dev"), _CHECKED_TEXTS // 20)) if self.is_evaluated else []
        if dev and set(dev) <= set(train):
            logging.warning("the texts of the dev set are also in the training set: their scores do not tell how good "
                            "the model is for other texts")

    def _with_teacher_outputs(self, table: FeatureTable, teacher: Teacher) -> FeatureTable:
        """The training examples with the teacher's answers."""
        with chief_first(self.strategy):
            teacher_table = self.teacher_table(table)
        with self.strategy.scope():
            model = teacher.model()
        training = self.options.training
        answered = teacher_outputs(model, teacher.outputs, teacher_table, self.options.cache, self.strategy,
                           training.train_batch_size // training.gradient_accumulation_steps,
                           parts_of(self.options.devices))
        return with_teacher_outputs(table, self.targets(answered), teacher.outputs)

    def before_run(self, directory: str, model: keras.Model) -> None:
        """Writes vocabulary and settings of a run. The chief calls it before the first step, if there are any."""
        settings = settings_of(model).replaced(max_seq_length=self.buckets[-1], task=self.name,
                                               lora_alpha=self.options.training.alpha, **self.reading)
        write_settings(settings, model.config, directory, VocabularyFiles.from_tokenizer(self.tokenizer))

    def after_run(self, directory: str, seed: int, schedule: Schedule, model: keras.Model, scores: dict[str, float],
                  trained: bool) -> None:
        """Writes the model card of a run. The chief calls it; `trained`: whether steps were taken."""
        write_run_card(model, directory, schedule, dataclasses.replace(self.options.training, random_seed=seed),
                       self.command_line, self.init_path, dict.fromkeys(self.data_files.values(), {}), scores,
                       self.data_files.get("dev", ""), self.options.recipe, trained)

    def train_runs(self, table: FeatureTable, schedule: Schedule, evaluate: Evaluate | None = None) -> None:
        """Trains every run to its end, continuing from its latest checkpoint."""
        if not self.init_path and not any(map(numbered, self.runs.values())):
            logging.info("no --init_checkpoint: training starts from random weights")
        for seed, directory in self.runs.items():
            self._train_run(seed, directory, table, schedule, evaluate)
            gc.collect()  # a trainer and its slots are in reference cycles; the next run needs their memory
        if evaluate is not None:
            self._summarise(self.runs.values())
        wait_for_all(self.strategy)  # all workers may next predict with a checkpoint that the chief has saved

    def _train_run(self, seed: int, directory: str, table: FeatureTable, schedule: Schedule,
                   evaluate: Evaluate | None) -> None:
        trainer, checkpoints, evaluator = self._start(
            seed, directory, schedule, evaluate, None if numbered(directory) else self.init_path)

        def batches_from(first_step):
            rows = training_rows(table, self.options.training.train_batch_size, schedule.num_train_steps, seed,
                                 self.options.group_by_length)[first_step:]
            # With several workers, only an endless data set keeps its static batch size.
            return lambda context: table_batches(table, rows, self.buckets, context).repeat()

        trained = train(trainer, checkpoints, batches_from, self.options.training, schedule, self.strategy, evaluator,
                        functools.partial(self.before_run, directory, trainer.model))
        self._finish(directory, evaluator)
        if is_chief(self.strategy):
            self.after_run(directory, seed, schedule, trainer.model, (evaluator and evaluator.best) or {}, trained)

    def evaluate_runs(self, evaluate: Evaluate) -> None:
        """Evaluates checkpoints without training.

        These are --ensemble_checkpoints if set; or else all checkpoints of each run in output_dir, with any seed; or
        else --init_checkpoint.
        """
        runs = saved_runs(self.options.output_dir)
        if self.options.ensemble_checkpoints or not runs:
            self._report(evaluate(lambda table: self._predictions(table, self.options.eval_batch_size)))
            return
        for directory in runs:
            self._evaluate_run(directory, evaluate)
        self._summarise(runs)
        wait_for_all(self.strategy)

    def _evaluate_run(self, directory: str, evaluate: Evaluate) -> None:
        """Evaluates the checkpoints of a run. The best one is copied to model.ckpt-best with all of its variables."""
        loaded = ""  # the checkpoint that is evaluated

        def load(prefix: str, step: int) -> None:
            nonlocal loaded
            self._load(prefix)
            loaded = prefix

        chief = is_chief(self.strategy)
        evaluator = Evaluator(
            directory, lambda: evaluate(lambda table: [self._prediction(loaded, table, self.options.eval_batch_size)]),
            self.best_metric, lambda: copy_as_best(loaded) if chief else None, chief)
        evaluator.evaluate_saved(load)
        self._finish(directory, evaluator)

    def predict(self, table: FeatureTable) -> Predictions:
        """The predictions of each of --ensemble_checkpoints, or of `checkpoint()` if these are not set."""
        return self._predictions(table, self.options.predict_batch_size)

    def best_model(self) -> keras.Model:
        """The model with the weights of `checkpoint()`."""
        return self._load(self.checkpoint()).task.model

    def checkpoint(self) -> str:
        """The checkpoint that predicts if there is no ensemble.

        This is that of the best run in output_dir, with any seed, or --init_checkpoint if there is none.
        """
        path = checkpoint_of(self.options.output_dir) or self.init_path
        if not path:
            raise ValueError(f"there is no checkpoint in {self.options.output_dir}, and --init_checkpoint is not "
                             "set: train with --do_train first, or set --init_checkpoint")
        return path

    def forget_models(self) -> None:
        """Makes models that predict anew when they are next needed, since `new_task` makes other ones now."""
        self._loaded.clear()

    def predicting_step(self) -> int:
        """The step of the checkpoint that predicts (of several, the largest); 0 if no run of this package saved it."""
        return max(self.model.open(path).step for path in self._predicting_paths())

    @property
    def init_path(self) -> str | None:
        """The path of the initial weights; None for random weights."""
        return self.options.source.init_path

    @property
    def runs(self) -> dict[int, str]:
        """The directory in which each seed is trained: output_dir itself if there is only one seed."""
        parent, seeds = self.options.output_dir, self.options.seeds
        return {seed: run_directory(parent, seed) if len(seeds) > 1 else parent for seed in seeds}

    def _max_seq_length(self) -> int:
        """The largest number of tokens of a row: that of the run, or the requested one, or the default."""
        requested, longest = self.options.max_seq_length, self.options.LONGEST
        if requested is not None:
            return self.model.effective_value("max_seq_length", requested) or requested
        if self.model.settings.max_seq_length:
            return self.model.settings.max_seq_length
        return min(longest, self.model.config.max_position_embeddings)

    def _check_alpha(self) -> None:
        """Raises ValueError if the run that is continued has adapters with another alpha, or adapters or none."""
        run, alpha = self.model.run, self.options.training.alpha
        stored = settings_in(os.path.dirname(run.path)).lora_alpha if run else alpha
        if stored != alpha:
            there, here = ("no adapters" if value is None else f"adapters with lora_alpha {value:g}"
                           for value in (stored, alpha))
            raise ValueError(f"the run in --output_dir={self.options.output_dir} has {there}, and these flags mean "
                             f"{here}: continue it with its own flags, or choose another --output_dir")

    def _start(self, seed: int, directory: str, schedule: Schedule, evaluate: Evaluate | None, path: str | None):
        """Trainer, checkpoints and evaluator of a run, with the weights of a path (random ones for None)."""
        make_directory(directory)
        keras.utils.set_random_seed(seed)
        task, _ = self._task_with_weights(path, self.config)
        training = dataclasses.replace(self.options.training, random_seed=seed)
        trainer = new_trainer(task, self.strategy, training, self.options.devices, schedule, shapes_vary=True)
        chief = is_chief(self.strategy)
        checkpoints = Checkpoints(directory, trainer, self.config, training.keep_checkpoint_max, chief)
        if evaluate is None:
            return trainer, checkpoints, None
        predictor = self._predictor(task, self.options.eval_batch_size)
        evaluator = Evaluator(directory, lambda: evaluate(lambda table: [predictor(table)]), self.best_metric,
                              checkpoints.save_best, chief, self.options.early_stopping_patience)
        return trainer, checkpoints, evaluator

    def _task(self, config: AlbertConfig) -> Objective:
        """The model with random weights, and its loss, which has the teacher's part."""
        task: Any = self.new_task(config)
        return DistilledObjective(task, self.teacher.temperature, self.teacher.alpha) if self.teacher else task

    def _task_with_weights(self, path: str | None, config: AlbertConfig):
        with self.strategy.scope():
            return self.model.build(functools.partial(self._task, config), path)

    def _finish(self, directory: str, evaluator: Evaluator | None) -> None:
        if evaluator is not None and evaluator.best:
            evaluator.write_best()
            if is_chief(self.strategy):
                write_plot(directory, self.best_metric)

    def _summarise(self, runs: Iterable[str]) -> None:
        if is_chief(self.strategy):
            write_summary(self.options.output_dir, runs, self.best_metric)

    def _report(self, results: dict[str, float]) -> None:
        results = dict(results, global_step=self.predicting_step())
        logging.info("%s", shown(results))
        if is_chief(self.strategy):
            write_results(self.options.output_dir, results)

    def _predictions(self, table: FeatureTable, batch_size: int) -> Predictions:
        return [self._prediction(path, table, batch_size) for path in self._predicting_paths()]

    def _prediction(self, path: str, table: FeatureTable, batch_size: int):
        """The predictions of the weights at a path, as an element of Predictions."""
        loaded = self._load(path)
        if batch_size not in loaded.predictors:  # a second one would trace the same graph again
            loaded.predictors[batch_size] = self._predictor(loaded.task, batch_size)
        return loaded.predictors[batch_size](table)

    def _predicting_paths(self) -> tuple[str, ...]:
        return self.options.ensemble_checkpoints or (self.checkpoint(),)

    def _load(self, path: str) -> _LoadedModel:
        """A model with the weights and the config of a path."""
        for other in self._loaded.values():
            if other.path == path:
                return other
        # That of initial weights is the user's.
        is_initial = path == self.init_path and path not in self.options.ensemble_checkpoints
        config = (None if is_initial else self.model.open(path).optional_config) or self.config
        key = config.without_training()
        loaded = self._loaded.get(key)
        if loaded is None:
            task, report = self._task_with_weights(path, config)
            _check_fine_tuned(report, path)
            loaded = self._loaded[key] = _LoadedModel(task, path)
        else:
            loaded.path = None  # until the weights are complete
            _check_fine_tuned(load_into(loaded.task.model, self.model.open(path)), path)
            loaded.path = path
        return loaded

    def _predictor(self, task, batch_size: int) -> Predictor:
        return Predictor(task.model, task.predictions, self.strategy, batch_size, self.buckets,
                         self.options.devices.jit_compile, parts_of(self.options.devices))


def _check_fine_tuned(report, path: str) -> None:
    """Raises ValueError if the weights of the task's head were not restored."""
    missing = [name for name in report.not_restored if not name.startswith("bert/")]
    if missing:
        raise ValueError(f"{path} was not fine-tuned for this task: it has no {', '.join(missing)} "
                         f"({report.not_restored[missing[0]]})")


def report_predicted(output_dir: str, scores: dict[str, float], step: int) -> None:
    """Logs the scores of what was predicted, and writes them to predict_results.txt and .json."""
    logging.info("%s", shown(scores))
    write_results(output_dir, dict(scores, global_step=step), "predict_results")


def _check_task(options: FineTuningConfig, name: str | None) -> None:
    """Raises ValueError if a run that is to be continued was trained on another task, which may have equal labels."""
    for path in saved_runs(options.output_dir) if options.do_train else []:
        stored = settings_in(path).task
        if name and stored not in (None, name):
            raise ValueError(f"{path}: the run was trained on the task {stored}, and not on {name}: choose another "
                             "--output_dir")


def _check_outputs(options: FineTuningConfig) -> None:
    """Raises ValueError if output_dir or export_dir cannot be written."""
    check_no_wildcard(options.output_dir)
    check_directory(options.output_dir)
    check_export(options.export_dir)
    if options.export_dir:
        check_installed("--export_dir", "tensorflow_text")
        if is_inside(options.output_dir, options.export_dir):
            raise ValueError(f"--output_dir={options.output_dir} must not be --export_dir or a folder in it, since an "
                             "export has a folder of its own: choose another --export_dir")


def check_labels(options: FineTuningConfig, model: ResolvedModel, names: Sequence[str] | None) -> None:
    """Checks the labels of the runs in --output_dir and, if other weights predict, warns of other labels.

    Args:
      names: the labels of the task; None for a regression.
    """
    saved = saved_runs(options.output_dir)
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
