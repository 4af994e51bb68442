"""What a run trains: the head, or the last layers too; checkpoints, optimizer and log have no more."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from albert_tf import keras
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.span import AlbertSpan
from albert_tf.tasks.classification.task import ClassificationObjective
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.config import Devices, FineTuningTraining, Schedule
from albert_tf.training.run import new_trainer, restrict_training
from albert_tf.weights.from_pretrained import from_pretrained

pytestmark = pytest.mark.both_stacks

TINY = tiny.TINY.replace(num_hidden_layers=4, initializer_range=0.5)
BATCH = dict(tiny.rows(4, 4), label_ids=np.array([0, 1], np.int32))


def trained(model):
    return {release_name(variable) for variable in model.trainable_weights}


def blocks(model):
    """The groups of layers that train."""
    return sorted({name.split("/")[3] for name in trained(model) if "/group_" in name})


def test_the_head_trains_with_the_pooler_that_it_reads():
    model = AlbertClassifier(TINY, 3)
    restrict_training(model, FineTuningTraining(trainable="head"))
    assert trained(model) == {"output_weights", "output_bias", "bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    span = AlbertSpan(TINY)
    restrict_training(span, FineTuningTraining(trainable="head"))
    assert trained(span) == {"cls/squad/output_weights", "cls/squad/output_bias"}


@pytest.mark.parametrize("config, value, groups", [
    (dict(cross_layer_sharing="none"), "last_1", ["group_3"]),
    (dict(cross_layer_sharing="none"), "last_3", ["group_1", "group_2", "group_3"]),
    (dict(num_hidden_groups=2), "last_2", ["group_1"]),
    (dict(), "last_4", ["group_0"])])
def test_the_last_layers_train_with_the_head(config, value, groups):
    model = AlbertClassifier(TINY.replace(**config), 2)
    restrict_training(model, FineTuningTraining(trainable=value))
    assert blocks(model) == groups
    assert {"output_weights", "bert/pooler/dense/kernel"} < trained(model)
    assert not any("embedding" in name for name in trained(model))


@pytest.mark.parametrize("config, value, possible", [
    (dict(), "last_1", "this needs groups of layers, or --unshare_layers. Possible here: last_4, head"),
    (dict(num_hidden_groups=2), "last_1", "Possible here: last_2, last_4, head, all"),
    (dict(cross_layer_sharing="ffn"), "last_1", "Possible here: last_4, head, all"),
    (dict(), "last_5", "Possible here: last_4, head, all")])
def test_last_layers_that_share_their_weights_and_a_head_that_is_missing_are_refused(config, value, possible):
    with pytest.raises(ValueError, match=f"--trainable={value}: .*{possible}"):
        restrict_training(AlbertClassifier(TINY.replace(**config), 2), FineTuningTraining(trainable=value))
    with pytest.raises(ValueError, match="--trainable=head .* AlbertSentenceEncoder"):
        restrict_training(AlbertSentenceEncoder(TINY), FineTuningTraining(trainable="head"))


@pytest.mark.parametrize("options, named", [
    (dict(trainable="tail"), "--trainable .* tail"), (dict(trainable="last_0"), "--trainable")])
def test_options_that_contradict_each_other_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        FineTuningTraining(**options)


def test_the_sizes_of_the_model_are_logged_before_it_is_trained(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    trainer, _ = run_of(tmp_path)
    total = sum(np.prod(weight.shape, dtype=int) for weight in trainer.model.weights)
    assert (f"training {total:,} of {total:,} parameters: 4 layers, hidden size 8, 2 heads, intermediate size 16, "
            "embedding size 4, vocabulary of 20") in caplog.text


def run_of(directory, config=TINY, **options):
    """A trainer and its checkpoints."""
    keras.utils.set_random_seed(3)
    trainer = new_trainer(ClassificationObjective(AlbertClassifier(config, 2, 0.0)), tf.distribute.get_strategy(),
                          FineTuningTraining(learning_rate=0.05, random_seed=0, **options), Devices(), Schedule(10))
    return trainer, Checkpoints(str(directory), trainer, config)


def fit(trainer, steps):
    trainer.fit(tf.data.Dataset.from_tensors(BATCH).repeat(), steps)


@pytest.mark.long
def test_only_the_head_changes_and_a_resumed_run_takes_the_same_steps(tmp_path):
    trainer, checkpoints = run_of(tmp_path, trainable="head")
    frozen = {variable.name: variable.numpy() for variable in trainer.model.non_trainable_weights}
    assert len(frozen) == 5 + 2 + 10 + 6  # embeddings, their mapping to H, attention, feed-forward
    fit(trainer, 2)
    checkpoints.save(2)
    slots = [variable for variable in trainer.optimizer.variables[1:] if variable.name.endswith(("/m:0", "/v:0"))]
    assert len(slots) == 2 * len(trainer.model.trainable_weights) == 2 * 4
    fit(trainer, 1)
    assert all(np.array_equal(variable, frozen[variable.name]) for variable in trainer.model.non_trainable_weights)
    again, restored = run_of(tmp_path, trainable="head")
    assert restored.restore_latest() == 2
    fit(again, 1)
    for first, second in zip(trainer.model.weights, again.model.weights):
        np.testing.assert_array_equal(first, second, first.name)
    checkpoints.save(3)
    plain = from_pretrained(str(tmp_path), model="classifier")
    np.testing.assert_allclose(plain(BATCH)["logits"], trainer.model(BATCH)["logits"], atol=1e-5)


def test_a_run_is_not_continued_with_other_weights_to_train(tmp_path):
    trainer, checkpoints = run_of(tmp_path, trainable="head")
    checkpoints.save(1)
    with pytest.raises(ValueError, match="lacks .*continue a run with its own model and --trainable"):
        run_of(tmp_path)[1].restore_latest()
