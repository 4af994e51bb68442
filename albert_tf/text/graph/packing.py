"""text/packing.py with TensorFlow ops, for SavedModels that take text: [CLS] a [SEP] b [SEP], and windows."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.text.graph.tokenization import GraphTokenizer, repeated
from albert_tf.text.packing import SPECIAL_TOKENS, WindowOptions, padding_values, stride_or_half


def pack_texts(
    tokenizer: GraphTokenizer, max_seq_length: int, text_a: tf.Tensor, text_b: tf.Tensor | None = None
) -> dict:
    """PairPacker.pack for texts, string [batch]: features int32 [batch, seq], padded to the longest row."""
    ids_a = tokenizer.tokenize(text_a)
    return pack_ids(tokenizer, max_seq_length, ids_a, None if text_b is None else tokenizer.tokenize(text_b))


def pack_ids(
    tokenizer: GraphTokenizer, max_seq_length: int | tf.Tensor, ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor | None = None, padded_length: int | tf.Tensor | None = None,
) -> dict:
    """`pack_texts` for ids, int32 [batch, (pieces)]. With padded_length, all rows are padded to that length."""
    if ids_b is None:
        ids_b = tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int32), tf.zeros_like(ids_a.row_lengths()))
    length_a, length_b = kept_lengths(max_seq_length, ids_a, ids_b)
    ids, segments = with_special_tokens(tokenizer, cut(ids_a, length_a), cut(ids_b, length_b), _has_pieces(ids_b))
    shape = None if padded_length is None else tf.stack([tf.constant(-1, tf.int64), tf.cast(padded_length, tf.int64)])
    return dict(input_ids=ids.to_tensor(tokenizer.pad_id, shape=shape), segment_ids=segments.to_tensor(0, shape=shape),
                input_mask=tf.ones_like(ids).to_tensor(0, shape=shape))


def kept_lengths(
    max_seq_length: int | tf.Tensor, ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """PairPacker.lengths for tensors: how many pieces of each text a row keeps, int64 [batch] each."""
    length_a, length_b = ids_a.row_lengths(), ids_b.row_lengths()
    most = tf.cast(max_seq_length, tf.int64) - SPECIAL_TOKENS + 1 - _has_pieces(ids_b)
    half = most // 2
    return (tf.minimum(length_a, tf.maximum(most - length_b, most - half)),
            tf.minimum(length_b, tf.maximum(most - length_a, half)))


def with_special_tokens(
    tokenizer: GraphTokenizer, ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor, has_b: tf.Tensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """[CLS] a [SEP] b [SEP] and its segment ids, int32 [batch, (tokens)], for ids, int32 [batch, (pieces)].

    has_b, int64 [batch], is 1 if a row has a second text, and 0 if it ends with the [SEP] after a.
    """
    one = tf.ones_like(has_b)
    cls, sep, last_sep = (
        tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(lengths)], piece_id), lengths, validate=False)
        for piece_id, lengths in ((tokenizer.cls_id, one), (tokenizer.sep_id, one), (tokenizer.sep_id, has_b)))
    parts = [(cls, 0), (ids_a, 0), (sep, 0), (ids_b, 1), (last_sep, 1)]  # ids and segment of each part of a row
    ids = tf.concat([ids for ids, _ in parts], axis=1)
    segments = tf.concat([ids.with_values(tf.fill(tf.shape(ids.values), segment)) for ids, segment in parts], axis=1)
    return ids, segments


def cut(rows: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """The first `lengths` values of each row."""
    kept = tf.boolean_mask(rows.values, numbers_in_rows(rows) < tf.gather(lengths, rows.value_rowids()))
    return tf.RaggedTensor.from_row_lengths(kept, lengths, validate=False)


def numbers_in_rows(rows: tf.RaggedTensor) -> tf.Tensor:
    """The index of each value in its row, int64 [values]."""
    return tf.range(tf.size(rows.values, tf.int64)) - tf.gather(rows.row_starts(), rows.value_rowids())


def _has_pieces(rows: tf.RaggedTensor) -> tf.Tensor:
    """1 for rows that are not empty, int64 [batch]."""
    return tf.cast(rows.row_lengths() > 0, tf.int64)


class GraphWindows(NamedTuple):
    """The windows of all texts, int64 [windows] each. The windows of a text are consecutive."""

    text: tf.Tensor  # the index of the text
    first: tf.Tensor  # the index of the window's first piece in the text
    length: tf.Tensor  # the number of pieces


def windows_of(num_pieces: tf.Tensor, window_length: tf.Tensor, doc_stride: int | tf.Tensor) -> GraphWindows:
    """packing.windows for several texts, int64 [texts]. A text without pieces has one empty window."""
    step = tf.minimum(window_length, doc_stride)
    count = 1 + tf.maximum(tf.constant(0, tf.int64), -((window_length - num_pieces) // step))  # [texts]
    text, number = repeated(count)  # [windows] each
    first = number * tf.gather(step, text)
    return GraphWindows(text, first, tf.minimum(tf.gather(window_length, text), tf.gather(num_pieces, text) - first))


def slices(values: tf.Tensor, begin: tf.Tensor, length: tf.Tensor) -> tf.RaggedTensor:
    """Values begin to begin + length - 1, int64 [slices] each, as [slices, (values)]. Slices may overlap."""
    indices = tf.ragged.range(begin, begin + length)
    return indices.with_values(tf.gather(values, indices.values))


def is_max_context(
    index: tf.Tensor,  # int64 [windows or 1, seq], the index of a token in its window; any number outside the window
    length: tf.Tensor,  # int64 [windows, 1], the number of pieces of each window
    in_window: tf.Tensor,  # bool [windows, seq], whether a token is a piece of the window
    piece: tf.Tensor,  # int64 [windows, seq], the index of its piece in all texts, or num_pieces
    num_pieces: tf.Tensor,  # int64 [], the number of pieces of all texts
) -> tf.Tensor:
    """Window.is_max_context of each token, bool [windows, seq]. On a tie, the first window has it."""
    score = tf.cast(tf.minimum(index, length - 1 - index), tf.float64) + 0.01 * tf.cast(length, tf.float64)
    score = tf.where(in_window, score, tf.constant(-1.0, tf.float64))
    best = tf.gather(tf.math.unsorted_segment_max(score, piece, num_pieces + 1), piece)
    number = tf.broadcast_to(tf.range(tf.shape(in_window, tf.int64)[0])[:, None], tf.shape(in_window))
    candidate = tf.where(in_window & (score == best), number, number.dtype.max)
    return in_window & (tf.gather(tf.math.unsorted_segment_min(candidate, piece, num_pieces + 1), piece) == number)


def pack_text_windows(
    tokenizer: GraphTokenizer, max_seq_length: int, options: WindowOptions, text_a: tf.Tensor,
    text_b: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """WindowPacker.pack for texts, string [batch]: features int32 [batch, windows, seq], padded within the batch."""
    ids_a = tokenizer.tokenize(text_a)
    ids_b = tokenizer.tokenize(text_b if text_b is not None else tf.fill(tf.shape(text_a), ""))
    length_a, length_b = kept_lengths(max_seq_length, ids_a, ids_b)
    has_long_b = ids_b.row_lengths() >= ids_a.row_lengths()  # [batch]
    num_pieces = tf.where(has_long_b, ids_b.row_lengths(), ids_a.row_lengths())
    window_length = tf.where(has_long_b, length_b, length_a)
    window_length = tf.maximum(window_length, 1)  # it is 0 if both texts are empty
    stride = tf.minimum(window_length, stride_or_half(options.doc_stride, window_length))
    windows = windows_of(num_pieces, window_length, stride)

    kept = tf.where(windows.first < options.max_windows * tf.gather(stride, windows.text))[:, 0]
    text, first, length = (tf.gather(each, kept) for each in windows)
    is_b = tf.gather(has_long_b, text)  # [windows], whether the window is one of the second text

    def parts(ids: tf.RaggedTensor, kept_length: tf.Tensor, is_window: tf.Tensor) -> tf.RaggedTensor:
        begin = tf.gather(ids.row_starts(), text) + tf.where(is_window, first, tf.zeros_like(first))
        return slices(ids.values, begin, tf.where(is_window, length, tf.gather(kept_length, text)))

    rows = pack_ids(tokenizer, max_seq_length, parts(ids_a, length_a, ~is_b), parts(ids_b, length_b, is_b))
    padding = padding_values(tokenizer.pad_id)
    return {name: tf.RaggedTensor.from_value_rowids(rows[name], text, ids_a.nrows()).to_tensor(value)
            for name, value in padding.items()}
