"""Checkpoints are complete or do not exist, and a damaged one is skipped; the best run in a directory."""

import json
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification.task import ClassificationObjective
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.objective import Objective
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer
from albert_tf.weights.runs import best_or_latest, checkpoint_of, numbered, saved_runs, saved_step
from albert_tf.weights.tf1 import checkpoint_prefix

pytestmark = pytest.mark.both_stacks


class OneVariable(keras.Model):
    def __init__(self, size):
        super().__init__()
        self.w = self.add_weight(name="w", shape=[size])
        self.built = True


class OneVariableObjective(Objective):
    loss = None

    def __init__(self, size):
        super().__init__(OneVariable(size))


def new_run(directory, size=1000, loss_scaling=False, **arguments):
    optimizer = create_optimizer("lamb", num_train_steps=10, num_warmup_steps=0)
    trainer = Trainer(OneVariableObjective(size), optimizer, loss_scaling=loss_scaling)
    return trainer, Checkpoints(str(directory), trainer, AlbertConfig(vocab_size=60), **arguments)


def save_at(trainer, checkpoints, step):
    trainer.optimizer.iterations.assign(step)
    trainer.model.w.assign(tf.fill(trainer.model.w.shape, float(step)))
    checkpoints.save(step)


@pytest.fixture
def run(tmp_path):
    trainer, checkpoints = new_run(tmp_path)
    for step in (5, 10):
        save_at(trainer, checkpoints, step)
    return tmp_path


@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
def test_a_damaged_best_checkpoint_does_not_keep_a_run_from_continuing(run, caplog, part):
    new_run_at(run, 5)[1].save_best()
    os.truncate(run / f"model.ckpt-best.{part}", 0)
    assert new_run(run)[1].restore_latest() == 10
    assert f"{run}/model.ckpt-best is truncated or changed: " in caplog.text
    assert saved_step(str(run)) == 0


def test_all_of_the_run_comes_back_also_in_float16_with_the_initial_loss_scale(run):
    assert new_run(run)[1].restore_latest() == 10
    assert tf.train.latest_checkpoint(str(run)) == str(run / "model.ckpt-10")
    assert json.loads((run / "albert_config.json").read_text())["vocab_size"] == 60
    trainer, checkpoints = new_run(run, loss_scaling=True)
    assert checkpoints.restore_latest() == 10 == trainer.optimizer.iterations and trainer.model.w[0] == 10.0
    assert trainer.loss_scale.value == 2.0**15 and trainer.loss_scale.good_steps == 0
    trainer.loss_scale.value.assign(4.0)
    save_at(trainer, checkpoints, 15)
    again, checkpoints = new_run(run, loss_scaling=True)
    assert checkpoints.restore_latest() == 15 and again.loss_scale.value == 4.0
    assert new_run(run)[1].restore_latest() == 15


def test_weights_that_no_run_saved_are_not_replaced(tmp_path):
    trainer, checkpoints = new_run(tmp_path)
    tf.train.Checkpoint(model=trainer.model).write(str(tmp_path / "model.ckpt-best"))  # as convert_checkpoint.py
    with pytest.raises(ValueError, match="model.ckpt-best was not saved by a run"):
        checkpoints.restore_latest()
    checkpoints.save_best()
    assert checkpoints.restore_latest() == 0


@pytest.mark.parametrize("name", ["model.safetensors", "saved_model.pb", "model.weights.h5", "span_int8.onnx"])
def test_no_run_starts_in_the_folder_of_another_model(tmp_path, name):
    (tmp_path / name).touch()
    trainer, checkpoints = new_run(tmp_path)
    with pytest.raises(ValueError, match=f"{name} is of another model"):
        checkpoints.restore_latest()
    save_at(trainer, checkpoints, 5)
    assert checkpoints.restore_latest() == 5  # a run to which a model was added later goes on


def test_only_the_latest_few_and_the_best_are_kept(tmp_path):
    trainer, checkpoints = new_run(tmp_path, keep=2)
    save_at(trainer, checkpoints, 9)
    checkpoints.save_best()
    for step in (10, 11):
        save_at(trainer, checkpoints, step)
    assert list(numbered(str(tmp_path)).values()) == [str(tmp_path / f"model.ckpt-{step}") for step in (10, 11)]
    assert best_or_latest(str(tmp_path)) == str(tmp_path / "model.ckpt-best")


def flipped(data):
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]


@pytest.mark.parametrize("part, damage", [
    ("data-00000-of-00001", lambda data: data[:3000]), ("data-00000-of-00001", flipped),
    ("index", lambda data: data[:100]), ("data-00000-of-00001", None)],
    ids=["data cut", "bit flipped", "index cut", "no data"])
def test_a_damaged_checkpoint_is_passed_over(run, part, damage):
    path = run / f"model.ckpt-10.{part}"
    path.write_bytes(damage(path.read_bytes())) if damage else path.unlink()
    trainer, checkpoints = new_run(run)
    assert checkpoints.restore_latest() == 5 == trainer.optimizer.iterations
    np.testing.assert_array_equal(trainer.model.w, np.full(1000, 5.0))


def test_a_damaged_checkpoint_of_a_later_step_does_not_count_as_the_latest(run):
    os.truncate(run / "model.ckpt-10.data-00000-of-00001", 3000)
    trainer, checkpoints = new_run(run, keep=1)
    assert checkpoints.restore_latest() == 5
    save_at(trainer, checkpoints, 8)
    assert tf.train.latest_checkpoint(str(run)) == str(run / "model.ckpt-8")
    assert new_run(run)[1].restore_latest() == 8
    save_at(trainer, checkpoints, 12)
    assert [os.path.basename(prefix) for prefix in numbered(str(run)).values()] == ["model.ckpt-12"]


@pytest.mark.parametrize("of_the_run", [lambda trainer: trainer.model.w,
                                        lambda trainer: trainer.optimizer.get_slot(trainer.model.w, "m")],
                         ids=["weights", "slots"])
def test_a_checkpoint_with_values_that_are_not_finite_is_passed_over_by_name(run, of_the_run, caplog):
    trainer, checkpoints = new_run(run)
    of_the_run(trainer).assign(tf.fill([1000], float("nan")))
    checkpoints.save(15)
    trainer, checkpoints = new_run(run)
    assert checkpoints.restore_latest() == 10
    assert re.search(r"model.ckpt-15 cannot be used: 1,000 of the 1,000 values of (one_variable_?\d*/)?w", caplog.text)
    np.testing.assert_array_equal(of_the_run(trainer), of_the_run(new_run_at(run, 10)[0]))


def new_run_at(directory, step):
    trainer, checkpoints = new_run(directory)
    checkpoints.restore(str(directory / f"model.ckpt-{step}"))
    return trainer, checkpoints


def test_nothing_but_damaged_checkpoints_is_an_error_and_no_new_start(run):
    for prefix in numbered(str(run)).values():
        os.truncate(prefix + ".index", 10)
    with pytest.raises(ValueError, match="no checkpoint in .* can be read"):
        new_run(run)[1].restore_latest()


def test_partial_files_of_a_killed_run_are_not_a_checkpoint_and_are_removed_by_the_next_save(run):
    left = run / ".checkpoints.tmp"
    (left / "model.ckpt-15_temp").mkdir(parents=True)
    (left / "model.ckpt-15.data-00000-of-00001").write_bytes(b"half")
    (run / "model.ckpt-15.data-00000-of-00001").write_bytes(b"renamed before its index")
    trainer, checkpoints = new_run(run)
    assert checkpoints.restore_latest() == 10
    assert left.exists()  # a process that only reads removes nothing
    save_at(trainer, checkpoints, 20)
    assert not left.exists() and not list(run.glob("model.ckpt-15*"))
    assert new_run(run)[1].restore_latest() == 20


def test_the_file_of_the_latest_checkpoint_is_mended_when_a_run_is_opened(run):
    (run / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\n')  # killed before it was renamed
    assert new_run(run)[1].restore_latest() == 10
    assert tf.train.latest_checkpoint(str(run)) == str(run / "model.ckpt-10")


@pytest.mark.parametrize("save", [lambda checkpoints: checkpoints.save(15), Checkpoints.save_best],
                         ids=["step", "best"])
def test_a_checkpoint_whose_temporary_files_are_gone_is_an_error(run, monkeypatch, save):
    trainer, checkpoints = new_run(run)
    write = checkpoints._checkpoint.write

    def write_and_lose(prefix):
        write(prefix)
        shutil.rmtree(os.path.dirname(prefix))

    before = sorted(os.listdir(run))
    monkeypatch.setattr(checkpoints._checkpoint, "write", write_and_lose)
    with pytest.raises(OSError, match="model.ckpt-(15|best) was not saved"):
        save(checkpoints)
    assert sorted(os.listdir(run)) == before
    assert tf.train.latest_checkpoint(str(run)) == str(run / "model.ckpt-10")


def test_a_checkpoint_of_another_model_is_refused(run):
    with pytest.raises(ValueError, match="model.ckpt-10 is not a checkpoint of this model"):
        new_run(run, size=7)[1].restore_latest()


CONFIG = TINY.replace(cross_layer_sharing="none")


def new_model_run(directory, **changes):
    config = CONFIG.replace(**changes)
    trainer = Trainer(ClassificationObjective(AlbertClassifier(config, 2, 0.0)),
                      create_optimizer("adamw", num_train_steps=10, num_warmup_steps=0))
    return trainer, Checkpoints(str(directory), trainer, config)


@pytest.fixture(scope="module")
def of_a_model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    trainer, checkpoints = new_model_run(directory)
    trainer.optimizer.iterations.assign(5)
    checkpoints.save(5)
    return directory


@pytest.mark.parametrize("changes, difference", [
    (dict(cross_layer_sharing="all"), "cross_layer_sharing is none in {} and all"),
    (dict(num_attention_heads=4), "num_attention_heads is 2 in {} and 4"),
    (dict(num_hidden_layers=1, hidden_act="relu"), "num_hidden_layers is 2 in {} and 1")])
def test_a_run_of_another_config_is_not_continued(of_a_model, changes, difference):
    with pytest.raises(ValueError) as error:
        new_model_run(of_a_model, **changes)[1].restore_latest()
    assert difference.format(of_a_model / "albert_config.json") in str(error.value)


def test_dropout_may_differ_and_sharing_may_be_written_as_groups(of_a_model):
    changes = dict(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2, initializer_range=0.1)
    assert new_model_run(of_a_model, **changes)[1].restore_latest() == 5
    assert new_model_run(of_a_model, cross_layer_sharing="all", num_hidden_groups=2)[1].restore_latest() == 5


def test_every_variable_and_every_slot_of_the_optimizer_is_read(of_a_model, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(of_a_model, run)
    tf.train.Checkpoint(model=new_model_run(tmp_path / "other")[0].model, step=tf.Variable(7, dtype=tf.int64)).write(
        str(run / "model.ckpt-7"))
    with pytest.raises(ValueError, match=r"model.ckpt-7 .* lacks bert/.* \(m\), "):
        new_model_run(run)[1].restore_latest()
    (run / "albert_config.json").unlink()  # an earlier run without a config
    for path in run.glob("model.ckpt-7.*"):
        path.unlink()
    with pytest.raises(ValueError, match="other variables: bert/encoder/transformer/group_1/.* and 29 others"):
        new_model_run(run, cross_layer_sharing="all")[1].restore_latest()


def test_a_directory_that_could_not_be_read_again_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the path of a checkpoint or a SavedModel must not have"):
        new_run(tmp_path / "run[1]")


def test_one_of_several_processes_writes(tmp_path):
    trainer, checkpoints = new_run(tmp_path, writes=False)
    save_at(trainer, checkpoints, 5)
    checkpoints.save_best()
    assert not os.listdir(tmp_path)


def write_run(directory, best=None, name="model.ckpt-3"):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.index").write_bytes(b"")
    if best is not None:
        row = dict(accuracy=best, global_step=3, best_metric="accuracy")
        (directory / "eval_history.jsonl").write_text(json.dumps(row) + "\n")
        (directory / "best_trial.txt").write_text("3:3:0.99\n")  # nothing reads it


def test_the_best_run_is_that_with_the_highest_value_or_else_the_lowest_seed(tmp_path):
    assert checkpoint_of(str(tmp_path)) is None and checkpoint_of(str(tmp_path / "nowhere")) is None
    for seed in (10, 9):
        write_run(tmp_path / f"seed_{seed}")
    assert checkpoint_of(str(tmp_path)) == str(tmp_path / "seed_9" / "model.ckpt-3")
    write_run(tmp_path, 0.6)
    write_run(tmp_path / "seed_9", 0.7, "model.ckpt-best")
    write_run(tmp_path / "seed_10", 0.5)
    write_run(tmp_path / "seed_11")  # was not evaluated
    (tmp_path / "seed_12").mkdir()  # has no checkpoint
    assert saved_runs(str(tmp_path)) == [str(tmp_path), *(str(tmp_path / f"seed_{seed}") for seed in (9, 10, 11))]
    assert checkpoint_of(str(tmp_path)) == str(tmp_path / "seed_9" / "model.ckpt-best")
    write_run(tmp_path, 0.8)
    assert checkpoint_of(str(tmp_path)) == str(tmp_path / "model.ckpt-3")


def test_initial_weights_are_a_directorys_own_checkpoint_before_those_of_runs_in_it(tmp_path):
    write_run(tmp_path / "seed_9", 0.7)
    assert checkpoint_prefix(str(tmp_path)) == str(tmp_path / "seed_9" / "model.ckpt-3")
    for name in ("model.ckpt-3", "model.ckpt-best"):
        write_run(tmp_path, 0.6, name)
    assert checkpoint_prefix(str(tmp_path)) == str(tmp_path / "model.ckpt-best")
