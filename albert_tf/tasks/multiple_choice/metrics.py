"""Scores of multiple-choice questions: accuracy, also per level, and loss."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from albert_tf.tasks.classification.metrics import mean_cross_entropy
from albert_tf.tasks.multiple_choice.reading import ALL_LEVELS, MultipleChoiceExample
from albert_tf.training.evaluation import check_finite_outputs

BEST_METRIC = f"{ALL_LEVELS}_accuracy"


def evaluate(examples: Sequence[MultipleChoiceExample], probabilities: np.ndarray) -> dict[str, float]:
    """Computes eval_accuracy, LEVEL_accuracy for each level of the questions, and eval_loss (also as loss).

    eval_accuracy is that of all questions. A level "eval" (which readers refuse) has no accuracy of its own.

    Args:
      examples: the questions, with labels.
      probabilities: [examples, choices], the probability of each choice.

    Raises:
      ValueError: a probability is NaN or infinite.
    """
    check_finite_outputs(probabilities)
    labels = np.array([example.label for example in examples])
    is_right = probabilities.argmax(axis=1) == labels
    results = {BEST_METRIC: float(is_right.mean())}
    for level in dict.fromkeys(example.level for example in examples if example.level not in ("", ALL_LEVELS)):
        results[f"{level}_accuracy"] = float(is_right[[example.level == level for example in examples]].mean())
    loss = mean_cross_entropy(probabilities, labels)
    return dict(results, eval_loss=loss, loss=loss)
