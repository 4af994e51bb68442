"""Chooses options of questions, as raw text, with a fine-tuned model, Keras or exported."""

from __future__ import annotations

from typing import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.modeling.predicting_model import PredictingModel
from albert_tf.tasks.multiple_choice.features import convert_examples_to_features
from albert_tf.tasks.multiple_choice.reading import MultipleChoiceExample
from albert_tf.text.packing import padding_values
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.heads import check_reads_texts

_BATCH = 16


def choose_options(
    model: PredictingModel, tokenizer: FullTokenizer, contexts: Sequence[str], questions: Sequence[str],
    options: Sequence[Sequence[str]],
) -> np.ndarray:
    """The probabilities of the options of each question, float32 [questions, choices].

    Args:
      model: a fine-tuned AlbertMultipleChoice, or an exported one.
      tokenizer: the model's tokenizer.
      contexts: the passages; "" for a question without one.
      questions: the questions.
      options: the model's num_choices options of each question; "" for an option that a question does not have.

    Raises:
      ValueError: the model has another head, or the tokenizer is not the model's.
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
