"""Losses of sentence vectors: those of sentence-transformers, to 1e-5."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.vectors import VectorPrecision
from albert_tf.tasks.sentence_vectors.task import SentenceVectorTask
from albert_tf.training.optimizer import create_optimizer
from albert_tf.training.trainer import Trainer, _dropout_seed, equal_parts


@pytest.fixture(scope="module")
def numbers(golden):
    return json.loads((golden / "sentence_transformers/numbers.json").read_text())["losses"]


def loss(numbers, objective, columns, dims=()):
    vectors = np.array(numbers["vectors"], np.float32)[:, :columns]
    task = SentenceVectorTask(encoder(numbers), objective, 0.05, dims)
    ids = np.arange(5 * columns).reshape(5, columns, 1)  # different texts
    batch = dict(input_ids=tf.constant(ids), label_ids=tf.constant(numbers["labels"], tf.float32))
    return float(task.loss(dict(sentence_embedding=tf.constant(vectors)), batch, task.loss_denominators(batch))[0])


def encoder(numbers):
    return types.SimpleNamespace(vector_size=numbers["dims"][0], stored_vectors=VectorPrecision())


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
    task = SentenceVectorTask(encoder(numbers), "contrastive", 0.05)
    for copied in ([1], [2]):  # the first or the second text of the first row
        ids = tf.constant([[[1], [2], [3]], [[4], [5], copied]])
        expected = np.mean([np.log(np.exp(logits[0, :3]).sum()) - logits[0, 0],
                            np.log(np.exp(logits[1]).sum()) - logits[1, 1]])
        batch = dict(input_ids=ids)
        found = task.loss(dict(sentence_embedding=tf.constant(vectors)), batch, task.loss_denominators(batch))[0]
        assert float(found) == pytest.approx(expected, rel=1e-4)


def test_a_single_row_can_be_learned_with_hard_negatives(numbers):
    task = SentenceVectorTask(encoder(numbers), "contrastive")
    batch = dict(input_ids=tf.constant([[[1], [2], [3]]]))
    vectors = tf.constant(np.array(numbers["vectors"], np.float32)[:1, :3])
    assert task.loss(dict(sentence_embedding=vectors), batch, task.loss_denominators(batch))[0] > 0


def test_truncated_vectors_and_those_of_a_precision_are_predicted(numbers):
    vectors = np.array(numbers["vectors"], np.float32)[:, :2]
    model = types.SimpleNamespace(vector_size=16, stored_vectors=VectorPrecision("binary"))
    found = SentenceVectorTask(model, "similarity", matryoshka_dims=(16, 4)).predictions(
        dict(sentence_embedding=tf.constant(vectors)))
    signs = np.sign(vectors)
    np.testing.assert_allclose(found["cosine"], (signs[:, 0] * signs[:, 1]).mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(found["cosine_4"], (signs[:, 0, :4] * signs[:, 1, :4]).mean(axis=1), atol=1e-6)
    assert set(found) == {"cosine", "cosine_4"}


def test_too_many_dimensions_are_refused(numbers):
    with pytest.raises(ValueError, match="matryoshka_dims must be from 1 to 16, .* Received: 32, 16"):
        SentenceVectorTask(encoder(numbers), "similarity", matryoshka_dims=(32, 16))


def gradients_of(trainer, batch):
    """The gradients and losses of a step, before the update."""
    denominators = trainer.task.loss_denominators(batch)
    return tf.function(lambda: trainer._accumulated(batch, denominators, tf.constant(0)))()


def gradients_at_once(trainer, batch, count, parts):
    """The same by one tape over the vectors of all micro-batches and their parts, each with its own dropout."""
    micro_batches = [{name: tf.split(tensor, count)[i] for name, tensor in batch.items()} for i in range(count)]
    with tf.GradientTape() as tape:
        vectors = tf.concat([
            trainer.model(dict(part, dropout_part=number, dropout_seed=_dropout_seed(
                trainer._seed, trainer.optimizer.iterations, i)), training=True)["sentence_embedding"]
            for i, micro_batch in enumerate(micro_batches)
            for number, part in enumerate(equal_parts(micro_batch, parts))], axis=0)
        loss, _ = trainer.task.loss(dict(sentence_embedding=vectors), batch, trainer.task.loss_denominators(batch))
    return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(
        loss, trainer.model.trainable_variables, unconnected_gradients="zero")], loss


@pytest.mark.parametrize("dropout, count, parts, options", [
    (0.0, 4, 1, dict(matryoshka_dims=(8, 4))), (0.1, 2, 2, {}), pytest.param(0.1, 1, 2, {}, marks=pytest.mark.long),
    pytest.param(0.1, 2, 1, dict(loss_scaling=True, jit_compile=True), marks=pytest.mark.long)], ids=str)
def test_micro_batches_have_the_gradient_of_the_whole_batch(dropout, count, parts, options):
    """GradCache: negatives are those of the whole batch, whose gradient is the reference, to 1e-5."""
    config = AlbertConfig(vocab_size=50, embedding_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                          intermediate_size=16, max_position_embeddings=16, hidden_dropout_prob=dropout,
                          attention_probs_dropout_prob=dropout, initializer_range=0.5)
    ids = tf.random.stateless_uniform([8, 3, 6], [1, 2], 5, 50, tf.int32)
    batch = dict(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=tf.zeros_like(ids))
    options = dict(options)
    dims = options.pop("matryoshka_dims", ())

    def trainer_of(whole_batch):
        keras.utils.set_random_seed(1)
        task = SentenceVectorTask(AlbertSentenceEncoder(config), "contrastive", 0.5, dims, whole_batch=whole_batch)
        trainer = Trainer(task, 7, count, parts=parts, **options)
        trainer.compile(optimizer=create_optimizer("adamw", learning_rate=0.01, num_train_steps=3))
        return trainer

    trainer = trainer_of(True)
    gradients, losses = gradients_of(trainer, batch)
    expected, loss = gradients_at_once(trainer, batch, count, parts)
    assert float(losses["loss"]) == pytest.approx(float(loss), rel=1e-5)
    for one, other in zip(gradients, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * float(tf.linalg.global_norm(expected)))
    if not dropout:  # the batch that is not split
        trainer.gradient_accumulation_steps = 1
        for one, other in zip(gradients, gradients_of(trainer, batch)[0]):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * float(tf.linalg.global_norm(expected)))
        assert abs(float(gradients_of(trainer_of(False), batch)[1]["loss"]) - float(loss)) > 0.1  # fewer negatives
