"""GLUE's metrics, by scikit-learn and scipy, under the release's names."""

from __future__ import annotations

import numpy as np

from albert_tf.data.glue_tasks import Task
from albert_tf.lazy import scipy_stats as stats, sklearn_metrics as metrics

_LEAST_PROBABILITY = np.finfo(np.float32).tiny


def evaluate(task: Task, probabilities: np.ndarray, label_ids: np.ndarray) -> dict[str, float]:
    """The task's metrics, and for every task eval_loss (also as loss) and, for classes, eval_accuracy.

    Args:
      task: names its metrics.
      probabilities: [examples, labels]; of a regression the scores, [examples, 1].
      label_ids: [examples], classes or scores.

    Raises:
      ValueError: not all of the model's answers are finite.
    """
    check_finite(probabilities)
    if task.is_regression:
        given = probabilities[:, 0]
        loss, names = np.mean(np.square(given - label_ids)), task.metrics
    else:
        given = probabilities.argmax(axis=-1)
        loss, names = mean_cross_entropy(probabilities, label_ids), ("eval_accuracy", *task.metrics)
    results = {name: float(_METRICS[name](label_ids, given)) for name in dict.fromkeys(names)}
    return dict(results, eval_loss=float(loss), loss=float(loss))


def mean_cross_entropy(probabilities: np.ndarray, label_ids: np.ndarray) -> float:
    """Of probabilities [examples, labels] and the right ones [examples]."""
    of_labels = probabilities[np.arange(len(label_ids)), label_ids]
    return float(-np.mean(np.log(np.maximum(of_labels, _LEAST_PROBABILITY))))


def correlations(expected: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Pearson's and Spearman's correlations of two arrays [examples].

    Raises:
      ValueError: not all predictions are finite.
    """
    check_finite(predicted)
    return {name: float(_METRICS[name](expected, predicted)) for name in ("pearson", "spearman")}


def check_finite(answers: np.ndarray) -> None:
    """Raises ValueError if not all answers of a model are finite numbers."""
    if not np.isfinite(answers).all():
        raise ValueError("the model's answers are no finite numbers: training has diverged, lower --learning_rate")


def _correlation(function):
    def of(labels, given):
        # What does not vary goes with nothing: 0, where scipy says nan.
        return 0.0 if np.ptp(labels) == 0 or np.ptp(given) == 0 else function(labels, given)[0]

    return of


_METRICS = {
    "eval_accuracy": lambda labels, given: metrics.accuracy_score(labels, given),
    "f1": lambda labels, given: metrics.f1_score(labels, given, zero_division=0.0),
    "matthew_corr": lambda labels, given: metrics.matthews_corrcoef(labels, given),
    "pearson": _correlation(lambda labels, given: stats.pearsonr(labels, given)),
    "spearman": _correlation(lambda labels, given: stats.spearmanr(labels, given)),
    "MSE": lambda labels, given: metrics.mean_squared_error(labels, given),
}
