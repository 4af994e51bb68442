"""The pre-training task: the losses of micro-batches add up to the batch's, and evaluation does not count padding."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.pretraining.task import PretrainingTask


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


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def test_the_losses_are_the_releases_formulas(batch, outputs):
    task = PretrainingTask(model=None)
    total, parts = task.loss(outputs, batch, task.loss_denominators(batch))
    ids, weights, labels = (batch[name].numpy()
                            for name in ("masked_lm_ids", "masked_lm_weights", "next_sentence_labels"))
    masked_lm = -np.take_along_axis(log_softmax(outputs["mlm_logits"].numpy()), ids[..., None], axis=-1)[..., 0]
    sentence_order = -np.take_along_axis(log_softmax(outputs["sop_logits"].numpy()), labels, axis=-1)
    np.testing.assert_allclose(parts["masked_lm_loss"], (masked_lm * weights).sum() / (weights.sum() + 1e-5), rtol=1e-6)
    np.testing.assert_allclose(parts["sentence_order_loss"], sentence_order.mean(), rtol=1e-6)
    np.testing.assert_allclose(total, sum(parts.values()), rtol=1e-6)


def test_parts_of_a_batch_add_up_to_the_whole_batchs_loss(batch, outputs):
    task = PretrainingTask(model=None)
    denominators = task.loss_denominators(batch)
    whole, _ = task.loss(outputs, batch, denominators)

    def part(rows):
        return tf.nest.map_structure(lambda tensor: tensor[rows], (outputs, batch))

    parts = [task.loss(*part(rows), denominators)[0] for rows in (slice(0, 1), slice(1, 4))]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-6)
    of_parts = [task.loss_denominators(part(rows)[1]) for rows in (slice(0, 1), slice(1, 4))]
    sums = {name: sum(float(each[name]) for each in of_parts) for name in denominators}
    assert sums == {"masked_tokens": 6.0, "examples": 4.0}


def test_without_an_objective_there_is_no_sentence_loss(batch, outputs):
    task = PretrainingTask(model=None, has_sentence_loss=False)
    total, parts = task.loss(outputs, batch, task.loss_denominators(batch))
    assert list(parts) == ["masked_lm_loss"] and total == parts["masked_lm_loss"]
    task.update_metrics(dict(batch, is_real_example=tf.ones([4])), outputs)
    assert sorted(task.results()) == ["loss", "masked_lm_accuracy", "masked_lm_loss"]


def test_labels_that_mean_nothing_are_left_out_of_the_results(batch, outputs):
    task = PretrainingTask(model=None)
    task.update_metrics(dict(batch, is_real_example=tf.ones([4])), outputs)
    results = task.results(has_sentence_labels=False)
    assert results == dict(masked_lm_accuracy=results["masked_lm_accuracy"], masked_lm_loss=results["loss"],
                           loss=results["loss"])


def test_evaluation_leaves_out_rows_that_fill_up_a_batch(batch, outputs):
    task = PretrainingTask(model=None)
    guesses = tf.argmax(outputs["mlm_logits"], axis=-1, output_type=tf.int32).numpy()
    ids = guesses.copy()
    ids[0, 0] += 1  # one of three real masked tokens is wrong
    orders = tf.argmax(outputs["sop_logits"], axis=-1, output_type=tf.int32).numpy()
    batch = dict(batch, masked_lm_ids=tf.constant(ids % 10), next_sentence_labels=tf.constant(orders[:, None]),
                 is_real_example=tf.constant([1.0, 1.0, 0.0, 0.0]))
    task.update_metrics(batch, outputs)
    results = task.results()
    np.testing.assert_allclose(results["masked_lm_accuracy"], 2 / 3, rtol=1e-6)
    assert results["sentence_order_accuracy"] == 1.0
    np.testing.assert_allclose(results["loss"], results["masked_lm_loss"] + results["sentence_order_loss"])
