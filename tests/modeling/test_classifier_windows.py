"""AlbertClassifier on texts that are read in windows: logits, loss and gradients by hand."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.configured_model import ENCODER_INPUTS
from albert_tf.tasks.classification.task import ClassificationTask

pytestmark = pytest.mark.both_stacks


@pytest.fixture
def windows(tiny_batch):
    """Three texts of one, two and two windows, [3, 3, 12]; the last window of each is padding."""
    second = {name: tiny_batch[name][::-1].copy() for name in ENCODER_INPUTS}
    for rows in second.values():
        rows[0] = 0
    return {name: np.stack([tiny_batch[name], second[name], np.zeros_like(second[name])], axis=1)
            for name in ENCODER_INPUTS}


def logits_by_hand(model, windows, pooling):
    """The logits of each window that is not padding, computed one window at a time."""
    reduce = dict(mean=np.mean, max=np.max)[pooling]
    logits = []
    for text in range(3):
        rows = [{name: windows[name][text, window][None] for name in ENCODER_INPUTS} for window in range(3)]
        logits.append(reduce([model(row)["logits"][0] for row in rows if row["input_mask"].any()], axis=0))
    return np.array(logits)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_the_logits_of_a_text_are_pooled_over_its_windows(tiny_config, windows, pooling):
    model = AlbertClassifier(tiny_config.replace(initializer_range=0.5), 4, window_pooling=pooling)
    expected = logits_by_hand(model, windows, pooling)
    np.testing.assert_allclose(model(windows)["logits"], expected, atol=1e-5)
    labels = np.array([3, 0, 1], np.int32)
    task = ClassificationTask(model)
    loss, _ = task.loss(model(windows), dict(label_ids=labels), task.loss_denominators(windows))
    log_probabilities = expected - np.log(np.exp(expected).sum(axis=1, keepdims=True))
    assert float(loss) == pytest.approx(-log_probabilities[np.arange(3), labels].mean(), abs=1e-5)


def test_the_gradient_of_a_mean_is_shared_among_the_windows_and_that_of_a_maximum_goes_to_the_largest(
    tiny_config, windows
):
    for pooling in ("mean", "max"):
        model = AlbertClassifier(tiny_config, 2, window_pooling=pooling)
        rows = {name: values[1, :2] for name, values in windows.items()}
        with tf.GradientTape(persistent=True) as tape:
            of_the_text = model({name: values[1:2] for name, values in windows.items()})["logits"][0, 0]
            of_windows = tf.unstack(model(rows)["logits"][:, 0])
        kernel = model.classifier.trainable_variables[0]
        whole, *parts = (tape.gradient(logit, kernel).numpy() for logit in (of_the_text, *of_windows))
        expected = np.mean(parts, axis=0) if pooling == "mean" else parts[int(np.argmax(of_windows))]
        np.testing.assert_allclose(whole, expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_one_window_is_bit_for_bit_the_row_without_windows(tiny_config, tiny_batch, pooling):
    model = AlbertClassifier(tiny_config, 3, classifier_dropout_prob=0.5, window_pooling=pooling)
    for training in (False, True):
        row = dict(tiny_batch, dropout_seed=[1, 2])
        window = {name: values[:, None] for name, values in tiny_batch.items()}
        np.testing.assert_array_equal(model(dict(window, dropout_seed=[1, 2]), training=training)["logits"],
                                      model(row, training=training)["logits"])


def test_an_unknown_pooling_is_named(tiny_config):
    with pytest.raises(ValueError, match="window_pooling must be one of mean, max. Received: 'cls'"):
        AlbertClassifier(tiny_config, 2, window_pooling="cls")
