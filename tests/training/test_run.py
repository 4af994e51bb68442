"""A run: its steps, log, curves, checkpoints and evaluations, and how it ends."""

import contextlib
import logging
import os
import re
import resource
import signal

import numpy as np
import pytest
import tensorflow as tf
from slope import Task

from albert_tf.config import AlbertConfig
from albert_tf.training import run
from albert_tf.training.checkpoints import Checkpoints, numbered
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.run import RunOptions, TrainerOptions, new_trainer, steps_per_execution, train
from albert_tf.training.trainer import MOST_SKIPPED_IN_A_ROW, Trainer

CONFIG = AlbertConfig(vocab_size=10)


def train_to_step_4(folder, batches=6):
    """Trains, on data of so many batches, and saves every two steps."""
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        trainer = Trainer(Task())
        trainer.compile(create_optimizer("adamw", 0.1, num_train_steps=4, num_warmup_steps=0))

    def batches_from(first_step):
        return lambda context: tf.data.Dataset.from_tensors(dict(x=tf.ones([2]))).repeat(batches)

    train(trainer, Checkpoints(str(folder), trainer, CONFIG), batches_from, RunOptions(str(folder), 4, 2, 2), strategy)


@contextlib.contextmanager
def largest_file(size):
    """Limits the size in bytes of the files of this process, like `ulimit -f`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_checkpoint_that_cannot_be_written_ends_the_run_with_an_error(tmp_path):
    whole, refused = tmp_path / "whole", tmp_path / "refused"
    train_to_step_4(whole)
    size = (whole / "model.ckpt-2.data-00000-of-00001").stat().st_size
    with largest_file(size - 1), pytest.raises(OSError, match="model.ckpt-2.*File too large"):
        train_to_step_4(refused)
    assert not numbered(str(refused))
    train_to_step_4(refused)
    assert numbered(str(refused)) == [str(refused / f"model.ckpt-{step}") for step in (2, 4)]


def test_data_that_ends_before_the_last_step_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="^" + re.escape("training ended at step 3 of 4, since its data ended")):
        train_to_step_4(tmp_path, batches=3)


def test_workers_that_do_not_share_the_directory_are_an_error(tmp_path, monkeypatch):
    train_to_step_4(tmp_path)
    monkeypatch.setattr("albert_tf.training.run.values_of_all", lambda strategy, step: [step, 0])
    with pytest.raises(ValueError, match="has step 0 on one worker and step 4 on another: all workers must share"):
        train_to_step_4(tmp_path)


def test_an_evaluation_without_all_of_its_batches_is_an_error():
    trainer = Trainer(Task())
    trainer.compile(create_optimizer("adamw", 0.1, num_train_steps=4, num_warmup_steps=0))
    batches = tf.data.Dataset.from_tensors(dict(x=tf.ones([2]))).repeat(3)
    trainer.evaluate(batches, steps=3, verbose=0)
    with pytest.raises(ValueError, match="^evaluation ended after 3 of 4 batches"):
        trainer.evaluate(batches, steps=4, verbose=0)


def fit(x, *beside, **compile_arguments):
    """Trains on values, one in each step, and returns the trainer."""
    trainer = Trainer(Task())
    trainer.compile(create_optimizer("adamw", 0.1, num_train_steps=100, num_warmup_steps=0), **compile_arguments)
    batches = tf.data.Dataset.from_tensor_slices(dict(x=tf.constant(x, tf.float32)[:, None]))
    trainer.fit(batches, steps_per_epoch=len(x), verbose=0, callbacks=list(beside))
    return trainer


class Steps(run.StepCallback):
    def __init__(self, first_step=0):
        super().__init__(first_step)
        self.seen = []

    def on_step(self, step, logs):
        self.seen.append(step)


def test_steps_go_on_counting_after_a_restart():
    steps = Steps(first_step=7)
    fit([1.0] * 3, steps)
    assert steps.seen == [8, 9, 10]


def test_several_steps_to_a_return_to_the_host_are_the_same_steps():
    steps = Steps()
    x = [1.0, -2.0, 3.0, -4.0, 5.0]
    several = fit(x, steps, steps_per_execution=2)
    assert steps.seen == [2, 4, 5] and several.optimizer.iterations == 5
    np.testing.assert_array_equal(several.model.w, fit(x).model.w)


@pytest.mark.parametrize("save_checkpoints_steps, expected", [
    (1500, 750), (999, 999), (814, 814), (5000, 1000), (1009, 1), (1, 1)])
def test_a_checkpoint_falls_on_a_return_to_the_host(monkeypatch, save_checkpoints_steps, expected):
    options = RunOptions("", 100, 8, save_checkpoints_steps, iterations_per_loop=1000)
    assert steps_per_execution(options, tf.distribute.get_strategy()) == 1
    monkeypatch.setattr(tf.distribute, "TPUStrategy", type(tf.distribute.get_strategy()))
    assert steps_per_execution(options, tf.distribute.get_strategy()) == expected


@pytest.mark.parametrize("first_step, every, expected", [(0, 3, [3, 6, 8]), (2, 3, [3, 6, 8]), (0, 100, [8])])
def test_saving_at_multiples_and_at_the_end(first_step, every, expected):
    saved = []
    fit([1.0] * (8 - first_step), run.Saving(first_step, 8, every, saved.append))
    assert saved == expected


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_sigterm_and_ctrl_c_save_the_step_and_end_the_process(number):
    class Terminate(Steps):
        def on_step(self, step, logs):
            if step == 2:
                os.kill(os.getpid(), number)

    saved, before = [], signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, run.EndOnSignal(0, saved.append, writes=True) as end_on_signal:
        fit([1.0] * 8, Terminate(), end_on_signal)
    assert saved == [2] and ended.value.code == 128 + number
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_ends_the_process_at_once():
    saved = []
    with pytest.raises(KeyboardInterrupt), run.EndOnSignal(0, saved.append, writes=True):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert not saved


@pytest.mark.parametrize("when", ["before", "during"])
def test_sigterm_ends_the_process_during_an_evaluation(when):
    done = []

    def evaluate(step):
        if when == "during":
            os.kill(os.getpid(), signal.SIGTERM)
        done.append("evaluation")

    def save(step):
        if when == "before":
            os.kill(os.getpid(), signal.SIGTERM)
        done.append(step)
        with end_on_signal.saved(step):
            evaluate(step)

    with pytest.raises(SystemExit) as ended, run.EndOnSignal(0, done.append, writes=True) as end_on_signal:
        fit([1.0] * 8, run.Saving(0, 8, 3, save), end_on_signal)
    assert done == [3] and ended.value.code == 128 + signal.SIGTERM


def test_the_handler_of_sigterm_is_put_back_after_an_error():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), run.EndOnSignal(0, print, writes=True):
        assert signal.getsignal(signal.SIGTERM) is not before
        raise KeyboardInterrupt
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("error, raised, message", [
    (tf.errors.OutOfRangeError(None, None, "x.data: File too large"), OSError, "^x.data: File too large$"),
    (StopIteration(), RuntimeError, "^step 1: a callback raised StopIteration$")], ids=["out of range", "stop"])
def test_an_error_of_a_callback_is_not_the_end_of_the_data(error, raised, message):
    class Failing(Steps):
        def on_step(self, step, logs):
            raise error

    with pytest.raises(raised, match=message):
        fit([1.0] * 3, Failing())


def test_skipped_steps_are_reported_and_too_many_in_a_row_end_the_run(caplog):
    caplog.set_level(logging.WARNING)
    fit([1.0, np.nan, 1.0], run.SkippedSteps(0))
    assert "step 2 was skipped since a gradient was not finite; 1 skipped step so far" in caplog.text
    fit([np.nan] * (MOST_SKIPPED_IN_A_ROW - 1) + [1.0], run.SkippedSteps(0))
    with pytest.raises(ValueError, match="steps in a row were not finite"):
        fit([np.nan] * (MOST_SKIPPED_IN_A_ROW + 1), run.SkippedSteps(0))


def test_a_terminal_gets_a_bar_with_steps_speed_and_loss(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")  # a fast machine's speed has many digits
    fit([2.0] * 5, run.Progress(0, 5, batch_size=1))
    shown = capsys.readouterr().err
    assert "5/5" in shown and "examples/s" in shown and "loss" in shown


def test_a_line_has_the_speed_and_the_time_left_without_compilation(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    now = [0.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])
    progress = run.Progress(10, 100, batch_size=8)
    for step in range(11, 101):
        now[0] += 600 if step == 11 else 2  # the first step is compiled
        progress.on_step(step, dict(loss=0.5, learning_rate=0.1))
    assert [record.getMessage() for record in caplog.records][:3] == [
        "step 11 of 100, loss 0.5000, learning rate 0.1",
        "step 26 of 100, loss 0.5000, learning rate 0.1, 4.0 examples/s, 02:28 left",
        "step 41 of 100, loss 0.5000, learning rate 0.1, 4.0 examples/s, 01:58 left"]
    assert caplog.records[-1].getMessage().endswith("4.0 examples/s, 00:00 left")


@pytest.mark.parametrize("num_warmup_steps, start_warmup_step, warns", [
    (0, 0, False), (0, 100, False), (99, 0, False), (100, 0, True), (200, 0, True), (50, 49, False), (50, 50, True)])
def test_a_warm_up_that_does_not_end_before_the_run_is_warned_of(caplog, num_warmup_steps, start_warmup_step, warns):
    options = TrainerOptions("adamw", 3e-5, num_warmup_steps, start_warmup_step)
    new_trainer(Task(), tf.distribute.get_strategy(), options, RunOptions("run", 100, 8))
    assert ("the learning rate stays below its peak of 3e-05" in caplog.text) == warns
