"""Packs [CLS] a [SEP] b [SEP] with TensorFlow ops: PairPacker for SavedModels that take text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import SPECIAL_TOKENS


def pack_texts(
    tokenizer: GraphTokenizer, max_seq_length: int, text_a: tf.Tensor, text_b: tf.Tensor | None = None
) -> dict:
    """Packs one or two texts per row, truncated as by PairPacker and padded to the longest row of the batch.

    text_a and text_b are string [batch]. A row whose second text has no pieces is packed as a single text.

    Returns:
      input_ids, input_mask (1 up to the last [SEP]) and segment_ids (1 on b and its [SEP]), int32 [batch, seq].
    """
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
    parts = [  # ids and segment of each part of a row
        (_repeated(tokenizer.cls_id, one), 0),
        (ids_a, 0),
        (_repeated(tokenizer.sep_id, one), 0),
        (ids_b, 1),
        (_repeated(tokenizer.sep_id, has_b), 1),
    ]
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


def _repeated(piece_id: int, lengths: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(lengths)], piece_id), lengths, validate=False)
