"""Packs questions and contexts into windows with TensorFlow ops: features.py for SavedModels that take text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.tasks.squad.features import FeatureOptions
from albert_tf.text.graph.packing import cut, with_special_tokens
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.graph.windows import is_max_context, slices, windows_of
from albert_tf.text.packing import SPECIAL_TOKENS

MODEL_INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask")


def pack_windows(
    tokenizer: GraphTokenizer, options: FeatureOptions, question: tf.Tensor, context: tf.Tensor, shortest: int = 1
) -> dict[str, tf.Tensor]:
    """Packs each pair of question and context into windows. The windows of a pair are consecutive; it has at least one.

    Args:
      tokenizer: the model's tokenizer.
      options: how features are made.
      question, context: string [pairs].
      shortest: the smallest length to which rows are padded.

    Returns:
      input_ids, input_mask, segment_ids, p_mask: int32 [windows, seq], padded to the longest row.
      pair: int64 [windows], the index of each window's pair.
      starts, ends: int64 [windows, seq], the first byte of a context token, and one past its last; -1 for other tokens.
      is_max_context: bool [windows, seq], whether a context token has more context in this window than in others.
    """
    queries = tokenizer.tokenize(question)
    query_length = tf.minimum(queries.row_lengths(), options.max_query_length)  # [pairs]
    pieces, starts, ends = tokenizer.tokenize_with_offsets(context)
    window_length = options.max_seq_length - SPECIAL_TOKENS - query_length  # [pairs]
    windows = windows_of(pieces.row_lengths(), window_length, options.doc_stride)
    begin = tf.gather(pieces.row_starts(), windows.text) + windows.first  # among the pieces of all contexts
    rows = _rows(tokenizer, tf.gather(cut(queries, query_length), windows.text), pieces.values, begin, windows.length)
    seq = tf.maximum(rows.bounding_shape(1), shortest)
    input_ids = rows.to_tensor(tokenizer.pad_id, shape=tf.stack([-1, seq]))  # [windows, seq]

    doc_offset, length = tf.gather(query_length, windows.text)[:, None] + 2, windows.length[:, None]
    place = tf.range(seq)[None] - doc_offset  # in the window
    in_window = (place >= 0) & (place < length)
    is_token = place <= length
    masks = dict(input_mask=is_token, segment_ids=is_token & (place >= 0), p_mask=~in_window & (place + doc_offset > 0))
    num_pieces = tf.size(pieces.values, tf.int64)
    piece = tf.where(in_window, begin[:, None] + place, num_pieces)
    return dict(
        {name: tf.cast(mask, tf.int32) for name, mask in masks.items()}, input_ids=input_ids, pair=windows.text,
        starts=tf.gather(tf.pad(starts.values, [[0, 1]], constant_values=-1), piece),
        ends=tf.gather(tf.pad(ends.values, [[0, 1]], constant_values=-1), piece),
        is_max_context=is_max_context(place, length, in_window, piece, num_pieces))


def _rows(
    tokenizer: GraphTokenizer, queries: tf.RaggedTensor, pieces: tf.Tensor, begin: tf.Tensor, length: tf.Tensor
) -> tf.RaggedTensor:
    """[CLS] query [SEP] window [SEP]: int32 [windows, (tokens)]."""
    ids, _ = with_special_tokens(tokenizer, queries, slices(pieces, begin, length), has_b=tf.ones_like(begin))
    return ids
