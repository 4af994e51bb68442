"""Losses and predictions of classification."""

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf import from_pretrained
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification.table_format import TableFormat
from albert_tf.tasks.classification.task import ClassificationObjective, LabelLoss, class_weights


@pytest.fixture(params=["classifier", "regression"])
def recorded(request, golden):
    """(task, batch, the release's numbers) of a fine-tuned model of the release."""
    folder = golden / "finetuned_heads" / request.param
    numbers = np.load(folder / "io.npz")
    model = from_pretrained(str(folder / "model.ckpt"), model="classifier")
    batch = {name: tf.constant(numbers[f"in/{name}"]) for name in ("input_ids", "input_mask", "segment_ids")}
    batch["label_ids"] = tf.constant(numbers["in/labels"])
    return ClassificationObjective(model, is_regression=request.param == "regression"), batch, numbers


def test_loss_and_probabilities_are_those_of_the_release(recorded):
    task, batch, numbers = recorded
    outputs = task.model(batch)
    loss, _ = task.loss(outputs, batch, task.loss_denominators(batch))
    np.testing.assert_allclose(loss, numbers["out/loss"], atol=1e-5)
    np.testing.assert_allclose(task.predictions(outputs, {})["probabilities"], numbers["out/probabilities"], atol=1e-5)


LOGITS = np.array([[2.0, -1.0, 0.5], [-0.3, 0.2, 1.5], [0.1, 3.0, -2.0], [1.0, 1.0, -1.0]], np.float32)
ONE, SEVERAL = np.array([0, 2, 0, 1]), np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0], [1, 1, 0]], np.float32)
WEIGHTS = (0.5, 2.0, 1.25)
CASES = [  # several labels, weights, the loss, and its gradient for the third text
    (False, None, 1.0807498716138544, [-0.237044351, 0.235457848, 0.001586503]),
    (False, WEIGHTS, 0.8404204438878927, [-0.111550283, 0.110803693, 0.000746589]),
    (True, None, 0.6106559299849272, [0.043748266, 0.079381177, 0.009933577]),
    (True, WEIGHTS, 0.6324925469664556, [0.043748266, 0.079381177, 0.009933577]),
]
LABELS = ("calm", "loud", "odd")


@pytest.mark.parametrize("multi_label, weights, expected, gradient", CASES)
def test_loss_and_gradient_are_those_of_pytorch(multi_label, weights, expected, gradient):
    model = AlbertClassifier(TINY, 3, multi_label=multi_label)
    task = ClassificationObjective(model, label_loss=LabelLoss(multi_label, weights))
    logits, labels = tf.constant(LOGITS), tf.constant(SEVERAL if multi_label else ONE)
    rows = [dict(input_ids=tf.zeros([2, 4], tf.int32), label_ids=labels[start : start + 2]) for start in (0, 2)]
    counts = [task.loss_denominators(part) for part in rows]
    totals = {name: sum(each[name] for each in counts) for name in counts[0]}
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = sum(task.loss(dict(logits=logits[start : start + 2]), part, totals)[0]
                   for start, part in zip((0, 2), rows))  # two micro-batches
    np.testing.assert_allclose(loss, expected, atol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, logits)[2], gradient, atol=1e-6)


def test_balanced_weights_are_those_of_scikit_learn():
    """sklearn.utils.class_weight.compute_class_weight("balanced"): 10 / (3 * count)."""
    task = TableFormat("moods", {}, LABELS, class_weights="balanced")
    ids = np.array([0] * 5 + [1] * 3 + [2] * 2)
    np.testing.assert_allclose(class_weights(task, ids, "train.csv"), [0.66666667, 1.11111111, 1.66666667])
    with pytest.raises(ValueError, match='train.csv has no example with the label \'odd\', so "class_weights"'):
        class_weights(task, ids[:8], "train.csv")


def test_balanced_weights_of_several_labels_are_texts_without_to_texts_with_them():
    task = TableFormat("moods", {}, LABELS, multi_label=True, class_weights="balanced")
    np.testing.assert_allclose(class_weights(task, SEVERAL, "train.csv"), [2 / 2, 3 / 1, 2 / 2])
    numbers = TableFormat("moods", {}, LABELS, multi_label=True, class_weights=(1, 2, 3))
    assert class_weights(numbers, SEVERAL, "train.csv") == (1.0, 2.0, 3.0)
    assert class_weights(TableFormat("moods", {}, LABELS), ONE, "train.csv") is None
