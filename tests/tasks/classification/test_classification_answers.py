"""The labels of texts, and their calibrated probabilities."""

import math

import numpy as np
import pytest
from tiny import TINY as CONFIG, TINY_TEXT

import albert_tf
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.settings import Settings
from albert_tf.tasks.classification.answers import classify_texts
from albert_tf.tasks.classification.metrics import expected_calibration_error, fitted, probabilities
from albert_tf.tasks.classification.table_format import TableFormat
from albert_tf.weights.settings import settings_in, write_settings

NAMES = ("bad", "fair", "good")


@pytest.fixture(scope="module")
def tokenizer(sentence_pieces):
    return sentence_pieces


@pytest.fixture(scope="module")
def config():
    return TINY_TEXT.replace(max_position_embeddings=16, initializer_range=0.5)


def expected(model, tokenizer, *texts):
    """The probabilities of a single row, in the order of the labels."""
    logits = model(tokenizer(*texts, max_seq_length=16))["logits"].numpy()[0].astype(np.float64)
    return np.exp(logits) / np.exp(logits).sum()


def test_labels_are_the_softmax_of_the_logits_and_the_most_probable_is_first(tokenizer, config):
    model = AlbertClassifier(config, 3, label_names=NAMES)
    texts = [f"line {number} of the file" for number in range(35)]  # more than a batch
    found = classify_texts(model, tokenizer, texts)
    assert len(found) == 35
    for text, labels in zip(texts, found):
        probabilities = expected(model, tokenizer, text)
        order = np.argsort(-probabilities)
        assert [label.name for label in labels] == [NAMES[i] for i in order]
        np.testing.assert_allclose([label.probability for label in labels], probabilities[order], rtol=1e-4)


def test_pairs_are_packed_together_and_labels_without_names_are_numbered(tokenizer, config):
    model = AlbertClassifier(config, 2)
    (labels,) = classify_texts(model, tokenizer, ["the name"], ["of the file"])
    assert dict(labels) == pytest.approx(dict(zip("01", expected(model, tokenizer, "the name", "of the file"))), 1e-4)


def test_a_model_of_single_texts_refuses_a_second_one(tokenizer, config, tmp_path):
    albert_tf.save_pretrained(AlbertClassifier(config, 2, single_texts=True), str(tmp_path), tokenizer)
    model = albert_tf.from_pretrained(str(tmp_path), model="classifier")
    texts = ["the name", "of the file"]
    with pytest.raises(ValueError, match="was trained on single texts and cannot read a second one: leave out text_pa"):
        classify_texts(model, tokenizer, texts, ["", "a line"])
    assert classify_texts(model, tokenizer, texts, ["", ""]) == classify_texts(model, tokenizer, texts)


@pytest.mark.parametrize("make, texts, pairs, message", [
    (AlbertPretrainer, ["a"], None, 'model="classifier".*Received: AlbertPretrainer'),
    (lambda config: AlbertClassifier(config, 1), ["a"], None, "for regression"),
    (lambda config: AlbertClassifier(config, 2), "a text", None, "texts must be a list of strings, not a string"),
    (lambda config: AlbertClassifier(config, 2), ["a"], "a text", "text_pairs must be a list of strings"),
    (lambda config: AlbertClassifier(config, 2), ["a"] * 35 + [float("nan")], None, r"texts\[35\]=nan"),
    (lambda config: AlbertClassifier(config, 2), ["a", "b"], ["c"], "2 texts and 1 text_pairs"),
])
def test_wrong_arguments_are_refused(tokenizer, config, make, texts, pairs, message):
    with pytest.raises(ValueError, match=message):
        classify_texts(make(config), tokenizer, texts, pairs)


ONE = TableFormat("reviews", {}, ("bad", "good"))
SEVERAL = TableFormat("moods", {}, ("calm", "loud"), multi_label=True)


def test_the_temperature_gives_the_share_that_is_right():
    """Logits differ by 4, and 3 of 4 answers are right: sigmoid(4 / T) = 3 / 4, so T = 4 / ln 3."""
    logits = np.tile(np.array([[4.0, 0.0], [0.0, 4.0], [1.0, 5.0], [5.0, 1.0]], np.float32), [10, 1])
    calibration, results = fitted(ONE, logits, np.tile([0, 1, 1, 1], 10))
    assert calibration.thresholds is None
    assert calibration.temperature == pytest.approx(4 / math.log(3), abs=1e-5)
    confidence = 1 / (1 + math.exp(-4))
    assert results["expected_calibration_error_before"] == pytest.approx(confidence - 0.75)
    assert results["expected_calibration_error"] == pytest.approx(0, abs=1e-6)
    assert results["eval_loss"] == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert results["eval_loss_before"] == pytest.approx(-math.log(confidence) + 0.25 * 4)


def test_the_temperature_of_several_labels_is_that_of_their_decisions():
    """Of logits of size 2, 3 of 4 signs are right: sigmoid(2 / T) = 3 / 4."""
    logits, label_ids = np.array([[2.0, -2.0], [-2.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    calibration, _ = fitted(SEVERAL, np.tile(logits, [10, 1]), np.tile(label_ids, [10, 1]))
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


@pytest.mark.parametrize("label_ids", [[0, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 1]], ids=["no errors", "one error"])
def test_a_temperature_that_does_not_help_with_other_examples_is_not_stored(caplog, label_ids):
    """Five of six labels are certain, so the fold without the error has the least possible temperature."""
    logits = np.array([[4.0, 0.0]] + [[0.0, 4.0]] * 5)
    calibration, results = fitted(ONE, logits, np.array(label_ids))
    assert calibration.temperature == results["temperature"] == 1
    assert results["eval_loss"] == results["eval_loss_before"]
    assert "no temperature is stored" in caplog.text and "the dev set is too small or has no errors" in caplog.text


@pytest.mark.parametrize("task", [ONE, SEVERAL])
def test_a_model_computes_the_same_probabilities_from_its_settings(tmp_path, task):
    model = AlbertClassifier(CONFIG, 2, multi_label=task.multi_label, temperature=2.5,
                             thresholds=(0.25, 0.75) if task.multi_label else None)
    logits = np.array([[0.5, 3.0], [-1.0, 2.0]], np.float32)
    np.testing.assert_allclose(model.settings.probabilities(logits), probabilities(task, logits, 2.5), atol=1e-6)
    least = np.array([[0.25, 0.75]] if task.multi_label else [[0.5, 0.5]], np.float32)
    assert np.all(model.settings.predicted_labels(least)) and not np.any(model.settings.predicted_labels(least - 1e-3))
    write_settings(model.settings, CONFIG, str(tmp_path))
    stored = settings_in(str(tmp_path))
    assert (stored.temperature, stored.thresholds) == (2.5, model.settings.thresholds)
    write_settings(Settings(), CONFIG, str(tmp_path))
    assert settings_in(str(tmp_path)) == Settings()


def test_thresholds_of_another_number_of_labels_are_refused():
    with pytest.raises(ValueError, match="thresholds must have num_labels=2 numbers. Received: 1"):
        AlbertClassifier(CONFIG, 2, multi_label=True, thresholds=[0.5])
