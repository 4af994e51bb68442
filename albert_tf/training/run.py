"""Trains to the last step of a run, continuing from the latest checkpoint in its directory."""

from __future__ import annotations

import dataclasses
import os
from typing import Callable

import tensorflow as tf
from absl import logging

from albert_tf import devices
from albert_tf.training import callbacks
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.distribution import distributed
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.strategy import is_chief
from albert_tf.training.trainer import Trainer
from albert_tf.training.workers import values_of_all
from albert_tf.utils import bounds


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How long a run is, and how often it is saved.

    Args:
      output_dir: directory of the run.
      num_train_steps: the last step.
      train_batch_size: examples of a step, over all replicas.
      save_checkpoints_steps: number of steps between two checkpoints.
      keep_checkpoint_max: number of checkpoints to keep.
      iterations_per_loop: on TPU, the largest number of steps between two returns to the host.

    Raises:
      ValueError: a value is out of range.
    """

    output_dir: str
    num_train_steps: int
    train_batch_size: int
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    iterations_per_loop: int = 1000

    def __post_init__(self):
        for name in ("num_train_steps", "save_checkpoints_steps", "keep_checkpoint_max", "iterations_per_loop"):
            bounds.STEPS.check(name, getattr(self, name))
        bounds.BATCH_SIZE.check("train_batch_size", self.train_batch_size)


def train(
    trainer: Trainer,
    checkpoints: Checkpoints,
    batches_from: Callable[[int], Callable],
    options: RunOptions,
    strategy: tf.distribute.Strategy,
    evaluator: Evaluator | None = None,
    before_steps: Callable[[], None] = lambda: None,
) -> bool:
    """Trains to num_train_steps, continuing from the latest checkpoint of the directory.

    Args:
      trainer: a trainer that was compiled in the strategy's scope.
      checkpoints: the run's checkpoints.
      batches_from: function of the first step. It returns a function of an InputContext, which returns the batches.
      options: see RunOptions.
      strategy: the distribution strategy.
      evaluator: called with the step after each save. The run ends early when its patience is over.
      before_steps: writes files that describe the run. The chief calls it, if there are steps to take.

    Returns:
      Whether steps were taken; False if the run was finished before.

    Raises:
      ValueError: the batch cannot be divided among replicas and micro-batches, workers continue from different steps,
        or the data ended before the last step.
      OSError: a checkpoint cannot be written.
    """
    replicas, micro_batches = strategy.num_replicas_in_sync, trainer.gradient_accumulation_steps
    if options.train_batch_size % (replicas * micro_batches):
        raise ValueError(f"train_batch_size must be a multiple of {replicas} replicas times {micro_batches} "
                         f"gradient_accumulation_steps. Received: {options.train_batch_size}")
    first_step = checkpoints.restore_latest()
    first_steps = sorted(set(values_of_all(strategy, first_step)))
    if len(first_steps) > 1:
        raise ValueError(f"the latest checkpoint in {options.output_dir} has step {first_steps[0]} on one worker and "
                         f"step {first_steps[-1]} on another: all workers must share --output_dir")
    if first_step and evaluator is not None and not evaluator.has_evaluated(first_step):
        evaluator(first_step)  # the run ended after saving and before the evaluation
    is_done = first_step >= options.num_train_steps
    if is_done or evaluator is not None and evaluator.patience_is_over:
        logging.info("nothing to train: %s in %s; to train with other flags or data, use another --output_dir",
                     _what_is_done(first_step, options.num_train_steps) if is_done
                     else f"the run ended early at step {first_step}", options.output_dir)
        if evaluator is not None:
            evaluator.log_best()
        return False

    writes = is_chief(strategy)
    end_on_signal = callbacks.EndOnSignal(first_step, checkpoints.save, writes)

    def save(step: int) -> None:
        checkpoints.save(step)
        if evaluator is not None:
            with end_on_signal.saved(step):
                evaluator(step)
            if evaluator.patience_is_over:
                logging.info("step %d: not better than step %d, the run ends early", step, evaluator.best_step)
                trainer.stop_training = True

    if writes:
        before_steps()
    step_callbacks = [callbacks.SkippedSteps(first_step),
                      callbacks.Saving(first_step, options.num_train_steps, options.save_checkpoints_steps, save),
                      end_on_signal]
    if writes:
        step_callbacks += [
            callbacks.Progress(first_step, options.num_train_steps, options.train_batch_size),
            callbacks.Curves(first_step, options.num_train_steps, os.path.join(options.output_dir, "train"))]
    batches = distributed(strategy, batches_from(first_step))
    with end_on_signal:
        logging.info("training from step %d to %d", first_step, options.num_train_steps)
        trainer.fit(batches, steps_per_epoch=options.num_train_steps - first_step, verbose=0, callbacks=step_callbacks)
    last_step = int(tf.convert_to_tensor(trainer.optimizer.iterations))
    # Keras' fit interprets every OutOfRangeError as the end of the data, and returns.
    if last_step < options.num_train_steps and not trainer.stop_training:
        raise ValueError(f"training ended at step {last_step} of {options.num_train_steps}, since its data ended "
                         "unexpectedly. Start the run again: it continues from its latest checkpoint")
    if evaluator is not None:
        evaluator.log_best()
    return True


def _what_is_done(step: int, num_train_steps: int) -> str:
    if step > num_train_steps:
        return f"step {step} is done, after the last requested step {num_train_steps},"
    return f"step {step} of {num_train_steps} is done"


def steps_per_execution(options: RunOptions, strategy: tf.distribute.Strategy) -> int:
    """The number of steps between two returns to the host: more than 1 on TPU only, where returning takes time.

    The number is the largest divisor of save_checkpoints_steps up to iterations_per_loop, because checkpoints are saved
    after a return.
    """
    if not devices.compiles_whole_steps(strategy):
        return 1
    most = min(options.iterations_per_loop, options.save_checkpoints_steps)
    return next(steps for steps in range(most, 0, -1) if options.save_checkpoints_steps % steps == 0)
