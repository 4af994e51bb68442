"""window_packing.py with TensorFlow ops, for SavedModels that take text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.text.graph.packing import kept_lengths, pack_ids
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.graph.windows import slices, windows_of
from albert_tf.text.packing import padding_values
from albert_tf.text.windows import WindowOptions


def pack_text_windows(
    tokenizer: GraphTokenizer, max_seq_length: int, options: WindowOptions, text_a: tf.Tensor,
    text_b: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Packs one or two texts into windows, padded to the longest row and the largest number of windows of the batch.

    Args:
      tokenizer: tokenizes the texts.
      max_seq_length: the largest number of tokens of a row.
      options: how longer texts are read.
      text_a: string [batch].
      text_b: string [batch]; a second text without pieces counts as none.

    Returns:
      input_ids, input_mask and segment_ids, int32 [batch, windows, seq].
    """
    ids_a = tokenizer.tokenize(text_a)
    ids_b = tokenizer.tokenize(text_b if text_b is not None else tf.fill(tf.shape(text_a), ""))
    length_a, length_b = kept_lengths(max_seq_length, ids_a, ids_b)
    has_long_b = ids_b.row_lengths() >= ids_a.row_lengths()  # [batch]
    num_pieces = tf.where(has_long_b, ids_b.row_lengths(), ids_a.row_lengths())
    window_length = tf.where(has_long_b, length_b, length_a)
    window_length = tf.maximum(window_length, 1)  # it is 0 if both texts are empty
    stride = tf.minimum(window_length, options.stride(window_length))
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
