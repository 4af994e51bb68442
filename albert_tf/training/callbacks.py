"""The callbacks of a run: they show progress, write curves, save, end the run on a signal, report skipped steps."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import signal
import sys
import time
from types import FrameType, TracebackType
from typing import Any, Callable, Iterator, Mapping, NoReturn, Sequence

import tensorflow as tf
from absl import logging

from albert_tf import devices
from albert_tf.training.trainer import MOST_SKIPPED_IN_A_ROW, Callback
from albert_tf.utils.processes import announcing, ending_signals, leave_terminal
from albert_tf.utils.progress import LINE_SECONDS, Bar, MovingRate, count_of

Logs = Mapping[str, Any]  # numbers by name, or arrays of jax that may not be computed yet
_CURVE_STEPS = 20  # between two points of a curve
_BAR_SECONDS = 1  # between two losses of a bar; the host waits for a loss, and so for its step


class Progress(Callback):
    """Steps, examples/s, time left and loss: as a progress bar on a terminal, or else as log lines at intervals.

    The first step of each length counts neither for the speed nor for the time left, since it is compiled. `saving` is
    called before this callback; its time is part of the time left. For `lengths` see run.train.
    """

    def __init__(self, first_step: int, num_train_steps: int, batch_size: int, saving: Saving,
                 lengths: Sequence[int] = ()):
        self._lengths, self._compiled = lengths, set[int]()
        self._total, self._batch_size, self._saving = num_train_steps, batch_size, saving
        self._bar = None
        if sys.stderr.isatty():
            self._bar = Bar(total=num_train_steps, initial=first_step, unit="step", desc="training")
        self._rate, self._last_line = MovingRate(), time.monotonic()

    def on_step(self, step: int, logs: Logs) -> None:
        """Updates the bar, or logs a line."""
        more = self._saving.seconds_after(step)
        for moving in (self._rate, *([self._bar.rate] if self._bar else [])):
            moving.leave_out(self._saving.seconds_of(step))
            if len(self._lengths) and self._lengths[step - 1] not in self._compiled:
                moving.skip(step)
        self._compiled.update(self._lengths[step - 1 : step])
        self._rate.update(step)
        per_second, now = self._rate.per_second * self._batch_size, time.monotonic()
        rate = f", {per_second:.1f} examples/s" if per_second else ""  # unknown until the second step
        if self._bar is not None:
            if not self._bar.postfix or now - self._last_line >= _BAR_SECONDS or step == self._total:
                self._last_line = now
                self._bar.set_postfix_str(f"loss {logs['loss']:.3f}{rate}", refresh=False)
            self._bar.more = more
            self._bar.update(step - self._bar.n)
            return
        if now - self._last_line >= LINE_SECONDS or step == self._total:
            self._last_line = now
            time_left = f", {self._rate.time_left(self._total - step, more)} left" if per_second else ""
            logging.info("step %d of %d, loss %.4f, learning rate %.3g%s%s", step, self._total, logs["loss"],
                         logs["learning_rate"], rate, time_left)

    def on_end(self) -> None:
        """Closes the bar."""
        if self._bar is not None:
            self._bar.close()


class Curves(Callback):
    """Losses, learning rate and gradient norm for TensorBoard."""

    def __init__(self, num_train_steps: int, directory: str):
        self._total = num_train_steps
        self._writer = tf.summary.create_file_writer(directory)

    def on_step(self, step: int, logs: Logs) -> None:
        """Writes a point of each curve."""
        if step % _CURVE_STEPS == 0 or step == self._total:
            with self._writer.as_default(step=step):
                for name, value in logs.items():
                    tf.summary.scalar(name, value)

    def on_end(self) -> None:
        """Closes the curves' file."""
        self._writer.close()


class Saving(Callback):
    """Every `every` steps, and at the last step, calls write(step) and then evaluate(step).

    With jax, a thread writes the values during the next steps, unless they are evaluated first. The end of the block of
    this context manager waits for it.
    """

    def __init__(self, first_step: int, num_train_steps: int, every: int, write: Callable[[int], None],
                 evaluate: Callable[[int], None] | None = None):
        self._total, self._every, self._write, self._saved = num_train_steps, every, write, first_step
        self._evaluate = evaluate
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._written: concurrent.futures.Future | None = None  # by the thread
        self._seconds = 0.0  # that the last call took

    def __enter__(self) -> Saving:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    def on_step(self, step: int, logs: Logs) -> None:
        """Saves if a multiple of the interval, or the last step, has been reached."""
        if self._written is not None and self._written.done():
            self._wait()
        if step // self._every > self._saved // self._every or step == self._total:
            self._saved, start = step, time.monotonic()
            if self._evaluate is None and step < self._total and devices.is_jax(self.trainer.strategy):
                self._wait()
                self._written = self._thread.submit(self._stored_and_written, self.trainer.snapshot(), step)
            else:
                self.save(step)
                if self._evaluate is not None:
                    self._evaluate(step)
            self._seconds = time.monotonic() - start

    def seconds_of(self, step: int) -> float:
        """The time that was taken after a step."""
        return self._seconds if step == self._saved else 0.0

    def seconds_after(self, step: int) -> float:
        """The time that will be taken after the later steps, if each call takes as long as the last one."""
        return self._seconds * (-(-self._total // self._every) - step // self._every) * (step < self._total)

    def save(self, step: int) -> None:
        """Saves a step, and returns when it is written."""
        self._wait()
        self._stored_and_written(self.trainer.snapshot(), step)

    def _stored_and_written(self, store: Callable[[], None], step: int) -> None:
        store()
        self._write(step)

    def _wait(self) -> None:
        """Waits for the thread, and raises its error."""
        written, self._written = self._written, None
        if written is not None:
            written.result()


class EndOnSignal(Callback):
    """On SIGTERM, SIGHUP or Ctrl-C, calls save(step) and ends the process with the exit status of that signal.

    A second Ctrl-C raises KeyboardInterrupt; in a command, a second signal ends the process (see ended_by_signals).

    Several processes of jax agree on the step (largest_of_all: from this process's value to the largest of all): a
    signal to one of them ends all. Of several workers of TensorFlow, the one that writes files ends; the others ignore
    SIGTERM and SIGHUP until then, since it would wait for them in its last step. This class is a context manager, and
    handles the signal only in its block.
    """

    def __init__(self, first_step: int, save: Callable[[int], None], writes: bool,
                 largest_of_all: Callable[[int], Any] | None = None):
        self._save, self._handles, self._largest_of_all = save, writes or largest_of_all is not None, largest_of_all
        self._largest: collections.deque[Any] = collections.deque()  # the largest signal after each of the last steps
        self._step = first_step
        self._received: int | None = None  # the signal
        self._saved_step: int | None = None  # in the block of `saved`
        self._raised: BaseException | None = None  # after a signal

    def __enter__(self) -> EndOnSignal:
        handlers: dict = dict.fromkeys(ending_signals(), self._receive if self._handles else signal.SIG_IGN)
        if self._handles:
            handlers[signal.SIGINT] = self._receive
        self._previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        # Code in C that a signal interrupts, and TensorFlow's device scopes, raise other errors instead.
        if self._raised is not None and isinstance(error, Exception):
            raise self._raised from None

    @contextlib.contextmanager
    def saved(self, step: int) -> Iterator[None]:
        """A block in which the signal ends the process at once, since `step` is saved; several of jax, after it."""
        if self._largest_of_all is not None:
            yield
            return
        self._saved_step = step
        try:
            if self._received:
                self._end(step)
            with announcing(f"the run ends; step {step} is saved"):
                yield
        finally:
            self._saved_step = None

    def on_step(self, step: int, logs: Logs) -> None:
        """Saves and ends the run after a signal; with several processes, if any got one by the previous step."""
        self._step = step
        received = self._received
        if self._largest_of_all is not None:
            self._largest.append(self._largest_of_all(received or 0))
            received = int(self._largest.popleft()) if len(self._largest) > 1 else 0
        if received:
            self._received = received
            self._save(step)
            self._end(step)

    def on_end(self) -> None:
        """Ends the run if a process received a signal in the last step, which is saved."""
        for each in self._largest:
            self._received = int(each)
            if self._received:
                self._end(self._step)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self._raised is not None:  # the block ends already
            return
        if number == self._received == signal.SIGINT:
            self._raised = KeyboardInterrupt()
            raise self._raised
        leave_terminal(number)
        self._received = number
        if self._saved_step is not None:
            self._end(self._saved_step)

    def _end(self, step: int) -> NoReturn:
        assert self._received is not None
        logging.info("ending after %s; step %d is saved", signal.Signals(self._received).name, step)
        self._raised = SystemExit(128 + self._received)
        raise self._raised


class SkippedSteps(Callback):
    """Reports steps that were skipped because a gradient was not finite, and ends the run after many in a row."""

    def __init__(self) -> None:
        self._known: int | None = None
        self._unseen: list[tuple[int, Any]] = []  # steps, and the numbers of skipped steps after them

    def on_begin(self) -> None:
        """Starts from the model's count, since a resumed run may have skipped steps before."""
        self._known = int(tf.convert_to_tensor(self.trainer.skipped_steps))

    def on_step(self, step: int, logs: Logs) -> None:
        """Checks this step, or on jax the previous one, so that the device need not wait."""
        self._unseen.append((step, logs["skipped_steps"]))
        if len(self._unseen) > devices.is_jax(self.trainer.strategy):
            self._check(*self._unseen.pop(0))

    def on_end(self) -> None:
        """Checks the last step."""
        for each in self._unseen:
            self._check(*each)

    def _check(self, step: int, skipped_steps: Any) -> None:
        """Warns of a skipped step, and raises ValueError after many in a row."""
        skipped = int(skipped_steps)
        if skipped == self._known:
            return
        self._known = skipped
        logging.warning("step %d was skipped since a gradient was not finite; %s so far", step,
                        count_of(skipped, "skipped step"))
        if self.trainer.value_of(self.trainer.skipped_in_a_row) >= MOST_SKIPPED_IN_A_ROW:
            raise ValueError(f"the gradients of {MOST_SKIPPED_IN_A_ROW} steps in a row were not finite: "
                             "lower --learning_rate, or train in another --precision")
