"""Questions and contexts as text to windows, as TensorFlow ops: features.py for SavedModels."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.data.graph_packing import cut
from albert_tf.data.squad.features import SPECIAL_TOKENS, FeatureOptions
from albert_tf.text.graph_tokenization import GraphTokenizer

MODEL_INPUTS = ("input_ids", "input_mask", "segment_ids", "p_mask")


def pack_windows(
    tokenizer: GraphTokenizer, options: FeatureOptions, question: tf.Tensor, context: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The windows of each pair, those of one pair side by side; a pair has at least one.

    Args:
      tokenizer: of both texts.
      options: how they are cut.
      question, context: string [pairs].

    Returns:
      input_ids, input_mask, segment_ids, p_mask: int32 [windows, seq], padded to the longest.
      pair: int64 [windows], the pair of each.
      starts, ends: int64 [windows, seq], the first byte of a token of the context, and the one behind its last; -1 for
        all other tokens.
      is_max_context: bool [windows, seq], whether a token of the context has more context here than in other windows.
    """
    queries = tokenizer.tokenize(question)
    query_length = tf.minimum(queries.row_lengths(), options.max_query_length)  # [pairs]
    queries = cut(queries, query_length)
    pieces, starts, ends = tokenizer.tokenize_with_offsets(context)
    room = options.max_seq_length - SPECIAL_TOKENS - query_length
    step = tf.minimum(room, options.doc_stride)
    count = 1 + tf.maximum(tf.constant(0, tf.int64), -((room - pieces.row_lengths()) // step))  # of windows, [pairs]
    pair = tf.repeat(tf.range(tf.size(count, tf.int64)), count)  # [windows]
    number = tf.range(tf.size(pair, tf.int64)) - tf.gather(tf.cumsum(count, exclusive=True), pair)
    first = number * tf.gather(step, pair)
    length = tf.minimum(tf.gather(room, pair), tf.gather(pieces.row_lengths(), pair) - first)
    begin = tf.gather(pieces.row_starts(), pair) + first  # among the pieces of all contexts

    one = tf.ones_like(pair)
    separator = tf.RaggedTensor.from_row_lengths(tf.fill(tf.shape(pair), tokenizer.sep_id), one, validate=False)
    window = tf.RaggedTensor.from_row_lengths(tf.gather(pieces.values, tf.ragged.range(begin, begin + length).values),
                                              length, validate=False)
    rows = tf.concat([separator.with_values(tf.fill(tf.shape(pair), tokenizer.cls_id)), tf.gather(queries, pair),
                      separator, window, separator], axis=1)
    input_ids = rows.to_tensor(tokenizer.pad_id)  # [windows, seq]
    doc_offset = tf.gather(query_length, pair)[:, None] + 2
    place = tf.range(tf.shape(input_ids, tf.int64)[1])[None] - doc_offset  # in the window
    in_window = (place >= 0) & (place < length[:, None])
    is_token = place <= length[:, None]
    piece = tf.where(in_window, begin[:, None] + place, tf.size(pieces.values, tf.int64))
    p_mask = ~in_window & (place + doc_offset > 0)
    masks = dict(input_mask=is_token, segment_ids=is_token & (place >= 0), p_mask=p_mask)
    return dict(
        {name: tf.cast(mask, tf.int32) for name, mask in masks.items()}, input_ids=input_ids, pair=pair,
        starts=tf.gather(tf.pad(starts.values, [[0, 1]], constant_values=-1), piece),
        ends=tf.gather(tf.pad(ends.values, [[0, 1]], constant_values=-1), piece),
        is_max_context=_is_max_context(place, length[:, None], in_window, piece, tf.size(pieces.values, tf.int64)))


def _is_max_context(place, length, in_window, piece, num_pieces):
    """Of several windows that are equally good for a piece the first, as in windows.py."""
    score = tf.cast(tf.minimum(place, length - 1 - place), tf.float64) + 0.01 * tf.cast(length, tf.float64)
    score = tf.where(in_window, score, tf.constant(-1.0, tf.float64))
    best = tf.gather(tf.math.unsorted_segment_max(score, piece, num_pieces + 1), piece)
    number = tf.broadcast_to(tf.range(tf.shape(place, tf.int64)[0])[:, None], tf.shape(place))
    candidate = tf.where(in_window & (score == best), number, number.dtype.max)
    return in_window & (tf.gather(tf.math.unsorted_segment_min(candidate, piece, num_pieces + 1), piece) == number)
