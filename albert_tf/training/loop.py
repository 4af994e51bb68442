"""The training loop: `run` trains a task's model, evaluates it, and saves it.

A task says what is trained, on which data, and how good it is. tasks/ has the tasks of fine-tuning, and
pretraining/pretrain.py has pre-training.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import errno
import os
from types import MappingProxyType
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import tensorflow as tf
from absl import logging

from albert_tf import devices, keras
from albert_tf.config import AlbertConfig
from albert_tf.data.batching import EvaluationData
from albert_tf.modeling.settings import Settings
from albert_tf.training.callbacks import Curves, EndOnSignal, Progress, Saving, SkippedSteps
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.config import Devices, Schedule, Training
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.objective import Objective
from albert_tf.training.prediction import Predictions, Predictor
from albert_tf.training.run import new_trainer, write_run_card
from albert_tf.training.strategy import distributed, is_chief, values_of_all
from albert_tf.training.trainer import Callback, Trainer, parts_of
from albert_tf.utils.files import is_remote, make_directory
from albert_tf.utils.outputs import used_alone
from albert_tf.utils.processes import announcing
from albert_tf.utils.progress import count_of
from albert_tf.weights.choice import ChosenModel
from albert_tf.weights.settings import settings_in, write_settings
from albert_tf.weights.vocabulary import VocabularyFiles


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The steps of a run and their batches.

    Attributes:
      batches_from: function of the first step. It returns a function of an InputContext, which returns the batches.
      lengths: the length of each step's batch, [num_train_steps]; empty if all have one.
      shapes_vary: whether batches have several lengths or numbers of rows.
      rows_vary: whether they have several numbers of rows.
    """

    schedule: Schedule
    batches_from: Callable[[int], Callable[[tf.distribute.InputContext], tf.data.Dataset]]
    lengths: Sequence[int] = ()
    shapes_vary: bool = False
    rows_vary: bool = False


class Task(abc.ABC):
    """What is trained and evaluated.

    Attributes:
      chosen: the initial weights, or the run that is continued.
      config: of the model to train.
      best_metric: the result that decides which checkpoint is the best; higher is better.
      vocabulary: the files that a run stores beside its weights; may be empty.
      datasets: what the data was made from, by the names of its files, for the model card.
      evaluated_on: the names of the dev sets' files, for the model card.
      recipe: the name of the recipe that the options come from.
      reports_best: whether eval_results.txt has a run's best results in the end, and not its latest ones.
      stored_results: the results that a run stores as settings of the same name.
      init_from_group0: whether all groups of layers start from group 0 of the initial weights.
    """

    best_metric: str
    vocabulary = VocabularyFiles()
    datasets: Mapping[str, dict] = MappingProxyType({})
    evaluated_on = ""
    recipe: str | None = None
    reports_best = True
    stored_results: Sequence[str] = ()
    init_from_group0 = False

    def __init__(self, chosen: ChosenModel, strategy: tf.distribute.Strategy, training: Training, devices: Devices):
        self.chosen, self.config, self.strategy = chosen, chosen.config, strategy
        self.training, self.devices = training, devices

    @abc.abstractmethod
    def objective(self, config: AlbertConfig) -> Objective:
        """The model with random weights, with its loss and predictions."""

    def training_objective(self) -> Objective:
        """The objective that is trained, with its teacher if there is one."""
        return self.objective(self.config)

    @abc.abstractmethod
    def training_data(self, seed: int) -> TrainingData:
        """The batches of a run with a seed. The first call reads the data."""

    @abc.abstractmethod
    def dev_sets(self) -> list[EvaluationData]:
        """The examples that score a checkpoint; none if they have no answers."""

    @abc.abstractmethod
    def score(self, predictions: Sequence[Predictions]) -> dict[str, float]:
        """The results by name, from the predictions for each dev set."""

    def settings(self, model: keras.Model) -> Settings:
        """What a run stores with its weights."""
        return model.settings

    def predictor(self, objective: Objective) -> Predictor:
        """What predicts with a model of the task."""
        return Predictor(objective.model, objective.predictions, self.strategy, self.devices.jit_compile,
                         parts_of(self.devices))

    def evaluator(self, objective: Objective, dev_sets: Sequence[EvaluationData], directory: str,
                  save_best: Callable[[], None] = lambda: None) -> Evaluator:
        """What evaluates the model of a run in a directory."""
        predictor = self.predictor(objective)
        return Evaluator(directory, lambda: self.score([[predictor(data)] for data in dev_sets]), self.best_metric,
                         save_best, is_chief(self.strategy))


def run(task: Task, directory: str, seed: int, dev_sets: Sequence[EvaluationData] = (), command_line: str = "") -> None:
    """Trains to the last step, from the latest checkpoint in the directory or else from the initial weights.

    Each checkpoint is evaluated on the dev sets, and so are, as step 0, initial weights that can do the task already.
    The best one is kept as model.ckpt-best. Raises ValueError if the run was made with other data, flags or devices.
    """
    strategy, training = task.strategy, dataclasses.replace(task.training, random_seed=seed)
    writes = is_chief(strategy)
    data = task.training_data(seed)
    make_directory(directory)
    keras.utils.set_random_seed(seed)
    with strategy.scope():
        objective, report = task.chosen.build_objective(task.training_objective, directory, task.init_from_group0)
    trainer = new_trainer(objective, strategy, training, task.devices, data.schedule, data.shapes_vary, data.rows_vary)
    checkpoints = Checkpoints(directory, trainer, task.config, training.keep_checkpoint_max, writes)
    evaluator = task.evaluator(objective, dev_sets, directory, checkpoints.save_best) if dev_sets else None

    def evaluate(step: int) -> None:
        if evaluator is not None and not evaluator.has_evaluated(step):
            evaluator(step)

    first_step = _restored_step(checkpoints, strategy)
    if first_step:
        evaluate(first_step)  # the run may have ended after saving and before the evaluation
    finished = _why_finished(first_step, data.schedule.num_train_steps)
    if finished:
        logging.info("nothing to train: %s in %s; to train with other flags or data, use another --output_dir",
                     finished, directory)
    else:
        if writes:
            write_settings(task.settings(objective.model), task.config, directory, task.vocabulary)
        if not first_step and report is not None and not report.random_head:
            evaluate(0)
        _take_steps(trainer, data, checkpoints, training.train_batch_size, evaluator, first_step, writes)
    if evaluator is not None:
        evaluator.log_best()
        finish(task, directory, evaluator)
    if writes:
        write_run_card(objective.model, directory, data.schedule, training, command_line, task.chosen.source.init_path,
                       task.datasets, evaluator.best if evaluator else None, task.evaluated_on, task.recipe,
                       not finished)


def finish(task: Task, directory: str, evaluator: Evaluator) -> None:
    """Writes the best results of a run, and draws its history."""
    if not evaluator.best:
        return
    if task.reports_best:
        evaluator.write_best()
    evaluator.draw()
    if is_chief(task.strategy):
        store_results(task, directory, evaluator.best)


def store_results(task: Task, directory: str, results: Mapping[str, float]) -> None:
    """Stores the results of a run that its exports need (Task.stored_results) in its settings."""
    values = {name: results[name] for name in task.stored_results if name in results}
    if values:
        write_settings(settings_in(directory).replaced(**values), task.config, directory)


@contextlib.contextmanager
def training_in(directories: Iterable[str], strategy: tf.distribute.Strategy, do_train: bool) -> Iterator[None]:
    """A block in which no other process may train in these directories; evaluations may run beside it.

    Raises ValueError, before a file is written, if another training uses a directory.
    """
    with contextlib.ExitStack() as stack:
        for directory in directories if do_train and is_chief(strategy) else ():
            stack.enter_context(used_alone(directory, "training"))
        yield


def _restored_step(checkpoints: Checkpoints, strategy: tf.distribute.Strategy) -> int:
    """Restores the latest checkpoint. Returns its step, 0 for none."""
    first_step = checkpoints.restore_latest()
    first_steps = sorted(set(values_of_all(strategy, first_step)))
    if len(first_steps) > 1:
        raise ValueError(f"the latest checkpoint in {checkpoints.directory} has step {first_steps[0]} on one worker "
                         f"and step {first_steps[-1]} on another: all workers must share --output_dir")
    return first_step


def _why_finished(step: int, last_step: int) -> str | None:
    """The reason why a run ends at a step; None if it continues."""
    if step > last_step:
        return f"step {step} is done, after the last requested step {last_step},"
    return f"step {step} of {last_step} is done" if step == last_step else None


def _take_steps(trainer: Trainer, data: TrainingData, checkpoints: Checkpoints, batch_size: int,
                evaluator: Evaluator | None, first_step: int, writes: bool) -> None:
    """Trains to the last step. Each checkpoint that is saved is evaluated."""
    schedule, output_dir = data.schedule, checkpoints.directory
    last_step = schedule.num_train_steps

    def write(step: int) -> None:
        if writes and not is_remote(output_dir) and not os.path.isdir(output_dir):
            raise FileNotFoundError(errno.ENOENT, "the folder was removed during the training", output_dir)
        checkpoints.save(step)

    def evaluate(step: int) -> None:
        assert evaluator is not None
        with end_on_signal.saved(step):
            evaluator(step)

    saving = Saving(first_step, last_step, schedule.save_checkpoints_steps, write, evaluate if evaluator else None)
    strategy: Any = trainer.strategy
    agree = devices.is_jax(strategy) and strategy.has_several_processes
    end_on_signal = EndOnSignal(first_step, saving.save, writes, strategy.largest_of_all if agree else None)
    callbacks: list[Callback] = [SkippedSteps(), saving, end_on_signal]
    if writes:
        callbacks += [Progress(first_step, last_step, batch_size, saving, data.lengths),
                      Curves(last_step, os.path.join(output_dir, "train"))]
    with announcing("the run ends after this step, which is saved"), end_on_signal, saving:
        logging.info("training from step %d to %d%s; saved%s every %s; the first step of each length is slow: it "
                     "is compiled", first_step, last_step,
                     f", continuing {output_dir} and not other weights" if first_step else "",
                     " and evaluated" if evaluator else "", count_of(schedule.save_checkpoints_steps, "step"))
        trainer.fit(distributed(strategy, data.batches_from(first_step)), last_step - first_step, callbacks, first_step)
    step = int(tf.convert_to_tensor(trainer.optimizer.iterations))
    if step < last_step:
        raise ValueError(f"training ended at step {step} of {last_step}, since its data ended unexpectedly. Start the "
                         "run again: it continues from its latest checkpoint")
