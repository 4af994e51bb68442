"""The classification task: the release's losses and probabilities, and losses that add up over parts of a batch."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import from_pretrained
from albert_tf.tasks.classification.task import ClassificationTask


@pytest.fixture(params=["classifier", "regression"])
def recorded(request, golden):
    """(task, batch, the release's numbers) of a fine-tuned model of the release."""
    folder = golden / "finetuned_heads" / request.param
    numbers = np.load(folder / "io.npz")
    model = from_pretrained(str(folder / "model.ckpt"), model="classifier")
    batch = {name: tf.constant(numbers[f"in/{name}"]) for name in ("input_ids", "input_mask", "segment_ids")}
    batch["label_ids"] = tf.constant(numbers["in/labels"])
    return ClassificationTask(model, is_regression=request.param == "regression"), batch, numbers


def test_loss_and_probabilities_are_those_of_the_release(recorded):
    task, batch, numbers = recorded
    outputs = task.model(batch)
    loss, _ = task.loss(outputs, batch, task.loss_denominators(batch))
    np.testing.assert_allclose(loss, numbers["out/loss"], atol=1e-5)
    np.testing.assert_allclose(task.predictions(outputs)["probabilities"], numbers["out/probabilities"], atol=1e-5)


def test_losses_of_parts_add_up_to_that_of_the_batch(recorded):
    task, batch, numbers = recorded
    denominators = task.loss_denominators(batch)
    parts = [{name: values[rows] for name, values in batch.items()} for rows in (slice(0, 1), slice(1, None))]
    losses = [task.loss(task.model(part), part, denominators)[0] for part in parts]
    np.testing.assert_allclose(sum(losses), numbers["out/loss"], atol=1e-5)
