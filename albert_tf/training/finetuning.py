"""Fine-tuning: trains one or several seeds, evaluates their checkpoints, and predicts with the best one.

albert_tf/commands/finetuning.py makes the options from flags, and uses it like this::

    runs = FineTuning(options, strategy, config, new_task, weights, best_metric="f1")
    runs.train(training_table, evaluate)  # or runs.evaluate(evaluate), for checkpoints of an earlier training
    write_answers(runs.predict(table))

`new_task` is a function that builds a PredictingTask and its model from a config. `evaluate` is a function that is
called with a function like `FineTuning.predict`, with which it gets the predictions for the tables that it needs; it
returns the results as a dict of floats.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
from typing import Any, Callable, Iterable, Protocol, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.data.batching import evaluation_rows, table_batches, training_rows
from albert_tf.data.feature_table import FeatureTable
from albert_tf.training.checkpoints import Checkpoints, copy_as_best, numbered, run_directory, saved_runs
from albert_tf.training.evaluation import Evaluator, checkpoint_of, shown, write_plot, write_results, write_summary
from albert_tf.training.run import Length, RunOptions, Schedule, TrainerOptions, new_trainer, train
from albert_tf.training.strategy import distributed, is_chief, wait_for_all
from albert_tf.training.task import PredictingTask
from albert_tf.training.trainer import in_parts, on_batches
from albert_tf.utils import bounds
from albert_tf.utils.files import make_directory

# The predictions of one or several checkpoints (--ensemble_checkpoints): for each a dict by name of one value per
# example.
Predictions = list  # list[dict[str, list[np.ndarray]]]
Predict = Callable[[FeatureTable], Predictions]
Evaluate = Callable[[Predict], "dict[str, float]"]
# Called by the chief with a run's directory and model, before its first step. It is not called if there are no steps to
# take.
BeforeRun = Callable[[str, keras.Model], None]
# Called by the chief when a run is done: its directory, its seed, the model, the best results or {}, and whether steps
# were taken.
AfterRun = Callable[[str, int, keras.Model, "dict[str, float]", bool], None]


class Weights(Protocol):
    """Reads weights in any format: albert_tf.weights.from_pretrained.WeightsReader."""

    def make(self, new_task: Callable[[], PredictingTask], path: str | None) -> tuple[PredictingTask, Any]:
        """Returns a new task with the weights of a path (random ones for None), and a report of what was restored."""

    def config(self, path: str) -> AlbertConfig | None:
        """The config that is stored with the weights at a path; None if there is none."""

    def load(self, model: keras.Model, path: str) -> Any:
        """Loads the weights of a path into a model. Returns a report of what was restored."""

    def step(self, path: str) -> int:
        """The step at which a run saved the weights at a path; 0 for weights that no run of this package saved."""


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """Options of fine-tuning.

    Args:
      run: options of each run. Its output_dir is the folder of all runs.
      trainer: options of each run's trainer. Its random_seed is replaced by the seed of the run.
      length: how long each run is.
      seeds: one seed for each run. Several runs are in output_dir/seed_N.
      buckets: lengths to which batches are padded.
      group_by_length: whether the examples of a training batch have similar lengths.
      init_checkpoint: path of the initial weights; None for random weights.
      ensemble_checkpoints: paths of checkpoints whose predictions are averaged, instead of using a run's checkpoint.
      eval_batch_size, predict_batch_size: examples of a batch, over all replicas.
      early_stopping_patience: see Evaluator.
      recipe: name of the recipe that the options are from, for the model card.

    Raises:
      ValueError: a batch size or the patience is out of range.
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


class Predictor:
    """Runs a task's model over features, without dropout.

    Args:
      task: provides the model and selects the outputs to return.
      strategy: the distribution strategy.
      batch_size: examples of a batch, over all replicas.
      buckets: the result of bucket_lengths.
      jit_compile: whether to compile the graph with XLA.
      parts: the largest number of parts of a batch that are computed at the same time (trainer.py).
    """

    def __init__(self, task: PredictingTask, strategy: tf.distribute.Strategy, batch_size: int,
                 buckets: tuple[int, ...], jit_compile: bool = False, parts: int = 1):
        self._task, self._strategy, self._batch_size, self._buckets = task, strategy, batch_size, buckets
        self._parts = parts
        self._outputs = tf.function(self._outputs_of_part, autograph=False, jit_compile=jit_compile or None)
        self._outputs_on_replicas = on_batches(self._run, strategy, jit_compile)

    def __call__(self, table: FeatureTable) -> dict[str, list[np.ndarray]]:
        """The predictions by name: one value per example, in the order of the table.

        A prediction with one value per token has the length to which its batch was padded, which can exceed the
        example's own.
        """
        rows = evaluation_rows(table, self._batch_size)
        batches = distributed(self._strategy, lambda context: table_batches(table, rows, self._buckets, context))
        predictions: dict[str, list] = {}
        iterator = iter(batches)
        for _ in rows:
            outputs = {name: self._strategy.gather(values, axis=0).numpy()
                       for name, values in self._outputs_on_replicas(iterator).items()}
            examples = outputs.pop("example")
            for name, values in outputs.items():
                values_of_all = predictions.setdefault(name, [None] * len(table))
                for example, value in zip(examples, values):
                    if example >= 0:
                        values_of_all[example] = value
        return predictions

    def _run(self, batch):
        return self._strategy.run(in_parts, (self._outputs, batch, self._parts))

    def _outputs_of_part(self, batch):
        outputs = self._task.predictions(self._task.model(batch, training=False))
        return dict(outputs, example=batch["example"])


def mean_of(predictions: Sequence[dict[str, list[np.ndarray]]], name: str) -> np.ndarray:
    """The mean of one prediction over several checkpoints (Lan et al., 2020, section 4.9): [examples, ...]."""
    return np.mean([np.stack(each[name]) for each in predictions], axis=0)


@dataclasses.dataclass
class _Served:
    """A model that predicts.

    Args:
      task: the task of the model.
      path: the path of its weights; None while they are loaded.
      predictors: its predictors, by batch size.
    """

    task: PredictingTask
    path: str | None
    predictors: dict[int, Predictor] = dataclasses.field(default_factory=dict)


class FineTuning:
    """The fine-tuning runs of a task.

    Args:
      options: see FineTuningOptions.
      strategy: the distribution strategy.
      config: the config of the model to train, which is written next to its checkpoints, and of weights without a
        config. Checkpoints that are evaluated or predict have their own.
      new_task: function of a config that builds model and task with random weights.
      weights: reads weights: albert_tf.weights.from_pretrained.WeightsReader.
      best_metric: the result that decides which checkpoint is the best; higher is better.
    """

    def __init__(self, options: FineTuningOptions, strategy: tf.distribute.Strategy, config: AlbertConfig,
                 new_task: Callable[[AlbertConfig], PredictingTask], weights: Weights, best_metric: str):
        self.options, self.strategy, self._config = options, strategy, config
        self._new_task, self._weights, self._best_metric = new_task, weights, best_metric
        self._served: dict[AlbertConfig, _Served] = {}  # the models that predict; equal configs share one graph

    def train(
        self, table: FeatureTable, schedule: Schedule, evaluate: Evaluate | None = None,
        before_run: BeforeRun = lambda directory, model: None, after_run: AfterRun | None = None
    ) -> None:
        """Trains every run to its end, continuing from its latest checkpoint.

        Args:
          table: the training examples.
          schedule: the steps of each run.
          evaluate: evaluates each checkpoint when it is saved (see the module's description); None for no evaluation.
          before_run: called before each run (see BeforeRun).
          after_run: called after each run (see AfterRun); None for no call.
        """
        if not self.options.init_checkpoint and not any(map(numbered, self.runs.values())):
            logging.info("no --init_checkpoint: training starts from random weights")
        for seed, directory in self.runs.items():
            self._train_run(seed, directory, table, schedule, evaluate, before_run, after_run)
            gc.collect()  # a trainer and its slots are in reference cycles; the next run needs their memory
        if evaluate is not None:
            self._summarise(self.runs.values())
        wait_for_all(self.strategy)  # all workers may next predict with a checkpoint that the chief has saved

    def _train_run(self, seed: int, directory: str, table: FeatureTable, schedule: Schedule, evaluate: Evaluate | None,
                   before_run: BeforeRun, after_run: AfterRun | None) -> None:
        trainer, checkpoints, evaluator = self._start(
            seed, directory, schedule, evaluate, None if numbered(directory) else self.options.init_checkpoint)

        def batches_from(first_step):
            rows = training_rows(table, self.options.run.train_batch_size, schedule.num_train_steps, seed,
                                 self.options.group_by_length)[first_step:]
            # With several workers, only an endless data set keeps its static batch size.
            return lambda context: table_batches(table, rows, self.options.buckets, context).repeat()

        options = dataclasses.replace(self.options.run, output_dir=directory)
        trained = train(trainer, checkpoints, batches_from, options, schedule, self.strategy, evaluator,
                        functools.partial(before_run, directory, trainer.task.model))
        self._finish(directory, evaluator)
        if after_run is not None and is_chief(self.strategy):
            after_run(directory, seed, trainer.task.model, (evaluator and evaluator.best) or {}, trained)

    def evaluate(self, evaluate: Evaluate) -> None:
        """Evaluates checkpoints without training.

        These are --ensemble_checkpoints if set; or else all checkpoints of each run in output_dir, with any seed; or
        else --init_checkpoint.

        Raises:
          ValueError: there is no checkpoint, or none of a run can be read.
        """
        runs = saved_runs(self.options.run.output_dir)
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
            self._serve(prefix)
            loaded = prefix

        chief = is_chief(self.strategy)
        evaluator = Evaluator(
            directory, lambda: evaluate(lambda table: [self._prediction(loaded, table, self.options.eval_batch_size)]),
            self._best_metric, lambda: copy_as_best(loaded) if chief else None, chief)
        evaluator.evaluate_saved(load)
        self._finish(directory, evaluator)

    def predict(self, table: FeatureTable) -> Predictions:
        """The predictions of each of --ensemble_checkpoints, or of `checkpoint()` if these are not set.

        Raises:
          ValueError: there is no checkpoint, or it has no head for this task.
        """
        return self._predictions(table, self.options.predict_batch_size)

    def best_model(self) -> keras.Model:
        """The model with the weights of `checkpoint()`."""
        return self._serve(self.checkpoint()).task.model

    def checkpoint(self) -> str:
        """The checkpoint that predicts if there is no ensemble.

        This is that of the best run in output_dir, with any seed (see checkpoint_of), or --init_checkpoint if there is
        none.

        Raises:
          ValueError: there is no checkpoint.
        """
        path = checkpoint_of(self.options.run.output_dir) or self.options.init_checkpoint
        if not path:
            raise ValueError(f"there is no checkpoint in {self.options.run.output_dir}, and --init_checkpoint is not "
                             "set: train with --do_train first, or set --init_checkpoint")
        return path

    def forget_models(self) -> None:
        """Makes models that predict anew when they are next needed, since `new_task` makes other ones now."""
        self._served.clear()

    def serving_step(self) -> int:
        """The step of the checkpoint that predicts (of several, the largest); 0 if no run of this package saved it."""
        return max(map(self._weights.step, self._serving_paths()))

    @property
    def runs(self) -> dict[int, str]:
        """The directory in which each seed is trained: output_dir itself if there is only one seed."""
        parent, seeds = self.options.run.output_dir, self.options.seeds
        return {seed: run_directory(parent, seed) if len(seeds) > 1 else parent for seed in seeds}

    def _start(self, seed: int, directory: str, schedule: Schedule, evaluate: Evaluate | None, path: str | None):
        """Trainer, checkpoints and evaluator of a run, with the weights of a path (random ones for None)."""
        make_directory(directory)
        keras.utils.set_random_seed(seed)
        task, _ = self._task_with_weights(path, self._config)
        trainer = new_trainer(task, self.strategy, dataclasses.replace(self.options.trainer, random_seed=seed),
                              self.options.run, schedule)
        chief = is_chief(self.strategy)
        checkpoints = Checkpoints(directory, trainer, self._config, self.options.run.keep_checkpoint_max, chief)
        if evaluate is None:
            return trainer, checkpoints, None
        predictor = self._predictor(task, self.options.eval_batch_size)
        evaluator = Evaluator(directory, lambda: evaluate(lambda table: [predictor(table)]), self._best_metric,
                              checkpoints.save_best, chief, self.options.early_stopping_patience)
        return trainer, checkpoints, evaluator

    def _task_with_weights(self, path: str | None, config: AlbertConfig):
        with self.strategy.scope():
            return self._weights.make(functools.partial(self._new_task, config), path)

    def _finish(self, directory: str, evaluator: Evaluator | None) -> None:
        if evaluator is not None and evaluator.best:
            evaluator.write_best()
            if is_chief(self.strategy):
                write_plot(directory, self._best_metric)

    def _summarise(self, runs: Iterable[str]) -> None:
        if is_chief(self.strategy):
            write_summary(self.options.run.output_dir, runs, self._best_metric)

    def _report(self, results: dict[str, float]) -> None:
        results = dict(results, global_step=self.serving_step())
        logging.info("%s", shown(results))
        if is_chief(self.strategy):
            write_results(self.options.run.output_dir, results)

    def _predictions(self, table: FeatureTable, batch_size: int) -> Predictions:
        return [self._prediction(path, table, batch_size) for path in self._serving_paths()]

    def _prediction(self, path: str, table: FeatureTable, batch_size: int):
        """The predictions of the weights at a path, as an element of Predictions."""
        served = self._serve(path)
        if batch_size not in served.predictors:  # a second one would trace the same graph again
            served.predictors[batch_size] = self._predictor(served.task, batch_size)
        return served.predictors[batch_size](table)

    def _serving_paths(self) -> tuple[str, ...]:
        return self.options.ensemble_checkpoints or (self.checkpoint(),)

    def _serve(self, path: str) -> _Served:
        """A model with the weights and the config of a path."""
        for other in self._served.values():
            if other.path == path:
                return other
        config = self._config_of(path)
        key = config.without_training()
        served = self._served.get(key)
        if served is None:
            task, report = self._task_with_weights(path, config)
            _check_fine_tuned(report, path)
            served = self._served[key] = _Served(task, path)
        else:
            served.path = None  # until the weights are complete
            _check_fine_tuned(self._weights.load(served.task.model, path), path)
            served.path = path
        return served

    def _config_of(self, path: str) -> AlbertConfig:
        """The config of weights that predict. If these are the initial weights, it is the user's."""
        is_initial = path == self.options.init_checkpoint and path not in self.options.ensemble_checkpoints
        return (None if is_initial else self._weights.config(path)) or self._config

    def _predictor(self, task, batch_size: int) -> Predictor:
        return Predictor(task, self.strategy, batch_size, self.options.buckets,
                         self.options.trainer.jit_compile, self.options.trainer.parts)


def _check_fine_tuned(report, path: str) -> None:
    """Raises ValueError if the weights of the task's head were not restored."""
    missing = [name for name in report.not_restored if not name.startswith("bert/")]
    if missing:
        raise ValueError(f"{path} was not fine-tuned for this task: it has no {', '.join(missing)} "
                         f"({report.not_restored[missing[0]]})")
