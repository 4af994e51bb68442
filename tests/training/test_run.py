"""A run: its steps and checkpoints, and how it ends."""

import contextlib
import resource
import shutil
import sys

import pytest
import tensorflow as tf
from slope import SlopeObjective

from albert_tf.config import AlbertConfig
from albert_tf.data.batching import EvaluationData
from albert_tf.training import loop
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.config import Devices, FineTuningTraining, Schedule, Training
from albert_tf.training.loop import Task, TrainingData, run
from albert_tf.training.prediction import Predictor
from albert_tf.training.run import new_trainer, steps_per_execution
from albert_tf.weights.choice import Candidates, ChosenModel
from albert_tf.weights.runs import numbered

CONFIG = AlbertConfig(vocab_size=10)


class SlopeTask(Task):
    dev_sets = score = None

    def __init__(self, batches):
        model = ChosenModel(CONFIG, candidates=Candidates(do_train=True))
        super().__init__(model, tf.distribute.OneDeviceStrategy("CPU:0"),
                         Training(train_batch_size=2, learning_rate=0.1), Devices(cpu_parts=1))
        self.batches = batches

    def objective(self, config):
        return SlopeObjective()

    def settings(self, model):
        return None

    def training_data(self, seed):
        def batches_from(first_step):
            return lambda context: tf.data.Dataset.from_tensors(dict(x=tf.ones([2]))).repeat(self.batches)

        return TrainingData(Schedule(4, save_checkpoints_steps=2), batches_from)


@pytest.fixture(autouse=True)
def no_descriptions(monkeypatch):
    """Neither settings nor cards are written."""
    for name in ("write_settings", "write_run_card"):
        monkeypatch.setattr(loop, name, lambda *arguments: None)


def train_to_step_4(folder, batches=6):
    """Trains, on data of so many batches, and saves every two steps."""
    run(SlopeTask(batches), str(folder), seed=1)


@contextlib.contextmanager
def largest_file(size):
    """Limits the size in bytes of the files of this process, like `ulimit -f`."""
    before, writes_none = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # it would be cut, and read later
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes_none


def test_a_checkpoint_that_cannot_be_written_ends_the_run_with_an_error(tmp_path):
    whole, refused = tmp_path / "whole", tmp_path / "refused"
    train_to_step_4(whole)
    size = (whole / "model.ckpt-2.data-00000-of-00001").stat().st_size
    with largest_file(size - 1), pytest.raises(OSError, match="model.ckpt-2.*File too large"):
        train_to_step_4(refused)
    assert not numbered(str(refused))
    train_to_step_4(refused)
    assert numbered(str(refused)) == {step: str(refused / f"model.ckpt-{step}") for step in (2, 4)}


def test_a_folder_that_is_removed_during_the_training_is_an_error(tmp_path, monkeypatch):
    save = Checkpoints.save

    def save_and_lose(checkpoints, step):
        save(checkpoints, step)
        shutil.rmtree(tmp_path / "run")

    monkeypatch.setattr(Checkpoints, "save", save_and_lose)
    with pytest.raises(OSError, match="the folder was removed .*run"):
        train_to_step_4(tmp_path / "run")


def test_data_that_ends_before_the_last_step_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="^training ended at step 3 of 4"):
        train_to_step_4(tmp_path, batches=3)


def test_workers_that_do_not_share_the_directory_are_an_error(tmp_path, monkeypatch):
    train_to_step_4(tmp_path)
    monkeypatch.setattr("albert_tf.training.loop.values_of_all", lambda strategy, step: [step, 0])
    with pytest.raises(ValueError, match="has step 0 on one worker and step 4 on another: all workers must share"):
        train_to_step_4(tmp_path)


def test_an_evaluation_without_all_of_its_batches_is_an_error():
    objective = SlopeObjective()
    predictor = Predictor(objective.model, objective.predictions, tf.distribute.get_strategy())
    batches = tf.data.Dataset.from_tensors(dict(x=tf.ones([2]), example=tf.constant([0, -1]))).repeat(3)
    assert predictor(EvaluationData(1, 3, lambda context: batches)) == dict(y=[1.0])
    with pytest.raises(ValueError, match="^evaluation ended after 3 of 4 batches"):
        predictor(EvaluationData(1, 4, lambda context: batches))


@pytest.mark.parametrize("save_checkpoints_steps, expected", [
    (1500, 750), (999, 999), (814, 814), (5000, 1000), (1009, 1), (1, 1)])
def test_a_checkpoint_falls_on_a_return_to_the_host(monkeypatch, save_checkpoints_steps, expected):
    steps = 1000, save_checkpoints_steps
    assert steps_per_execution(*steps, tf.distribute.get_strategy()) == 1
    monkeypatch.setattr(tf.distribute, "TPUStrategy", type(tf.distribute.get_strategy()))
    assert steps_per_execution(*steps, tf.distribute.get_strategy()) == expected


@pytest.mark.parametrize("num_warmup_steps, start_warmup_step, warns", [
    (0, 0, False), (0, 100, False), (99, 0, False), (100, 0, True), (200, 0, True), (50, 49, False), (50, 50, True)])
def test_a_warm_up_that_does_not_end_before_the_run_is_warned_of(caplog, num_warmup_steps, start_warmup_step, warns):
    schedule = Schedule(100, num_warmup_steps, start_warmup_step=start_warmup_step)
    new_trainer(SlopeObjective(), tf.distribute.get_strategy(), Training(learning_rate=3e-5), Devices(), schedule)
    assert ("the learning rate stays below its peak of 3e-05" in caplog.text) == warns


@pytest.mark.parametrize("options, expected", [
    (dict(), (20, 2, 4)), (dict(num_train_epochs=500), (3437, 343, 680)),
    (dict(train_step=100_000), (100_000, 10_000, 1000)),
    (dict(train_step=7, warmup_step=0, save_checkpoints_steps=3), (7, 0, 3)),
    (dict(warmup_proportion=0.5), (20, 10, 4))])
def test_steps_warm_up_and_interval_follow_from_passes_over_the_texts(options, expected, caplog):
    caplog.set_level("INFO", logger="absl")
    schedule = FineTuningTraining(**options).schedule(220, "text")
    assert (schedule.num_train_steps, schedule.num_warmup_steps, schedule.save_checkpoints_steps) == expected
    said = " passes over 220 texts: " if options else " 3 passes over 220 texts: 20 steps of 32"
    assert said in caplog.text


def test_too_few_texts_for_a_step_are_an_error():
    with pytest.raises(ValueError, match="10 texts .* 32: .*--train_batch_size"):
        FineTuningTraining().schedule(10, "text")
