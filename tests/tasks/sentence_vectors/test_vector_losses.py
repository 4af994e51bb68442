"""Losses of sentence vectors: those of sentence-transformers, to 1e-5."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf import keras
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.tasks.sentence_vectors.objective import SentenceVectorObjective
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer, _dropout_seed


@pytest.fixture(scope="module")
def numbers(golden):
    return json.loads((golden / "sentence_transformers/numbers.json").read_text())["losses"]


def loss(numbers, objective, columns, dims=()):
    vectors = np.array(numbers["vectors"], np.float32)[:, :columns]
    task = SentenceVectorObjective(encoder(numbers), objective, 0.05, dims)
    ids = np.arange(5 * columns).reshape(5, columns, 1)  # different texts
    batch = dict(input_ids=tf.constant(ids), label_ids=tf.constant(numbers["labels"], tf.float32))
    return float(task.loss(dict(sentence_embedding=tf.constant(vectors)), batch, task.loss_denominators(batch))[0])


def encoder(numbers):
    return types.SimpleNamespace(vector_size=numbers["dims"][0])


def test_pairs_and_hard_negatives_have_the_ranking_loss(numbers):
    assert loss(numbers, "contrastive", 2) == pytest.approx(numbers["pairs"], rel=1e-5)
    assert loss(numbers, "contrastive", 4) == pytest.approx(numbers["hard_negatives"], rel=1e-5)


def test_the_matryoshka_loss_is_the_sum_over_truncated_vectors(numbers):
    for objective, columns, name in (("contrastive", 4, "hard_negatives"), ("similarity", 2, "similarity")):
        assert loss(numbers, objective, columns, numbers["dims"]) == pytest.approx(numbers[f"matryoshka_{name}"],
                                                                                   rel=1e-5)


def test_a_hard_negative_that_belongs_to_the_first_text_is_no_negative(numbers):
    """The hard negative of the second row is a text of the first row, and is left out there alone."""
    vectors = np.array(numbers["vectors"], np.float32)[:2, :3]
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    candidates = np.concatenate([units[:, 1], units[:, 2]])
    logits = units[:, 0] @ candidates.T / 0.05
    task = SentenceVectorObjective(encoder(numbers), "contrastive", 0.05)
    for copied in ([1], [2]):  # the first or the second text of the first row
        ids = tf.constant([[[1], [2], [3]], [[4], [5], copied]])
        expected = np.mean([np.log(np.exp(logits[0, :3]).sum()) - logits[0, 0],
                            np.log(np.exp(logits[1]).sum()) - logits[1, 1]])
        batch = dict(input_ids=ids)
        found = task.loss(dict(sentence_embedding=tf.constant(vectors)), batch, task.loss_denominators(batch))[0]
        assert float(found) == pytest.approx(expected, rel=1e-4)


def test_truncated_vectors_are_predicted(numbers):
    vectors = np.array(numbers["vectors"], np.float32)[:, :2]
    found = SentenceVectorObjective(encoder(numbers), "similarity", matryoshka_dims=(16, 4)).predictions(
        dict(sentence_embedding=tf.constant(vectors)), {})
    for name, dims in (("cosine", 16), ("cosine_4", 4)):
        units = vectors[..., :dims] / np.linalg.norm(vectors[..., :dims], axis=2, keepdims=True)
        np.testing.assert_allclose(found[name], (units[:, 0] * units[:, 1]).sum(axis=1), atol=1e-6)
    assert set(found) == {"cosine", "cosine_4"}
    with pytest.raises(ValueError, match="matryoshka_dims must be from 1 to 16, .* Received: 32, 16"):
        SentenceVectorObjective(encoder(numbers), "similarity", matryoshka_dims=(32, 16))


IDS = np.random.default_rng(1).integers(5, 50, [8, 3, 6], np.int32)
COMPARING = {"pairs": {}, "whole batch": dict(whole_batch=True, matryoshka_dims=(8, 4))}
BATCH = dict(input_ids=IDS, input_mask=np.ones_like(IDS), segment_ids=np.zeros_like(IDS))


def trainer_of(name, dropout=0.0, count=1, **options):
    config = TINY.replace(vocab_size=50, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
                          initializer_range=0.5)
    keras.utils.set_random_seed(1)
    objective = SentenceVectorObjective(AlbertSentenceEncoder(config), "contrastive", 0.5, **COMPARING[name])
    optimizer = create_optimizer("adamw", learning_rate=0.01, num_train_steps=9, num_warmup_steps=0)
    return Trainer(objective, optimizer, 7, count, **options)


def steps_of(name, strategy=None, **options):
    """The losses and gradient norms of two steps, and the weights after them."""
    with (strategy or tf.distribute.get_strategy()).scope():
        trainer = trainer_of(name, **options)
    batches = tf.data.Dataset.from_tensors(BATCH).repeat(2).unbatch().batch(8, drop_remainder=True)
    if strategy:
        batches = strategy.experimental_distribute_dataset(batches)
    logs, iterator = [], iter(batches)
    for _ in range(2):
        log = trainer.step(iterator)
        logs.append([log["loss"], log["gradient_norm"]])
    return [logs, *(variable.numpy() for variable in trainer.model.weights)]


@pytest.mark.parametrize("name", COMPARING)
def test_losses_compare_the_rows_of_a_micro_batch_on_any_number_of_parts_and_devices(name, mirrored):
    expected = steps_of(name, count=2)
    for options in (dict(parts=2), dict(strategy=mirrored)):
        for one, other in zip(steps_of(name, count=2, **options), expected):
            np.testing.assert_allclose(one, other, atol=1e-4, err_msg=options)


def gradients_of(trainer, batch):
    """The gradients and losses of a step, before the update."""
    denominators = trainer.objective.loss_denominators(batch)
    return tf.function(lambda: trainer._accumulated(batch, denominators, tf.constant(0)))()


def gradients_at_once(trainer, batch, count):
    """The same by one tape over the vectors of all micro-batches, each with its own dropout."""
    with tf.GradientTape() as tape:
        vectors = [trainer.model(dict({name: values[i::count] for name, values in batch.items()}, dropout_part=0,
                                      dropout_seed=_dropout_seed(7, trainer.optimizer.iterations, i)),
                                 training=True)["sentence_embedding"] for i in range(count)]
        vectors = tf.reshape(tf.stack(vectors, axis=1), [-1, *vectors[0].shape[1:]])
        denominators = trainer.objective.loss_denominators(batch)
        loss, _ = trainer.objective.loss(dict(sentence_embedding=vectors), batch, denominators)
    return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(
        loss, list(map(keras.tf_variable, trainer.model.trainable_variables)), unconnected_gradients="zero")], loss


@pytest.mark.parametrize("dropout, count, options", [
    (0.0, 4, {}), (0.1, 2, {}),
    pytest.param(0.1, 2, dict(loss_scaling=True, jit_compile=True), marks=pytest.mark.long)], ids=str)
def test_micro_batches_have_the_gradient_of_the_whole_batch(dropout, count, options):
    """GradCache: negatives are those of the whole batch, whose gradient is the reference, to 1e-5."""
    batch = {name: tf.constant(values) for name, values in BATCH.items()}
    trainer = trainer_of("whole batch", dropout, count, **options)
    gradients, losses = gradients_of(trainer, batch)
    expected, loss = gradients_at_once(trainer, batch, count)
    assert float(losses["loss"]) == pytest.approx(float(loss), rel=1e-5)
    for one, other in zip(gradients, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * float(tf.linalg.global_norm(expected)))
    fewer_negatives = gradients_of(trainer_of("pairs", dropout, count), batch)[1]["loss"]
    assert float(loss) - float(fewer_negatives) > 0.1
