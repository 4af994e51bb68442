"""Multiple-choice questions: accuracy (also per level), loss, and the file of predictions."""

from __future__ import annotations

import json
import os
from typing import Sequence

import numpy as np

from albert_tf.tasks.classification.metrics import check_finite_outputs, mean_cross_entropy
from albert_tf.tasks.multiple_choice.reading import ALL_LEVELS, MultipleChoiceExample, letters
from albert_tf.utils.writing import write_text

BEST_METRIC = f"{ALL_LEVELS}_accuracy"
PREDICTIONS = "predictions.jsonl"


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


def write_predictions(
    directory: str, examples: Sequence[MultipleChoiceExample], probabilities: np.ndarray
) -> None:
    """Writes predictions.jsonl: one line per question with id, question, prediction (a letter) and probabilities."""
    lines = []
    for example, row in zip(examples, probabilities):
        option_probabilities = row[: len(example.options)].tolist()
        answer = letters(len(example.options))[int(np.argmax(option_probabilities))]
        lines.append(json.dumps(dict(id=example.example_id, question=example.question, prediction=answer,
                                     probabilities=option_probabilities), ensure_ascii=False))
    write_text(os.path.join(directory, PREDICTIONS), "\n".join(lines) + "\n")
