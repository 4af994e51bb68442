"""The callbacks of a run: steps, saving, signals, progress and skipped steps."""

import contextlib
import logging
import os
import signal
import threading
import types

import numpy as np
import pytest
import tensorflow as tf
from slope import SlopeObjective

from albert_tf import devices
from albert_tf.training import callbacks
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import MOST_SKIPPED_IN_A_ROW, Callback, Trainer


def fit(x, *beside, first_step=0, **arguments):
    """Trains on values, one in each step, and returns the trainer."""
    optimizer = create_optimizer("adamw", 0.1, num_train_steps=100, num_warmup_steps=0)
    trainer = Trainer(SlopeObjective(), optimizer, **arguments)
    batches = tf.data.Dataset.from_tensor_slices(dict(x=tf.constant(x, tf.float32)[:, None]))
    trainer.fit(batches, len(x), beside, first_step)
    return trainer


class Steps(Callback):
    """Collects the steps, and calls a function at one of them."""

    def __init__(self, at=None, call=print):
        self.seen, self._at, self._call = [], at, call

    def on_step(self, step, logs):
        self.seen.append(step)
        if step == self._at:
            self._call()


def test_steps_go_on_counting_after_a_restart_and_several_to_a_return_to_the_host_are_the_same():
    steps, x = Steps(), [1.0, -2.0, 3.0, -4.0, 5.0]
    several = fit(x, steps, first_step=7, steps_per_execution=2)
    assert steps.seen == [9, 11, 12] and several.optimizer.iterations == 5
    np.testing.assert_array_equal(several.model.w, fit(x).model.w)


@pytest.mark.parametrize("first_step, every, expected", [(0, 3, [3, 6, 8]), (2, 3, [3, 6, 8]), (0, 100, [8])])
def test_saving_at_multiples_and_at_the_end(first_step, every, expected):
    saved, saving = [], callbacks.Saving(first_step, 8, every, lambda step: saved.append(step))
    saving.trainer = types.SimpleNamespace(snapshot=lambda: print, strategy=None)
    for step in range(first_step + 1, 9):
        saving.on_step(step, {})
    assert saved == expected


@pytest.fixture
def saving(monkeypatch):
    """Saves each second step of six by jax. A step is in `saving.done` before and after it is written."""
    def write(step):
        saving.done.append(f"writing {step}")
        saving.may_end.wait(60)
        if step == 4:
            raise OSError("disk full")
        saving.done.append(f"{step} is written")

    monkeypatch.setattr(devices, "is_jax", lambda strategy: True)
    with callbacks.Saving(0, 6, 2, write) as saving:
        saving.done, saving.may_end = [], threading.Event()
        saving.trainer = types.SimpleNamespace(strategy=None, snapshot=lambda: lambda: None)
        yield saving


def test_steps_of_jax_run_while_one_is_written(saving):
    for step in (1, 2, 3):
        saving.on_step(step, {})
    assert "2 is written" not in saving.done
    saving.may_end.set()
    saving.save(3)
    assert saving.done == ["writing 2", "2 is written", "writing 3", "3 is written"]


def test_an_error_of_writing_while_steps_of_jax_run_ends_the_run(saving):
    saving.may_end.set()
    for step in (1, 2, 3, 4):
        saving.on_step(step, {})
    with pytest.raises(OSError, match="disk full"):
        saving.on_step(6, {})
    assert saving.done == ["writing 2", "2 is written", "writing 4"]


@pytest.mark.parametrize("step, expected", [(2, [3]), (4, [])])
def test_a_signal_to_another_process_of_jax_ends_this_one_after_the_next_step(step, expected):
    saved, others = [], [signal.SIGTERM if step == each else 0 for each in (1, 2, 3, 4)]
    with pytest.raises(SystemExit) as ended:
        with callbacks.EndOnSignal(0, saved.append, False, lambda own: max(own, others.pop(0))) as end_on_signal:
            fit([1.0] * 4, end_on_signal)
    assert saved == expected and ended.value.code == 128 + signal.SIGTERM  # the last step is saved in any case


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_signals_save_the_step_and_end_the_process(hang_up, number):
    saved, before = [], signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, callbacks.EndOnSignal(0, saved.append, writes=True) as end_on_signal:
        assert signal.getsignal(number) is not before
        fit([1.0] * 8, Steps(at=2, call=lambda: os.kill(os.getpid(), number)), end_on_signal)
    assert saved == [2] and ended.value.code == 128 + number
    assert signal.getsignal(number) is before


def test_sighup_stays_ignored_where_nohup_ignores_it():
    before, saved = signal.signal(signal.SIGHUP, signal.SIG_IGN), []
    try:
        with callbacks.EndOnSignal(0, saved.append, writes=True):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and not saved
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("when", ["before", "during"])
def test_sigterm_ends_the_process_during_an_evaluation(when):
    done = []

    def save(step):
        if when == "before":
            os.kill(os.getpid(), signal.SIGTERM)
        done.append(step)
        with end_on_signal.saved(step):
            if when == "during":
                os.kill(os.getpid(), signal.SIGTERM)
            done.append("evaluation")

    with pytest.raises(SystemExit) as ended, callbacks.EndOnSignal(0, done.append, writes=True) as end_on_signal:
        fit([1.0] * 8, callbacks.Saving(0, 8, 3, save), end_on_signal)
    assert done == [3] and ended.value.code == 128 + signal.SIGTERM


def test_an_error_that_replaces_what_a_signal_raised_ends_as_the_signal(hang_up):
    """TensorFlow's C code raises SystemError if a handler raises within it, and its device scopes RuntimeError."""
    def replaced(*numbers):
        with callbacks.EndOnSignal(0, print, writes=True) as end_on_signal:
            with contextlib.nullcontext() if len(numbers) > 1 else end_on_signal.saved(3):
                try:
                    for number in numbers:
                        os.kill(os.getpid(), number)
                finally:
                    raise SystemError("scope")

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with pytest.raises(SystemExit) as ended:
            replaced(number)
        assert ended.value.code == 128 + number
    with pytest.raises(KeyboardInterrupt):
        replaced(signal.SIGINT, signal.SIGINT)
    with pytest.raises(SystemError):
        replaced()


def test_an_error_of_a_callback_is_not_the_end_of_the_data():
    for error in (tf.errors.OutOfRangeError(None, None, "x.data: File too large"), StopIteration()):
        def fail(error=error):
            raise error

        with pytest.raises(type(error)):
            fit([1.0] * 3, Steps(at=1, call=fail))


def test_skipped_steps_are_reported_and_too_many_in_a_row_end_the_run(caplog):
    caplog.set_level(logging.WARNING)
    fit([1.0, np.nan, 1.0], callbacks.SkippedSteps())
    assert "step 2 was skipped since a gradient was not finite; 1 skipped step so far" in caplog.text
    fit([np.nan] * (MOST_SKIPPED_IN_A_ROW - 1) + [1.0], callbacks.SkippedSteps())
    with pytest.raises(ValueError, match="steps in a row were not finite"):
        fit([np.nan] * (MOST_SKIPPED_IN_A_ROW + 1), callbacks.SkippedSteps())


def test_a_terminal_gets_a_bar_with_steps_speed_and_loss(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")  # a fast machine's speed has many digits
    fit([2.0] * 5, callbacks.Progress(0, 5, batch_size=1, saving=callbacks.Saving(0, 5, 9, print)))
    shown = capsys.readouterr().err
    assert "5/5" in shown and "examples/s" in shown and "loss" in shown


def test_a_line_has_the_speed_and_the_time_left_without_compilation(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    now = [0.0]
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now[0])
    saving = callbacks.Saving(10, 100, 40, lambda step: None, lambda step: now.append(now.pop() + 100))
    saving.trainer = types.SimpleNamespace(snapshot=lambda: print, strategy=None)
    progress = callbacks.Progress(10, 100, batch_size=8, saving=saving)
    for step in range(11, 101):
        now[0] += 600 if step == 11 else 2  # the first step is compiled
        saving.on_step(step, {})
        progress.on_step(step, dict(loss=0.5, learning_rate=0.1))
    assert [record.getMessage() for record in caplog.records][:4] == [
        "step 11 of 100, loss 0.5000, learning rate 0.1",
        "step 26 of 100, loss 0.5000, learning rate 0.1, 4.0 examples/s, 02:28 left",
        "step 40 of 100, loss 0.5000, learning rate 0.1, 4.0 examples/s, 05:20 left",  # 60 steps and two evaluations
        "step 55 of 100, loss 0.5000, learning rate 0.1, 4.0 examples/s, 04:50 left"]
    assert caplog.records[-1].getMessage().endswith("4.0 examples/s, 00:00 left")


def test_the_first_step_of_each_length_is_no_part_of_the_time_left(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    now, lengths = [0.0], [16, 32, 16, 64, 32, 64, 16, 16] + [32, 64] * 20
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now[0])
    saving = callbacks.Saving(0, 48, 100, lambda step: None)
    saving.trainer = types.SimpleNamespace(snapshot=lambda: print, strategy=None)
    progress = callbacks.Progress(0, 48, batch_size=8, saving=saving, lengths=lengths)
    for step, length in enumerate(lengths, start=1):
        now[0] += 12 if length not in lengths[: step - 1] else 2
        saving.on_step(step, {})
        progress.on_step(step, dict(loss=0.5, learning_rate=0.1))
    assert caplog.records[0].getMessage() == (  # after 12, 24, 26 and 38 s
        "step 4 of 48, loss 0.5000, learning rate 0.1, 4.0 examples/s, 01:28 left")
    assert all("4.0 examples/s" in record.getMessage() for record in caplog.records)
