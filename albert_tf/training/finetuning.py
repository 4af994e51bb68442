"""Fine-tuning: one run or several seeds, evaluated as they go, and the model that then predicts and is exported.

What a task's script does with it (albert_tf/finetuning_flags.py makes it from the flags):

    finetuning = tuning.new_finetuning(options.finetuning, strategy, config, new_task, best_metric="f1")
    if options.do_train:
        finetuning.train(training_table, evaluate if options.do_eval else None)
    elif options.do_eval:
        finetuning.evaluate(evaluate)
    if options.do_predict:
        write_answers(finetuning.predict(table))

new_task builds model and task (albert_tf/tasks), which has, besides what the trainer needs, predictions(outputs): the
tensors that evaluation wants. evaluate is called with a function like `predict`, asks it for the tables that it needs,
and gives the results as a dict of floats.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Protocol

import tensorflow as tf
from absl import logging

from albert_tf import bounds, keras
from albert_tf.config import AlbertConfig
from albert_tf.data.feature_table import FeatureTable
from albert_tf.data.length_buckets import training_batches
from albert_tf.tasks.task import PredictingTask
from albert_tf.training.checkpoints import Checkpoints, best_or_latest, numbered, numbered_by_step, saved_step
from albert_tf.training.evaluation import Evaluator, best_of, read_history, write_results
from albert_tf.training.new_trainer import TrainerOptions, new_trainer
from albert_tf.training.plot import write_plot
from albert_tf.training.prediction import Predictor
from albert_tf.training.run import RunOptions, train
from albert_tf.training.several_runs import write_summary
from albert_tf.training.strategy import is_chief
from albert_tf.training.workers import wait_for_all

# The predictions of one or several checkpoints (--ensemble_checkpoints): each by name, a value for each example.
Predictions = list  # of dict[str, list[np.ndarray]]
Predict = Callable[[FeatureTable], Predictions]
Evaluate = Callable[[Predict], "dict[str, float]"]
# Called by the chief when a run is done: its directory, its seed, the model, the best results or {}.
AfterRun = Callable[[str, int, keras.Model, "dict[str, float]"], None]


class Weights(Protocol):
    """Reads weights in any format: interchange's WeightsReader."""

    def make(self, new_task: Callable[[], PredictingTask], path: str | None) -> tuple[PredictingTask, Any]:
        """A new task with the weights of a path, or with random ones, and a report of what was restored."""

    def load(self, model: keras.Model, path: str) -> Any:
        """Puts the weights of a path into a model; gives a report of what was restored."""


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """What fine-tuning is asked for.

    Args:
      run: of a single run; output_dir is that of all.
      trainer: of a single run; each has its own seed.
      seeds: one for each run. Several runs are in output_dir/seed_N.
      buckets: lengths that batches are padded to.
      init_checkpoint: where the weights start; None for random ones.
      ensemble_checkpoints: whose predictions are averaged, in the place of the run's own.
      eval_batch_size, predict_batch_size: over all replicas.
      early_stopping_patience: see Evaluator.
      recipe: name of the recipe that the options are from, for the model card.

    Raises:
      ValueError: a batch size or the patience is out of its bounds.
    """

    run: RunOptions
    trainer: TrainerOptions
    seeds: tuple[int, ...]
    buckets: tuple[int, ...]
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


class FineTuning:
    """The runs of a task in their directory.

    Args:
      options: see FineTuningOptions.
      strategy: where it runs.
      config: the model's, written beside its checkpoints.
      new_task: builds model and task, with random weights.
      weights: reads weights for it: interchange's WeightsReader.
      best_metric: the result of which more is better.
    """

    def __init__(self, options: FineTuningOptions, strategy: tf.distribute.Strategy, config: AlbertConfig,
                 new_task: Callable[[], PredictingTask], weights: Weights, best_metric: str):
        self.options, self.strategy, self._config = options, strategy, config
        self._new_task, self._weights, self._best_metric = new_task, weights, best_metric
        self._serving: PredictingTask | None = None  # the task whose model predicts
        self._served_path: str | None = None  # whose weights it has

    def train(
        self, table: FeatureTable, evaluate: Evaluate | None = None, after_run: AfterRun | None = None
    ) -> None:
        """Trains every run to its end, going on where it was; with `evaluate`, each checkpoint as it is saved.

        Args:
          table: the examples.
          evaluate: gives the results, see above.
          after_run: see AfterRun.
        """
        if not self.options.init_checkpoint and not any(map(numbered, self.runs.values())):
            logging.info("no --init_checkpoint: training starts from random weights")
        for seed, directory in self.runs.items():
            trainer, checkpoints, evaluator = self._start(
                seed, directory, evaluate, None if numbered(directory) else self.options.init_checkpoint)

            def batches_from(first_step, seed=seed):
                return lambda context: training_batches(
                    table, self.options.run.train_batch_size, self.options.buckets, seed, first_step, context)

            options = dataclasses.replace(self.options.run, output_dir=directory)
            train(trainer, checkpoints, batches_from, options, self.strategy, evaluator)
            self._finish(directory, evaluator)
            if after_run is not None and is_chief(self.strategy):
                after_run(directory, seed, trainer.task.model, (evaluator and evaluator.best) or {})
        if evaluate is not None:
            self._summarise()
        wait_for_all(self.strategy)  # what the chief has saved may predict next

    def evaluate(self, evaluate: Evaluate) -> None:
        """Evaluates what is there.

        That is --ensemble_checkpoints, else all model.ckpt-STEP of each run, else its model.ckpt-best, else
        --init_checkpoint.

        Raises:
          ValueError: there is nothing, or it cannot be read.
        """
        if self.options.ensemble_checkpoints or not any(map(best_or_latest, self.runs.values())):
            self._report(evaluate(lambda table: self._predictions(table, self.options.eval_batch_size)))
            return
        for seed, directory in self.runs.items():
            trainer, _, evaluator = self._start(seed, directory, evaluate, None)
            self._evaluate_saved(directory, trainer, evaluator)
            self._finish(directory, evaluator)
        self._summarise()
        wait_for_all(self.strategy)

    def predict(self, table: FeatureTable) -> Predictions:
        """The predictions of --ensemble_checkpoints, else of `checkpoint`, one after the other.

        Raises:
          ValueError: there is no checkpoint, or it has no head for this task.
        """
        return self._predictions(table, self.options.predict_batch_size)

    def best_model(self) -> keras.Model:
        """The model that predicts, with the weights of `checkpoint`."""
        return self._serve(self.checkpoint()).model

    def checkpoint(self) -> str:
        """The checkpoint that predicts where there is no ensemble.

        That is the best run's model.ckpt-best, else its latest, else --init_checkpoint.

        Raises:
          ValueError: there is none.
        """
        best = {directory: best_or_latest(directory) for directory in self.runs.values()}
        saved = {directory: prefix for directory, prefix in best.items() if prefix}
        if saved:
            return saved[max(saved, key=self._best_value)]
        if not self.options.init_checkpoint:
            raise ValueError(f"there is no checkpoint in {self.options.run.output_dir}, and no --init_checkpoint: "
                             "--do_train makes one")
        return self.options.init_checkpoint

    def serving_step(self) -> int:
        """The step of the checkpoint that predicts, of several the last one; 0 where they are none of ours."""
        return max(map(saved_step, self._serving_paths()))

    @property
    def runs(self) -> dict[int, str]:
        """The directory of each seed: output_dir itself where there is one."""
        parent, seeds = self.options.run.output_dir, self.options.seeds
        if len(seeds) == 1:
            return {seeds[0]: parent}
        return {seed: os.path.join(parent, f"seed_{seed}") for seed in seeds}

    def _start(self, seed: int, directory: str, evaluate: Evaluate | None, path: str | None):
        """Trainer, checkpoints and evaluator of a run, with the weights of a path, or random ones."""
        tf.io.gfile.makedirs(directory)
        keras.utils.set_random_seed(seed)
        task, _ = self._task_with_weights(path)
        trainer = new_trainer(task, self.strategy, dataclasses.replace(self.options.trainer, random_seed=seed),
                              self.options.run)
        chief = is_chief(self.strategy)
        checkpoints = Checkpoints(directory, trainer, self._config, self.options.run.keep_checkpoint_max, chief)
        if evaluate is None:
            return trainer, checkpoints, None
        predictor = self._predictor(task, self.options.eval_batch_size)
        evaluator = Evaluator(directory, lambda: evaluate(lambda table: [predictor(table)]), self._best_metric,
                              checkpoints.save_best, chief, self.options.early_stopping_patience)
        return trainer, checkpoints, evaluator

    def _task_with_weights(self, path: str | None):
        with self.strategy.scope():
            return self._weights.make(self._new_task, path)

    def _evaluate_saved(self, directory: str, trainer, evaluator: Evaluator) -> None:
        by_step = numbered_by_step(directory)
        for step, prefix in by_step.items():
            self._load_fine_tuned(trainer.model, prefix)
            trainer.optimizer.iterations.assign(step)
            evaluator(step)
        best = best_or_latest(directory)
        if not by_step and best:
            self._load_fine_tuned(trainer.model, best)
            evaluator.report(evaluator.best_step)

    def _finish(self, directory: str, evaluator: Evaluator | None) -> None:
        if evaluator is not None and evaluator.best:
            evaluator.write_best()
            if is_chief(self.strategy):
                write_plot(directory, self._best_metric)

    def _summarise(self) -> None:
        if len(self.runs) > 1 and is_chief(self.strategy):
            write_summary(self.options.run.output_dir, self.runs, self._best_metric)

    def _report(self, results: dict[str, float]) -> None:
        results = dict(results, global_step=self.serving_step())
        logging.info("%s", ", ".join(f"{key} {value:.4f}" for key, value in results.items()))
        if is_chief(self.strategy):
            write_results(self.options.run.output_dir, results)

    def _predictions(self, table: FeatureTable, batch_size: int) -> Predictions:
        return [self._predictor(self._serve(path), batch_size)(table) for path in self._serving_paths()]

    def _serving_paths(self) -> tuple[str, ...]:
        return self.options.ensemble_checkpoints or (self.checkpoint(),)

    def _serve(self, path: str):
        """The task that predicts, its model with the weights of a path."""
        if self._serving is None:
            self._serving, report = self._task_with_weights(path)
            _check_fine_tuned(report, path)
        elif self._served_path != path:
            self._load_fine_tuned(self._serving.model, path)
        self._served_path = path
        return self._serving

    def _predictor(self, task, batch_size: int) -> Predictor:
        return Predictor(task, self.strategy, batch_size, self.options.buckets,
                         self.options.trainer.jit_compile)

    def _load_fine_tuned(self, model: keras.Model, path: str) -> None:
        _check_fine_tuned(self._weights.load(model, path), path)

    def _best_value(self, directory: str) -> float:
        """What the best of a run reached; a run that was never evaluated is better than none."""
        best = best_of(read_history(directory, self._best_metric), self._best_metric)
        return best[self._best_metric] if best else float("-inf")


def _check_fine_tuned(report, path: str) -> None:
    """Raises ValueError where a head is missing among what was restored."""
    missing = [name for name in report.not_restored if not name.startswith("bert/")]
    if missing:
        raise ValueError(f"{path} was not fine-tuned for this task: it has no {', '.join(missing)} "
                         f"({report.not_restored[missing[0]]})")
