"""GLUE's metrics with the release's names. All but the accuracy are computed by scikit-learn and scipy."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from albert_tf.tasks.classification.task_data import TaskData
from albert_tf.training.evaluation import check_finite_outputs
from albert_tf.utils.imports import scipy_stats as stats, sklearn_metrics as metrics

_LEAST_PROBABILITY = np.finfo(np.float32).tiny


def evaluate(
    task: TaskData, probabilities: np.ndarray, label_ids: np.ndarray, thresholds: Sequence[float] | None = None
) -> dict[str, float]:
    """Computes the task's metrics, eval_loss (also as loss) and, for classification, eval_accuracy.

    Probabilities are [examples, labels], or for regression scores [examples, 1]; label_ids are [examples], classes or
    scores, or with several labels per text [examples, labels] of 0 and 1. For thresholds see predicted_labels.
    """
    check_finite_outputs(probabilities)
    if task.multi_label:
        return _evaluate_several(task, probabilities, label_ids, thresholds)
    if task.is_regression:
        predicted = probabilities[:, 0]
        loss, names = np.mean(np.square(predicted - label_ids)), task.metrics
    else:
        predicted = probabilities.argmax(axis=-1)
        loss, names = mean_cross_entropy(probabilities, label_ids), ("eval_accuracy", *task.metrics)
    results = {name: float(_METRICS[name](label_ids, predicted)) for name in dict.fromkeys(names)}
    return dict(results, eval_loss=float(loss), loss=float(loss))


def above(probabilities: np.ndarray, thresholds: Sequence[float] | None) -> np.ndarray:
    """Whether each label is predicted, bool [examples, labels]: its probability is at least its threshold, or 0.5."""
    return probabilities >= (0.5 if thresholds is None else np.asarray(thresholds, probabilities.dtype))


def _evaluate_several(
    task: TaskData, probabilities: np.ndarray, label_ids: np.ndarray, thresholds: Sequence[float] | None
) -> dict[str, float]:
    """`evaluate` for several labels per text. The accuracy is that of whole texts: all labels must be right."""
    expected, predicted = label_ids.astype(np.int32), above(probabilities, thresholds).astype(np.int32)
    results = {name: float(_METRICS_OF_SEVERAL[name](expected, predicted, probabilities))
               for name in dict.fromkeys(("eval_accuracy", *task.metrics))}
    loss = mean_binary_cross_entropy(probabilities, label_ids)
    return dict(results, eval_loss=loss, loss=loss)


def mean_binary_cross_entropy(probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """The mean binary cross entropy of probabilities and labels (0 or 1), of the same shape."""
    of_the_correct = np.where(label_ids > 0, probabilities, 1.0 - probabilities.astype(np.float64))
    return float(-np.mean(np.log(np.maximum(of_the_correct, _LEAST_PROBABILITY))))


def mean_cross_entropy(probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """The mean cross entropy of probabilities [examples, labels] and correct labels [examples]."""
    label_probabilities = probabilities[np.arange(len(label_ids)), label_ids]
    return float(-np.mean(np.log(np.maximum(label_probabilities, _LEAST_PROBABILITY))))


def correlations(expected: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Pearson's and Spearman's correlations of two arrays [examples]."""
    check_finite_outputs(predicted)
    return {name: float(_METRICS[name](expected, predicted)) for name in ("pearson", "spearman")}


def _correlation(function):
    def of(labels, predicted):
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
