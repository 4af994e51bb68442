"""Trains to the last step of a run, continuing from the latest checkpoint in its directory.

Keras callbacks show progress, write curves, save, and end the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import time
from typing import Callable, Iterator

import tensorflow as tf
from absl import logging

from albert_tf import devices, keras
from albert_tf.modeling.adapters import LoraOptions
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.strategy import distributed, is_chief, values_of_all
from albert_tf.training.task import TrainableTask
from albert_tf.training.trainable import ALL, HEAD, check_trainable, restrict_training
from albert_tf.training.trainer import MOST_SKIPPED_IN_A_ROW, Trainer
from albert_tf.utils import bounds
from albert_tf.utils.progress import LINE_SECONDS, Bar, MovingRate, count_of


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
    end_on_signal = EndOnSignal(first_step, checkpoints.save, writes)

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
    step_callbacks = [SkippedSteps(first_step),
                      Saving(first_step, options.num_train_steps, options.save_checkpoints_steps, save),
                      end_on_signal]
    if writes:
        step_callbacks += [
            Progress(first_step, options.num_train_steps, options.train_batch_size),
            Curves(first_step, options.num_train_steps, os.path.join(options.output_dir, "train"))]
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
    if not devices.is_tpu(strategy):
        return 1
    most = min(options.iterations_per_loop, options.save_checkpoints_steps)
    return next(steps for steps in range(most, 0, -1) if options.save_checkpoints_steps % steps == 0)


# The number of steps between two points of a curve.
_CURVE_STEPS = 20


class StepCallback(keras.callbacks.Callback):
    """A callback that gets the step of the run, which a restart does not reset."""

    def __init__(self, first_step: int):
        super().__init__()
        self._first_step = first_step

    def on_train_batch_end(self, batch, logs=None):
        """Calls on_step."""
        try:
            self.on_step(self._first_step + batch + 1, logs)
        # Keras' fit would interpret both errors as the end of the data.
        except tf.errors.OutOfRangeError as error:  # also raised when a file exceeds a size limit
            raise OSError(error.message) from error
        except StopIteration as error:
            raise RuntimeError(f"step {self._first_step + batch + 1}: a callback raised StopIteration") from error

    def on_step(self, step: int, logs: dict) -> None:
        """Called after each step of the run."""
        raise NotImplementedError


class Progress(StepCallback):
    """Steps, examples/s, time left and loss: as a progress bar on a terminal, or else as log lines at intervals."""

    def __init__(self, first_step: int, num_train_steps: int, batch_size: int):
        super().__init__(first_step)
        self._total, self._batch_size = num_train_steps, batch_size
        self._bar = None
        if sys.stderr.isatty():
            self._bar = Bar(total=num_train_steps, initial=first_step, unit="step", desc="training")
        self._rate, self._last_line = MovingRate(), time.monotonic()

    def on_step(self, step, logs):
        """Updates the bar, or logs a line."""
        self._rate.update(step)
        per_second = self._rate.per_second * self._batch_size
        if self._bar is not None:
            rate = f", {per_second:.1f} examples/s" if per_second else ""
            self._bar.set_postfix_str(f"loss {logs['loss']:.3f}{rate}", refresh=False)
            self._bar.update(step - self._bar.n)
            return
        now = time.monotonic()
        if now - self._last_line >= LINE_SECONDS or step == self._total:
            self._last_line = now
            rate = f", {per_second:.1f} examples/s" if per_second else ""  # unknown until the second step
            time_left = f", {self._rate.time_left(self._total - step)} left" if per_second else ""
            logging.info("step %d of %d, loss %.4f, learning rate %.3g%s%s", step, self._total, logs["loss"],
                         logs["learning_rate"], rate, time_left)

    def on_train_end(self, logs=None):
        """Closes the bar."""
        if self._bar is not None:
            self._bar.close()


class Curves(StepCallback):
    """Losses, learning rate and gradient norm for TensorBoard."""

    def __init__(self, first_step: int, num_train_steps: int, directory: str):
        super().__init__(first_step)
        self._total = num_train_steps
        self._writer = tf.summary.create_file_writer(directory)

    def on_step(self, step, logs):
        """Writes a point of each curve."""
        if step % _CURVE_STEPS == 0 or step == self._total:
            with self._writer.as_default(step=step):
                for name, value in logs.items():
                    tf.summary.scalar(name, value)

    def on_train_end(self, logs=None):
        """Closes the curves' file."""
        self._writer.close()


class Saving(StepCallback):
    """Calls save(step) every `every` steps, and at the last step."""

    def __init__(self, first_step: int, num_train_steps: int, every: int, save):
        super().__init__(first_step)
        self._total, self._every, self._save, self._saved = num_train_steps, every, save, first_step

    def on_step(self, step, logs):
        """Saves if a multiple of the interval, or the last step, has been reached."""
        if step // self._every > self._saved // self._every or step == self._total:
            self._saved = step
            self._save(step)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class EndOnSignal(StepCallback):
    """On SIGTERM or Ctrl-C, calls save(step) and ends the process with the exit status of that signal.

    A second Ctrl-C ends the process at once.

    Only the process that writes files does so. The other workers ignore SIGTERM until that process has ended, since it
    would wait for them in its last step. This class is a context manager, and handles the signal only in its block.
    """

    def __init__(self, first_step: int, save, writes: bool):
        super().__init__(first_step)
        self._save, self._writes = save, writes
        self._received: int | None = None  # the signal
        self._saved_step: int | None = None  # in the block of `saved`

    def __enter__(self):
        handlers = dict.fromkeys(_SIGNALS, self._receive) if self._writes else {signal.SIGTERM: signal.SIG_IGN}
        self._previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def saved(self, step: int) -> Iterator[None]:
        """A block in which the signal ends the process at once, since nothing is lost: `step` is saved."""
        self._saved_step = step
        try:
            if self._received:
                self._end(step)
            yield
        finally:
            self._saved_step = None

    def on_step(self, step, logs):
        """Saves and ends the run after a signal."""
        if self._received:
            self._save(step)
            self._end(step)

    def _receive(self, number, _):
        if number == self._received == signal.SIGINT:
            raise KeyboardInterrupt
        self._received = number
        if number == signal.SIGINT and self._saved_step is None:
            logging.info("the run ends after this step, which is saved; press Ctrl-C again to end it at once")
        if self._saved_step is not None:
            self._end(self._saved_step)

    def _end(self, step):
        assert self._received is not None
        logging.info("ending after %s; step %d is saved", signal.Signals(self._received).name, step)
        sys.exit(128 + self._received)


class SkippedSteps(StepCallback):
    """Reports steps that were skipped because a gradient was not finite, and ends the run after many in a row."""

    def __init__(self, first_step: int):
        super().__init__(first_step)
        self._known: int | None = None

    def on_train_begin(self, logs=None):
        """Starts from the model's count, since a resumed run may have skipped steps before."""
        self._known = int(tf.convert_to_tensor(self.model.skipped_steps))

    def on_step(self, step, logs):
        """Warns of a skipped step, and raises ValueError after many in a row."""
        skipped = int(logs["skipped_steps"])
        if skipped == self._known:
            return
        self._known = skipped
        logging.warning("step %d was skipped since a gradient was not finite; %s so far", step,
                        count_of(skipped, "skipped step"))
        if self.model.skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW:
            raise ValueError(f"the gradients of {MOST_SKIPPED_IN_A_ROW} steps in a row were not finite: "
                             "lower --learning_rate, or train in another --precision")


@dataclasses.dataclass(frozen=True)
class TrainerOptions:
    """How a task is trained.

    Args:
      optimizer: "lamb" or "adamw".
      learning_rate, num_warmup_steps, start_warmup_step, poly_power: see learning_rate_schedule.
      bias_correction: see ReleaseOptimizer.
      random_seed, gradient_accumulation_steps, jit_compile, loss_scaling, shapes_vary, parts, rows_vary: see Trainer.
      gradient_checkpointing: whether to recompute a layer's activations for its gradients, which saves memory.
      trainable: see restrict_training.
      lora_rank, lora_alpha, lora_per_layer: see LoraOptions. A rank of 0 means no adapters.

    Raises:
      ValueError: `trainable` is unknown, an option of the adapters is out of range, or both contradict each other.
    """

    optimizer: str
    learning_rate: float
    num_warmup_steps: int = 0
    start_warmup_step: int = 0
    poly_power: float = 1.0
    bias_correction: bool = False
    random_seed: int = 0
    gradient_accumulation_steps: int = 1
    gradient_checkpointing: bool = False
    jit_compile: bool = False
    loss_scaling: bool = False
    shapes_vary: bool = False
    parts: int = 1
    rows_vary: bool = False
    trainable: str | None = None
    lora_rank: int = 0
    lora_alpha: float | None = None
    lora_per_layer: bool = False

    def __post_init__(self):
        if self.trainable is not None:
            check_trainable(self.trainable)
        if not self.lora_rank and (self.lora_alpha is not None or self.lora_per_layer):
            raise ValueError("--lora_alpha and --lora_per_layer are for adapters: set --lora_rank too")
        if self.lora is not None and self.trainable not in (None, HEAD):
            raise ValueError("with --lora_rank the adapters and the head train: do not set "
                             f"--trainable={self.trainable}")

    @property
    def lora(self) -> LoraOptions | None:
        """The options of the adapters; None without adapters."""
        return LoraOptions(self.lora_rank, self.lora_alpha, self.lora_per_layer) if self.lora_rank else None


def new_trainer(
    task: TrainableTask, strategy: tf.distribute.Strategy, options: TrainerOptions, run: RunOptions
) -> Trainer:
    """Makes a compiled trainer. Warns if the warm-up of the learning rate does not end before the run.

    Args:
      task: the task. Its model and metrics must have been made in the strategy's scope.
      strategy: the distribution strategy.
      options: see TrainerOptions.
      run: see RunOptions.

    Raises:
      ValueError: gradient_checkpointing with a TF-Hub module as the encoder; or see restrict_training.
    """
    end_of_warmup = options.start_warmup_step + options.num_warmup_steps
    if options.num_warmup_steps and end_of_warmup >= run.num_train_steps:
        logging.warning("the run ends at step %d, and the learning rate's warm-up at step %d: the learning rate stays "
                        "below its peak of %g", run.num_train_steps, end_of_warmup, options.learning_rate)
    if options.gradient_checkpointing:
        if not isinstance(task.model.albert, AlbertModel):
            raise ValueError("--gradient_checkpointing does not work with a TF-Hub module, whose layers cannot be "
                             "recomputed")
        task.model.albert.gradient_checkpointing = True
    with strategy.scope():
        restrict_training(task.model, options.trainable or ALL, options.lora)
        trainer = Trainer(task, options.random_seed, options.gradient_accumulation_steps, options.jit_compile,
                          options.loss_scaling, options.shapes_vary, options.parts, options.rows_vary)
        optimizer = create_optimizer(options.optimizer, options.learning_rate, run.num_train_steps,
                                     options.num_warmup_steps, options.start_warmup_step, options.poly_power,
                                     bias_correction=options.bias_correction)
        trainer.compile(optimizer, steps_per_execution=1 if options.shapes_vary else steps_per_execution(run, strategy))
    return trainer
