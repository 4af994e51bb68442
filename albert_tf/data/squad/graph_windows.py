"""Questions and contexts as text to windows, as TensorFlow ops: features.py for SavedModels."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.squad.features import SPECIAL_TOKENS, FeatureOptions
from albert_tf.text.graph_packing import cut, with_special_tokens
from albert_tf.text.graph_tokenization import GraphTokenizer

MODEL_INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask")


class _Spans(NamedTuple):
    """The windows of all pairs, those of one pair side by side; int64 [windows] each.

    Args:
      pair: the pair of each.
      first, length: its pieces among those of its context.
    """

    pair: tf.Tensor
    first: tf.Tensor
    length: tf.Tensor


def pack_windows(
    tokenizer: GraphTokenizer, options: FeatureOptions, question: tf.Tensor, context: tf.Tensor, shortest: int = 1
) -> dict[str, tf.Tensor]:
    """The windows of each pair, those of one pair side by side; a pair has at least one.

    Args:
      tokenizer: of both texts.
      options: how they are cut.
      question, context: string [pairs].
      shortest: the least length that rows are padded to.

    Returns:
      input_ids, input_mask, segment_ids, p_mask: int32 [windows, seq], padded to the longest.
      pair: int64 [windows], the pair of each.
      starts, ends: int64 [windows, seq], the first byte of a token of the context, and the one behind its last; -1 for
        all other tokens.
      is_max_context: bool [windows, seq], whether a token of the context has more context here than in other windows.
    """
    queries = tokenizer.tokenize(question)
    query_length = tf.minimum(queries.row_lengths(), options.max_query_length)  # [pairs]
    pieces, starts, ends = tokenizer.tokenize_with_offsets(context)
    spans = _spans(pieces.row_lengths(), options.max_seq_length - SPECIAL_TOKENS - query_length, options.doc_stride)
    begin = tf.gather(pieces.row_starts(), spans.pair) + spans.first  # among the pieces of all contexts
    rows = _rows(tokenizer, tf.gather(cut(queries, query_length), spans.pair), pieces.values, begin, spans.length)
    seq = tf.maximum(rows.bounding_shape(1), shortest)
    input_ids = rows.to_tensor(tokenizer.pad_id, shape=tf.stack([-1, seq]))  # [windows, seq]

    doc_offset, length = tf.gather(query_length, spans.pair)[:, None] + 2, spans.length[:, None]
    place = tf.range(seq)[None] - doc_offset  # in the window
    in_window = (place >= 0) & (place < length)
    is_token = place <= length
    masks = dict(input_mask=is_token, segment_ids=is_token & (place >= 0), p_mask=~in_window & (place + doc_offset > 0))
    num_pieces = tf.size(pieces.values, tf.int64)
    piece = tf.where(in_window, begin[:, None] + place, num_pieces)
    return dict(
        {name: tf.cast(mask, tf.int32) for name, mask in masks.items()}, input_ids=input_ids, pair=spans.pair,
        starts=tf.gather(tf.pad(starts.values, [[0, 1]], constant_values=-1), piece),
        ends=tf.gather(tf.pad(ends.values, [[0, 1]], constant_values=-1), piece),
        is_max_context=_is_max_context(place, length, in_window, piece, num_pieces))


def _spans(num_pieces: tf.Tensor, room: tf.Tensor, doc_stride: int) -> _Spans:
    """windows.py for many: num_pieces and room are int64 [pairs]."""
    step = tf.minimum(room, doc_stride)
    count = 1 + tf.maximum(tf.constant(0, tf.int64), -((room - num_pieces) // step))  # of windows, [pairs]
    pair = tf.repeat(tf.range(tf.size(count, tf.int64)), count)  # [windows]
    number = tf.range(tf.size(pair, tf.int64)) - tf.gather(tf.cumsum(count, exclusive=True), pair)
    first = number * tf.gather(step, pair)
    return _Spans(pair, first, tf.minimum(tf.gather(room, pair), tf.gather(num_pieces, pair) - first))


def _rows(
    tokenizer: GraphTokenizer, queries: tf.RaggedTensor, pieces: tf.Tensor, begin: tf.Tensor, length: tf.Tensor
) -> tf.RaggedTensor:
    """[CLS] query [SEP] window [SEP]: int32 [windows, (tokens)]."""
    places = tf.ragged.range(begin, begin + length)
    windows = places.with_values(tf.gather(pieces, places.values))
    ids, _ = with_special_tokens(tokenizer, queries, windows, has_b=tf.ones_like(begin))
    return ids


def _is_max_context(place, length, in_window, piece, num_pieces):
    """Of several windows that are equally good for a piece the first, as in windows.py."""
    score = tf.cast(tf.minimum(place, length - 1 - place), tf.float64) + 0.01 * tf.cast(length, tf.float64)
    score = tf.where(in_window, score, tf.constant(-1.0, tf.float64))
    best = tf.gather(tf.math.unsorted_segment_max(score, piece, num_pieces + 1), piece)
    number = tf.broadcast_to(tf.range(tf.shape(place, tf.int64)[0])[:, None], tf.shape(place))
    candidate = tf.where(in_window & (score == best), number, number.dtype.max)
    return in_window & (tf.gather(tf.math.unsorted_segment_min(candidate, piece, num_pieces + 1), piece) == number)
