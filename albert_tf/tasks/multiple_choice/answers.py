"""Writes the answers of multiple-choice questions to a file."""

from __future__ import annotations

import json
import os
from typing import Sequence

import numpy as np

from albert_tf.tasks.multiple_choice.reading import MultipleChoiceExample, letters
from albert_tf.utils.outputs import write_text

PREDICTIONS = "predictions.jsonl"


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
