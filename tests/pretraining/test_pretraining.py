"""The losses of pre-training, also with a teacher."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax
from synthetic_records import VOCAB_SIZE, example

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.examples import MaskingOptions
from albert_tf.pretraining.objective import DistilledPretrainingObjective, PretrainingObjective, results
from albert_tf.pretraining.packed_rows import TEXTS, packed


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return dict(
        input_ids=tf.zeros([4, 8], tf.int32),
        masked_lm_ids=tf.constant(rng.integers(0, 10, [4, 3]), tf.int32),
        masked_lm_weights=tf.constant([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]], tf.float32),
        next_sentence_labels=tf.constant([[0], [1], [1], [0]]),
    )


@pytest.fixture
def outputs():
    rng = np.random.default_rng(1)
    return dict(mlm_logits=tf.constant(rng.normal(size=[4, 3, 10]), tf.float32),
                sop_logits=tf.constant(rng.normal(size=[4, 2]), tf.float32))


def test_the_losses_are_the_releases_formulas(batch, outputs):
    objective = PretrainingObjective(model=None)
    total, parts = objective.loss(outputs, batch, objective.loss_denominators(batch))
    ids, weights, labels = (batch[name].numpy()
                            for name in ("masked_lm_ids", "masked_lm_weights", "next_sentence_labels"))
    of_tokens, of_order = (log_softmax(outputs[name].numpy(), axis=-1) for name in ("mlm_logits", "sop_logits"))
    masked_lm = -np.take_along_axis(of_tokens, ids[..., None], axis=-1)[..., 0]
    sentence_order = -np.take_along_axis(of_order, labels, axis=-1)
    np.testing.assert_allclose(parts["masked_lm_loss"], (masked_lm * weights).sum() / (weights.sum() + 1e-5), rtol=1e-6)
    np.testing.assert_allclose(parts["sentence_order_loss"], sentence_order.mean(), rtol=1e-6)
    np.testing.assert_allclose(total, sum(parts.values()), rtol=1e-6)


def test_without_an_objective_or_sentence_labels_there_are_only_results_of_the_masked_lm(batch, outputs):
    objective = PretrainingObjective(model=None, has_sentence_loss=False)
    total, parts = objective.loss(outputs, batch, objective.loss_denominators(batch))
    assert list(parts) == ["masked_lm_loss"] and total == parts["masked_lm_loss"]
    found = results(objective.predictions(outputs, batch))
    assert found.keys() == {"loss", "masked_lm_accuracy", "masked_lm_loss"} and found["loss"] == found["masked_lm_loss"]
    objective = PretrainingObjective(model=None)
    assert results(objective.predictions(outputs, batch), has_sentence_labels=False) == pytest.approx(found)


def test_accuracies_are_shares_of_masked_tokens_and_of_examples(batch, outputs):
    objective = PretrainingObjective(model=None)
    guesses = tf.argmax(outputs["mlm_logits"], axis=-1, output_type=tf.int32).numpy()
    ids = guesses.copy()
    ids[0, 0] += 1  # one of three real masked tokens is wrong
    orders = tf.argmax(outputs["sop_logits"], axis=-1, output_type=tf.int32).numpy()
    batch = dict(batch, masked_lm_ids=tf.constant(ids % 10), next_sentence_labels=tf.constant(orders[:, None]))
    predictions = objective.predictions(outputs, batch)
    found = results({name: values[:2] for name, values in predictions.items()})
    np.testing.assert_allclose(found["masked_lm_accuracy"], 2 / 3, rtol=1e-6)
    assert found["sentence_order_accuracy"] == 1.0
    np.testing.assert_allclose(found["loss"], found["masked_lm_loss"] + found["sentence_order_loss"])


COMMON = dict(vocab_size=30, embedding_size=8, intermediate_size=16, max_position_embeddings=8, initializer_range=0.4,
              hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
STUDENT = AlbertConfig(hidden_size=12, num_hidden_layers=2, num_attention_heads=2, **COMMON)
# Four layers of two inner groups each, in two groups.
TEACHER = AlbertConfig(hidden_size=18, num_hidden_layers=4, num_attention_heads=3, num_hidden_groups=2,
                       inner_group_num=2, **COMMON)
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)
BATCH = dict(input_ids=np.array([[2, 9, 4, 3], [2, 3, 0, 0]], np.int32), input_mask=MASK,
             segment_ids=np.zeros([2, 4], np.int32), masked_lm_positions=np.array([[1, 2], [1, 0]], np.int32),
             masked_lm_ids=np.array([[7, 8], [9, 0]], np.int32), next_sentence_labels=np.array([[0], [1]], np.int32),
             masked_lm_weights=np.array([[1, 1], [1, 0]], np.float32))


@pytest.fixture(scope="module")
def models():
    """(student, teacher)"""
    keras.utils.set_random_seed(3)
    return AlbertPretrainer(STUDENT), AlbertPretrainer(TEACHER)


def test_a_teacher_adds_its_divergence_and_micro_batches_have_their_shares_of_it(models):
    student, teacher = models
    objective = DistilledPretrainingObjective(student, teacher, temperature=2.0, alpha=0.3)
    outputs, denominators = student(BATCH), objective.loss_denominators(BATCH)
    total, parts = objective.loss(outputs, BATCH, denominators)
    p, q = (log_softmax(each["mlm_logits"].numpy() / 2, axis=-1) for each in (teacher(BATCH), outputs))
    masked = BATCH["masked_lm_weights"] == 1
    distance = 4 * (np.exp(p) * (p - q)).sum(-1)[masked].mean()  # times temperature squared
    assert float(parts["distillation_loss"]) == pytest.approx(distance, rel=1e-4)
    _, plain = PretrainingObjective(student).loss(outputs, BATCH, denominators)
    assert float(total) == pytest.approx(0.7 * float(plain["masked_lm_loss"]) + float(plain["sentence_order_loss"])
                                         + 0.3 * float(parts["distillation_loss"]), rel=1e-6)
    halves = [{name: tensor[row:row + 1] for name, tensor in BATCH.items()} for row in (0, 1)]
    shares = [float(objective.loss(student(rows), rows, denominators)[0]) for rows in halves]
    assert sum(shares) == pytest.approx(float(total), rel=1e-5)


def test_the_student_learns_and_the_teacher_does_not(models):
    student, teacher = models
    objective = DistilledPretrainingObjective(student, teacher, alpha=1.0)
    with tf.GradientTape() as tape:
        total, _ = objective.loss(student(BATCH), BATCH, objective.loss_denominators(BATCH))
    ours, theirs = tape.gradient(total, [student.albert.encoder.trainable_variables, teacher.trainable_variables])
    assert max(float(tf.reduce_max(tf.abs(gradient))) for gradient in ours) > 0
    assert all(gradient is None for gradient in theirs)


def values_of(objective, batch):
    """The losses, gradients and metrics of a batch as a whole."""
    with tf.GradientTape() as tape:
        outputs = objective.model(dict(batch, dropout_seed=tf.constant([1, 2])), training=True)
        total, losses = objective.loss(outputs, batch, objective.loss_denominators(batch))
    gradients = tape.gradient(total, objective.model.trainable_variables)
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    return losses, gradients, results(objective.predictions(outputs, batch))


@pytest.mark.parametrize("has_teacher, length", [(False, 1), (True, 3)])
def test_packed_rows_have_the_losses_gradients_and_metrics_of_padded_ones(has_teacher, length):
    """300 examples of 5 to 32 tokens."""
    rng = np.random.default_rng(0)
    rows = [example(rng, 32, MaskingOptions(5), shortest=5)[0] for _ in range(300)]
    padded = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    padded = {name: tf.constant(values, tf.float32 if name == "masked_lm_weights" else tf.int32)
              for name, values in padded.items()}
    in_rows = packed(padded, length, multiple=4)
    count = in_rows["input_ids"].shape[0]
    needed = np.sum(padded["input_mask"]) / (32 * length)
    assert needed <= count < 1.1 * needed and count % 4 == 0
    assert in_rows["next_sentence_labels"].shape == (count, length * TEXTS)

    changes = dict(vocab_size=VOCAB_SIZE, max_position_embeddings=32)
    keras.utils.set_random_seed(3)
    model, teacher = (AlbertPretrainer(config.replace(**changes)) for config in (STUDENT, TEACHER))
    objective = DistilledPretrainingObjective(model, teacher) if has_teacher else PretrainingObjective(model)
    losses, gradients, metrics = values_of(objective, padded)
    found_losses, found_gradients, found_metrics = values_of(objective, in_rows)
    assert len(losses) == (3 if has_teacher else 2)
    for expected, found in ((losses, found_losses), (metrics, found_metrics)):
        assert {name: float(value) for name, value in found.items()} == pytest.approx(
            {name: float(value) for name, value in expected.items()}, rel=1e-5)
    for expected, found in zip(gradients, found_gradients):
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)
