"""Answers of multiple-choice questions: those of a model to raw texts, their scores, and the file of predictions."""

from __future__ import annotations

import json
import os
from typing import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.modeling.arguments import PredictingModel
from albert_tf.tasks.classification.metrics import mean_cross_entropy
from albert_tf.tasks.multiple_choice.data import (
    ALL_LEVELS,
    MultipleChoiceExample,
    convert_examples_to_features,
    letters,
)
from albert_tf.text.packing import padding_values
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.evaluation import check_finite_outputs
from albert_tf.utils.outputs import write_text
from albert_tf.weights.heads import check_reads_texts

BEST_METRIC = f"{ALL_LEVELS}_accuracy"
PREDICTIONS = "predictions.jsonl"
_BATCH = 16


def choose_options(
    model: PredictingModel, tokenizer: FullTokenizer, contexts: Sequence[str], questions: Sequence[str],
    options: Sequence[Sequence[str]],
) -> np.ndarray:
    """The probabilities of the options of each question, float32 [questions, choices].

    Contexts and options may be "", where a question has none; each question has num_choices options.
    """
    check_reads_texts(model, tokenizer, "multiple_choice")
    examples = [MultipleChoiceExample("", context, question, tuple(choices))
                for context, question, choices in zip(contexts, questions, options)]
    features = convert_examples_to_features(examples, tokenizer, model.row_length, model.max_qa_length or 128,
                                            model.num_choices)
    rows = list(features)

    def batches():
        yield np.zeros([0, model.num_choices], np.float32)
        for first in range(0, len(rows), _BATCH):
            are_options = np.array([[bool(option) for option in example.options]
                                    for example in examples[first : first + _BATCH]])
            outputs = model(_inputs(rows[first : first + _BATCH], are_options, tokenizer.pad_id))
            yield tf.nn.softmax(tf.cast(outputs["logits"], tf.float32))

    return np.concatenate(list(batches()))


def _inputs(rows: Sequence[dict], are_options: np.ndarray, pad_id: int) -> dict[str, np.ndarray]:
    """int32 [questions, choices, longest row]. The rows of missing options are padding."""
    inputs = {name: np.where(are_options[:, :, None], np.array([row[name] for row in rows], np.int32), fill)
              for name, fill in padding_values(pad_id).items()}
    longest = max(1, int(inputs["input_mask"].sum(axis=2).max()))
    return {name: values[:, :, :longest].astype(np.int32) for name, values in inputs.items()}


def evaluate(examples: Sequence[MultipleChoiceExample], probabilities: np.ndarray) -> dict[str, float]:
    """Computes eval_accuracy, LEVEL_accuracy for each level of the questions, and eval_loss (also as loss).

    eval_accuracy is that of all questions. A level "eval" (which readers refuse) has no accuracy of its own.
    Probabilities are [examples, choices]; all examples have labels.
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
