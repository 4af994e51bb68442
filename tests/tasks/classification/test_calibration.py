"""Calibration: temperature, thresholds and error have the values that follow from the data by hand."""

import math

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification.metrics import expected_calibration_error, fitted, probabilities
from albert_tf.tasks.classification.task_config import TaskData
from albert_tf.weights.settings import Settings, settings_in, settings_of, write_settings

ONE = TaskData("reviews", {}, ("bad", "good"))
SEVERAL = TaskData("moods", {}, ("calm", "loud"), multi_label=True)
TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=8, max_position_embeddings=8)


def test_the_temperature_gives_the_share_that_is_right():
    """Logits differ by 4, and 3 of 4 answers are right: sigmoid(4 / T) = 3 / 4, so T = 4 / ln 3."""
    logits = np.array([[4.0, 0.0], [0.0, 4.0], [1.0, 5.0], [5.0, 1.0]], np.float32)
    calibration, results = fitted(ONE, logits, np.array([0, 1, 1, 1]))
    assert calibration.thresholds is None
    assert calibration.temperature == pytest.approx(4 / math.log(3), abs=1e-5)
    confidence = 1 / (1 + math.exp(-4))
    assert results["expected_calibration_error_before"] == pytest.approx(confidence - 0.75)
    assert results["expected_calibration_error"] == pytest.approx(0, abs=1e-6)
    assert results["eval_loss"] == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert results["eval_loss_before"] == pytest.approx(-math.log(confidence) + 0.25 * 4)


def test_the_temperature_of_several_labels_is_that_of_their_decisions():
    """Of logits of size 2, 3 of 4 signs are right: sigmoid(2 / T) = 3 / 4."""
    calibration, _ = fitted(SEVERAL, np.array([[2.0, -2.0], [-2.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]))
    assert calibration.temperature == pytest.approx(2 / math.log(3), abs=1e-5)


def test_the_error_is_the_mean_difference_over_bins():
    """Bins of 1/15: 0.61 and 0.65 are in (9/15, 10/15], 0.9 is alone."""
    positive = np.array([0.61, 0.65, 0.9])
    rows = np.stack([1 - positive, positive], axis=1)
    assert expected_calibration_error(ONE, rows, np.array([1, 0, 1])) == pytest.approx(
        2 / 3 * abs(0.63 - 0.5) + 1 / 3 * abs(0.9 - 1))
    several = np.array([[0.0, 0.61], [0.65, 1.0]])
    assert expected_calibration_error(SEVERAL, several, np.array([[0, 1], [0, 1]])) == pytest.approx(
        2 / 4 * abs(0.63 - 0.5))


def test_thresholds_have_the_best_f1_of_each_label():
    logits = np.array([[-1.0, 3.0], [-2.0, 2.0], [-3.0, 1.0], [-4.0, 0.5]])
    labels = np.array([[1, 0], [1, 0], [0, 0], [0, 0]], np.float32)
    calibration, results = fitted(SEVERAL, logits, labels)
    after = probabilities(SEVERAL, logits, calibration.temperature)
    assert after[2, 0] < calibration.thresholds[0] < after[1, 0]
    assert calibration.thresholds[1] == 0.5 == results["threshold/loud"]  # no example of it
    assert results["macro_f1"] == 0.5 and results["macro_f1_before"] == 0


def test_a_set_without_errors_brings_a_warning(caplog):
    calibration, _ = fitted(ONE, np.array([[4.0, 0.0], [0.0, 4.0]]), np.array([0, 1]))
    assert 0.05 <= calibration.temperature < 0.2
    assert "means little: the dev set is too small or has no errors" in caplog.text


@pytest.mark.parametrize("task", [ONE, SEVERAL])
def test_a_model_computes_the_same_probabilities_from_its_settings(tmp_path, task):
    model = AlbertClassifier(TINY, 2, multi_label=task.multi_label, temperature=2.5,
                             thresholds=(0.25, 0.75) if task.multi_label else None)
    logits = np.array([[0.5, 3.0], [-1.0, 2.0]], np.float32)
    np.testing.assert_allclose(model.probabilities(logits), probabilities(task, logits, 2.5), atol=1e-6)
    np.testing.assert_allclose(model.label_thresholds, (0.25, 0.75) if task.multi_label else (0.5, 0.5))
    write_settings(settings_of(model), TINY, str(tmp_path))
    stored = settings_in(str(tmp_path))
    assert (stored.temperature, stored.thresholds) == (2.5, model.thresholds)
    write_settings(Settings(), TINY, str(tmp_path))
    assert settings_in(str(tmp_path)) == Settings()


def test_thresholds_of_another_number_of_labels_are_refused():
    with pytest.raises(ValueError, match="thresholds must have num_labels=2 numbers. Received: 1"):
        AlbertClassifier(TINY, 2, multi_label=True, thresholds=[0.5])
