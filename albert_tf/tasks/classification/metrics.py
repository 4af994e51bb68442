"""GLUE's metrics with the release's names, and the calibration of a classifier on the dev set.

All metrics but the accuracy are computed by scikit-learn and scipy.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Sequence

import numpy as np
from absl import logging

from albert_tf.tasks.classification.table_format import TableFormat
from albert_tf.training.prediction import check_finite_outputs
from albert_tf.utils.imports import (
    check_installed,
    scipy_optimize,
    scipy_special,
    scipy_stats as stats,
    sklearn_metrics as metrics,
)

_LEAST_PROBABILITY = np.finfo(np.float32).tiny


def evaluate(
    format: TableFormat, probabilities: np.ndarray, label_ids: np.ndarray, thresholds: Sequence[float] | None = None
) -> dict[str, float]:
    """Computes the task's metrics, eval_loss (also as loss) and, for classification, eval_accuracy.

    Probabilities are [examples, labels], or for regression scores [examples, 1]; label_ids are [examples], classes or
    scores, or with several labels per text [examples, labels] of 0 and 1. For thresholds see predicted_labels.
    """
    check_finite_outputs(probabilities)
    names = dict.fromkeys(("eval_accuracy", *format.metrics))
    if format.multi_label:  # all labels of a text must be right
        label_ids, predicted = label_ids.astype(np.int32), above(probabilities, thresholds).astype(np.int32)
        of_the_correct = np.where(label_ids > 0, probabilities, 1.0 - probabilities.astype(np.float64))
        loss = float(-np.mean(np.log(np.maximum(of_the_correct, _LEAST_PROBABILITY))))
        results = {name: float(_METRICS_OF_SEVERAL[name](label_ids, predicted, probabilities)) for name in names}
        return dict(results, eval_loss=loss, loss=loss)
    if format.is_regression:
        predicted, names = probabilities[:, 0], dict.fromkeys(format.metrics)
        loss = float(np.mean(np.square(predicted - label_ids)))
    else:
        predicted, loss = probabilities.argmax(axis=-1), mean_cross_entropy(probabilities, label_ids)
    results = {name: float(_METRICS[name](label_ids, predicted)) for name in names}
    return dict(results, eval_loss=loss, loss=loss)


def f1_of_labels(format: TableFormat, label_ids: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """macro_f1, and f1/LABEL for each label that is correct or predicted somewhere, as scikit-learn's f1_score.

    With several labels per text (arrays [examples, labels]) the mean is over all labels, else over those with an F1.
    """
    if not format.multi_label:
        label_ids, predicted = (np.eye(format.num_labels)[ids] for ids in (label_ids, predicted))
    both, either = (label_ids * predicted).sum(axis=0), label_ids.sum(axis=0) + predicted.sum(axis=0)  # [labels]
    scores = 2 * both / np.maximum(either, 1)
    names = {f"f1/{name}": float(score) for name, score, count in zip(format.labels or (), scores, either) if count}
    return dict(names, macro_f1=float(np.mean(scores if format.multi_label else scores[either > 0])))


def confusion_matrix(label_ids: np.ndarray, predicted: np.ndarray, num_labels: int) -> np.ndarray:
    """The number of examples by correct label (row) and predicted label (column), int64 [labels, labels]."""
    return np.bincount(label_ids * num_labels + predicted, minlength=num_labels**2).reshape(num_labels, num_labels)


def above(probabilities: np.ndarray, thresholds: Sequence[float] | None) -> np.ndarray:
    """Whether each label is predicted, bool [examples, labels]: its probability is at least its threshold, or 0.5."""
    return probabilities >= (0.5 if thresholds is None else np.asarray(thresholds, probabilities.dtype))


def mean_cross_entropy(probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """The mean cross entropy of probabilities [examples, labels] and correct labels [examples]."""
    label_probabilities = probabilities[np.arange(len(label_ids)), label_ids]
    return float(-np.mean(np.log(np.maximum(label_probabilities, _LEAST_PROBABILITY))))


def correlations(expected: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Pearson's and Spearman's correlations of two arrays [examples]."""
    check_finite_outputs(predicted)
    return {name: float(_METRICS[name](expected, predicted)) for name in ("pearson", "spearman")}


def _correlation(
    function: Callable[[np.ndarray, np.ndarray], tuple[float, float]]
) -> Callable[[np.ndarray, np.ndarray], float]:
    """A function of labels and predictions from one of scipy, which also returns a p-value."""
    def of(labels: np.ndarray, predicted: np.ndarray) -> float:
        # The correlation with a constant is 0 here; scipy returns NaN.
        return 0.0 if np.ptp(labels) == 0 or np.ptp(predicted) == 0 else function(labels, predicted)[0]

    return of


_METRICS_OF_SEVERAL = {
    "eval_accuracy": lambda labels, predicted, _: np.mean((labels == predicted).all(axis=1)),
    "micro_f1": lambda labels, predicted, _: metrics.f1_score(labels, predicted, average="micro", zero_division=0.0),
    "macro_f1": lambda labels, predicted, _: metrics.f1_score(labels, predicted, average="macro", zero_division=0.0),
    "average_precision": lambda labels, _, probabilities: metrics.average_precision_score(labels, probabilities),
}
_METRICS = {
    "eval_accuracy": lambda labels, predicted: np.mean(labels == predicted),  # without importing scikit-learn
    "f1": lambda labels, predicted: metrics.f1_score(labels, predicted, zero_division=0.0),
    "matthew_corr": lambda labels, predicted: metrics.matthews_corrcoef(labels, predicted),
    "pearson": _correlation(lambda labels, predicted: stats.pearsonr(labels, predicted)),
    "spearman": _correlation(lambda labels, predicted: stats.spearmanr(labels, predicted)),
    "MSE": lambda labels, predicted: metrics.mean_squared_error(labels, predicted),
}
_OF_SCIKIT_LEARN = {"micro_f1", "macro_f1", "average_precision", "f1", "matthew_corr", "MSE"}


def check_packages(format: TableFormat) -> None:
    """Raises a ValueError before the work starts, if a metric of a task needs scikit-learn and it is missing."""
    for name in sorted(_OF_SCIKIT_LEARN.intersection(format.metrics)):
        check_installed(f"the metric {name}", "sklearn")


# Calibration: logits are divided by the temperature (Guo et al., 2017), which makes probabilities less or more extreme
# and does not change which label is the most probable one. The thresholds are those with the best F1 of each label.
_BINS = 15  # Guo et al., 2017
_LARGEST = 20.0  # temperature; without a bound, a dev set without errors has a temperature of 0
_LEAST_LOSS = 1e-6
_FOLDS = 5  # of cross-validation


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What logits are divided by, and with several labels per text the least probability of each label (None: 0.5)."""

    temperature: float = 1.0
    thresholds: tuple[float, ...] | None = None


def fitted(format: TableFormat, logits: np.ndarray, label_ids: np.ndarray) -> tuple[Calibration, dict[str, float]]:
    """The calibration with the least loss on a set, and with the best F1 of each label if a text can have several.

    Logits are [examples, labels], label_ids [examples], or [examples, labels] of 0 and 1. The results are the values of
    the calibration, and error, loss and F1 before and after it.
    """
    logits = logits.astype(np.float64)
    temperature = _useful_temperature(format, logits, label_ids)
    before, after = (probabilities(format, logits, each) for each in (1.0, temperature))
    thresholds = tuple(map(_threshold, label_ids.T, after.T)) if format.multi_label else None
    results = dict(
        temperature=temperature, eval_loss=_loss(format, logits / temperature, label_ids),
        eval_loss_before=_loss(format, logits, label_ids),
        expected_calibration_error=expected_calibration_error(format, after, label_ids),
        expected_calibration_error_before=expected_calibration_error(format, before, label_ids))
    for name, threshold in zip(format.labels or (), thresholds or ()):
        results[f"threshold/{name}"] = threshold
    if thresholds:
        results.update(macro_f1=f1_of_labels(format, label_ids, above(after, thresholds))["macro_f1"],
                       macro_f1_before=f1_of_labels(format, label_ids, above(before, None))["macro_f1"])
    return Calibration(temperature, thresholds), results


def probabilities(format: TableFormat, logits: np.ndarray, temperature: float) -> np.ndarray:
    """The probabilities of logits [examples, labels], as AlbertClassifier.probabilities computes them."""
    scaled = logits / temperature
    return scipy_special.expit(scaled) if format.multi_label else scipy_special.softmax(scaled, axis=1)


def expected_calibration_error(format: TableFormat, probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """The mean difference between probability and share of what is right, over 15 equal bins of probabilities."""
    if format.multi_label:
        confidence, is_right = probabilities.ravel(), label_ids.ravel()
    else:
        confidence, is_right = probabilities.max(axis=1), probabilities.argmax(axis=1) == label_ids
    bins = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)  # a bin includes its upper end
    differences = np.bincount(bins, weights=confidence - is_right, minlength=_BINS)
    return float(np.abs(differences).sum() / len(confidence))


def _useful_temperature(format: TableFormat, logits: np.ndarray, label_ids: np.ndarray) -> float:
    """The temperature with the least loss; 1 if it means nothing, or does not improve the loss by cross-validation."""
    temperature, before = _temperature(format, logits, label_ids), _loss(format, logits, label_ids)
    folds, held_out = np.arange(len(logits)) % _FOLDS, 0.0
    for fold in set(folds):
        others, own = folds != fold, folds == fold
        fitted_to_others = _temperature(format, logits[others], label_ids[others]) if others.any() else 1.0
        held_out += _loss(format, logits[own] / fitted_to_others, label_ids[own]) * own.mean()
    has_errors = _loss(format, logits / temperature, label_ids) >= _LEAST_LOSS
    if has_errors and 1.01 / _LARGEST < temperature < _LARGEST / 1.01 and held_out < before:
        return temperature
    logging.warning("no temperature is stored: %.3g means little, since the dev set is too small or has no errors "
                    "(loss of examples that were not used to fit it: %.4g; without it: %.4g)", temperature, held_out,
                    before)
    return 1.0


def _temperature(format: TableFormat, logits: np.ndarray, label_ids: np.ndarray) -> float:
    bound = np.log(_LARGEST)
    found = scipy_optimize.minimize_scalar(lambda log: _loss(format, logits / np.exp(log), label_ids),
                                           bounds=(-bound, bound), method="bounded", options=dict(xatol=1e-8))
    return float(np.exp(found.x))


def _loss(format: TableFormat, logits: np.ndarray, label_ids: np.ndarray) -> float:
    """The mean (binary) cross entropy of logits."""
    if format.multi_label:
        return float(np.mean(np.logaddexp(0.0, logits) - label_ids * logits))
    return float(np.mean(scipy_special.logsumexp(logits, axis=1) - logits[np.arange(len(logits)), label_ids]))


def _threshold(label_ids: np.ndarray, probabilities: np.ndarray) -> float:
    """The threshold with the best F1 of one label; of several such, the one closest to 0.5."""
    if not label_ids.any():
        return 0.5
    precision, recall, values = metrics.precision_recall_curve(label_ids, probabilities)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    # In the middle between two probabilities, so that rounding cannot change an answer.
    middles = (values + np.append(0.0, values[:-1])) / 2
    best = middles[f1[:-1] >= f1[:-1].max() - 1e-12]
    return float(best[np.abs(best - 0.5).argmin()])
