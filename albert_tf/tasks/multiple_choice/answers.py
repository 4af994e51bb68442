"""Answers of multiple-choice questions: to raw texts, in Python and in exported models; their scores and their file."""

from __future__ import annotations

import json
import os
from typing import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.export.saved_model import TextSignature, best_label, export_model, sequence_features
from albert_tf.modeling.classifier import AlbertMultipleChoice
from albert_tf.modeling.settings import MultipleChoiceSettings, PredictingModel
from albert_tf.tasks.classification.metrics import mean_cross_entropy
from albert_tf.tasks.multiple_choice.data import (
    ALL_LEVELS,
    BLANK,
    MAX_QA_LENGTH,
    MultipleChoiceExample,
    convert_examples_to_features,
    letters,
)
from albert_tf.text.graph.packing import cut, pack_ids
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import SPECIAL_TOKENS, padding_values
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.prediction import check_finite_outputs
from albert_tf.utils.outputs import write_text
from albert_tf.weights.heads import checked_settings

BEST_METRIC = f"{ALL_LEVELS}_accuracy"
PREDICTIONS = "predictions.jsonl"
_BATCH = 16


def choose_options(
    model: PredictingModel, tokenizer: FullTokenizer, contexts: Sequence[str], questions: Sequence[str],
    options: Sequence[Sequence[str]],
) -> np.ndarray:
    """The probabilities of the options of each question, float32 [questions, choices].

    Each question has num_choices options. A context or an option may be "" if a question has none.
    """
    settings = checked_settings(model, tokenizer, MultipleChoiceSettings)
    examples = [MultipleChoiceExample("", context, question, tuple(choices))
                for context, question, choices in zip(contexts, questions, options)]
    features = convert_examples_to_features(
        examples, tokenizer, model.row_length, settings.max_qa_length or MAX_QA_LENGTH, settings.num_choices)
    rows = list(features)

    probabilities = [np.zeros([0, settings.num_choices], np.float32)]
    for first in range(0, len(rows), _BATCH):
        batch = slice(first, first + _BATCH)
        are_options = np.array([[bool(option) for option in example.options] for example in examples[batch]])
        outputs = model(_inputs(rows[batch], are_options, tokenizer.pad_id))
        probabilities.append(tf.nn.softmax(tf.cast(outputs["logits"], tf.float32)).numpy())
    return np.concatenate(probabilities)


def _inputs(rows: Sequence[dict], are_options: np.ndarray, pad_id: int) -> dict[str, np.ndarray]:
    """int32 [questions, choices, longest row]. The rows of missing options are padding."""
    inputs = {name: np.where(are_options[:, :, None], np.array([row[name] for row in rows], np.int32), fill)
              for name, fill in padding_values(pad_id).items()}
    longest = max(1, int(inputs["input_mask"].sum(axis=2).max()))
    return {name: values[:, :, :longest].astype(np.int32) for name, values in inputs.items()}


def evaluate(examples: Sequence[MultipleChoiceExample], probabilities: np.ndarray) -> dict[str, float]:
    """Computes eval_accuracy of all questions, LEVEL_accuracy of each level, and eval_loss (also as loss).

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


def export_multiple_choice(
    export_dir: str, model: AlbertMultipleChoice, tokenizer: FullTokenizer, max_seq_length: int, max_qa_length: int
) -> None:
    """Writes a SavedModel that chooses an option (see export_model for the signatures).

    The inputs as raw text are `context` and `question`, string [batch], and `options`, string [batch, choices], "" for
    an option that a question does not have. The outputs are probabilities, float32 [batch, choices], and predictions,
    int32 [batch], the index of the chosen option.

    Long passages are cut at the end, long questions with their option at the start.
    """
    num_choices = model.settings.num_choices
    text_inputs: dict[str, list[int | None]] = dict(context=[None], question=[None], options=[None, num_choices])

    def pack(graph_tokenizer: GraphTokenizer, **texts: tf.Tensor) -> dict:
        return pack_choices(graph_tokenizer, max_seq_length, max_qa_length, **texts)

    features = sequence_features(num_choices * max_seq_length)  # all choices of a question in one row
    export_model(export_dir, model, tokenizer, features, lambda outputs: best_label(outputs["logits"]),
                 TextSignature(text_inputs, pack))


def pack_choices(
    tokenizer: GraphTokenizer, max_seq_length: int, max_qa_length: int, context: tf.Tensor, question: tf.Tensor,
    options: tf.Tensor,
) -> dict:
    """Packs a row for each choice as convert_examples_to_features does, padded to the longest row of the batch.

    The texts are string [batch], the options string [batch, choices] with a static number of choices; "" for none. The
    results are int32 [batch, choices, seq].
    """
    choices = options.shape[1]
    each_option = tf.reshape(options, [-1])  # [batch * choices]
    example = tf.repeat(tf.range(tf.shape(options)[0]), choices)  # [batch * choices]
    endings = _join(tf.gather(tokenizer.preprocess(question), example), tokenizer.preprocess(each_option))
    ids = tokenizer.tokenize(endings)  # [batch * choices, (pieces)]
    from_the_end = tf.gather(ids.row_limits(), ids.value_rowids()) - tf.range(tf.size(ids.values, tf.int64))
    most = min(max_qa_length, max_seq_length - SPECIAL_TOKENS)
    ending_ids = tf.ragged.boolean_mask(ids, ids.with_values(from_the_end <= most))  # the last ones of each row
    context_ids = tf.gather(tokenizer.tokenize(context), example)

    packed = _pack(tokenizer, max_seq_length, context_ids, ending_ids)
    is_option = (each_option != "")[:, None]
    padding = padding_values(tokenizer.pad_id)
    rows = {name: tf.where(is_option, packed[name], value) for name, value in padding.items()}  # [batch * choices, seq]
    return {name: tf.reshape(row, [-1, choices, tf.shape(row)[1]]) for name, row in rows.items()}


def _join(question: tf.Tensor, option: tf.Tensor) -> tf.Tensor:
    """reading.join for tensors, string [texts] each."""
    parts = tf.strings.split(question, BLANK)  # [texts, (parts)]
    text = parts.value_rowids()
    is_first = tf.range(tf.size(text, tf.int64)) == tf.gather(parts.row_starts(), text)
    filled = parts.with_values(tf.where(is_first, "", tf.gather(option, text)) + parts.values)
    has_blank = parts.row_lengths() > 1
    return tf.where(has_blank, tf.strings.reduce_join(filled, axis=1), question + " " + option)


def _pack(
    tokenizer: GraphTokenizer, max_seq_length: int, context_ids: tf.RaggedTensor, ending_ids: tf.RaggedTensor
) -> dict[str, tf.Tensor]:
    """Packs passage and ending; the passage is truncated to the tokens left for it. No passage: the ending alone."""
    max_context = max_seq_length - SPECIAL_TOKENS - ending_ids.row_lengths()
    has_context = context_ids.row_lengths() > 0
    alone = cut(ending_ids, tf.where(has_context, tf.zeros_like(max_context), ending_ids.row_lengths()))
    second = cut(ending_ids, tf.where(has_context, ending_ids.row_lengths(), tf.zeros_like(max_context)))
    first = tf.concat([cut(context_ids, tf.minimum(context_ids.row_lengths(), max_context)), alone], axis=1)
    return pack_ids(tokenizer, max_seq_length, first, second)
