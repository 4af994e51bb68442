"""Exports a multiple-choice model as a SavedModel that takes questions and options as raw text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.saved_model import TextSignature, best_label, export_model, sequence_features
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.tasks.multiple_choice.data import BLANK
from albert_tf.text.graph.packing import cut, pack_ids
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import SPECIAL_TOKENS, padding_values
from albert_tf.text.tokenization import FullTokenizer


def export_multiple_choice(
    export_dir: str, model: AlbertMultipleChoice, tokenizer: FullTokenizer, max_seq_length: int, max_qa_length: int
) -> None:
    """Writes a SavedModel that chooses an option (see export_model for the signatures).

    The inputs as raw text are `context` and `question`, string [batch], and `options`, string [batch, choices], "" for
    an option that a question does not have. The outputs are probabilities, float32 [batch, choices], and predictions,
    int32 [batch], the index of the chosen option.

    Of a long passage the beginning is kept, of a long question with its option the end.
    """
    text_inputs: dict[str, list[int | None]] = dict(context=[None], question=[None], options=[None, model.num_choices])

    def pack(graph_tokenizer, **texts) -> dict:
        return pack_choices(graph_tokenizer, max_seq_length, max_qa_length, **texts)

    features = sequence_features(model.num_choices * max_seq_length)  # all choices of a question in one row
    export_model(export_dir, model, tokenizer, features, lambda outputs: best_label(outputs["logits"]),
                 TextSignature(text_inputs, pack))


def pack_choices(
    tokenizer: GraphTokenizer, max_seq_length: int, max_qa_length: int, context: tf.Tensor, question: tf.Tensor,
    options: tf.Tensor,
) -> dict:
    """Packs a row for each choice as convert_examples_to_features does, padded to the longest row of the batch.

    The texts are string [batch], the options string [batch, choices] with a static number of choices; "" for a passage
    or an option that a question does not have. The results are int32 [batch, choices, seq].
    """
    choices = options.shape[1]
    each_option = tf.reshape(options, [-1])  # [batch * choices]
    example = tf.repeat(tf.range(tf.shape(options)[0]), choices)  # [batch * choices]
    endings = _join(tf.gather(tokenizer.preprocess(question), example), tokenizer.preprocess(each_option))
    ending_ids = _last(tokenizer.tokenize(endings), min(max_qa_length, max_seq_length - SPECIAL_TOKENS))
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


def _last(rows: tf.RaggedTensor, count: int) -> tf.RaggedTensor:
    """The last `count` values of each row, or all of a shorter row."""
    row_ends = tf.gather(rows.row_limits(), rows.value_rowids())
    from_the_end = row_ends - tf.range(tf.size(rows.values, tf.int64))  # 1 for the last value of a row, 2 before it
    return tf.ragged.boolean_mask(rows, rows.with_values(from_the_end <= count))


def _pack(tokenizer: GraphTokenizer, max_seq_length: int, context_ids: tf.RaggedTensor, ending_ids: tf.RaggedTensor):
    """Packs passage and ending; the passage is truncated to the tokens left for it. No passage: the ending alone."""
    max_context = max_seq_length - SPECIAL_TOKENS - ending_ids.row_lengths()
    has_context = context_ids.row_lengths() > 0
    alone = cut(ending_ids, tf.where(has_context, tf.zeros_like(max_context), ending_ids.row_lengths()))
    second = cut(ending_ids, tf.where(has_context, ending_ids.row_lengths(), tf.zeros_like(max_context)))
    first = tf.concat([cut(context_ids, tf.minimum(context_ids.row_lengths(), max_context)), alone], axis=1)
    return pack_ids(tokenizer, max_seq_length, first, second)
