"""The release's WordPiece tokenization as tensorflow-text ops, for the Chinese models."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.text.graph.normalization import NormalizedTexts
from albert_tf.text.wordpiece import LONGEST_WORD, UNKNOWN
from albert_tf.utils.imports import tensorflow_text as tf_text

_UTF8_BYTES = 4  # the most bytes of a character


class GraphWordPieces(tf.Module):
    """Pieces of normalised texts, whose basic tokens must be separated by spaces.

    Args:
      vocab: piece -> id.
    """

    def __init__(self, vocab: dict[str, int]):
        super().__init__()
        entries = tf.lookup.KeyValueTensorInitializer(list(vocab), np.array(list(vocab.values()), np.int64))
        self._table = tf.lookup.StaticHashTable(entries, default_value=vocab[UNKNOWN])
        self._tokenizer = tf_text.WordpieceTokenizer(self._table, max_bytes_per_word=LONGEST_WORD * _UTF8_BYTES,
                                                     token_out_type=tf.int32, unknown_token=UNKNOWN)

    def pieces(self, normalized: NormalizedTexts) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """The ids of the pieces, int32 [texts, (pieces)], and the span of each piece.

        A span is the first byte of the piece and one past its last, int64 [pieces] each, counted in non-space bytes
        (see NormalizedTexts).
        """
        words = tf.strings.split(normalized.texts)
        sizes = tf.cast(tf.strings.length(words.values), tf.int64)
        is_too_long = tf.strings.length(words.values, "UTF8_CHAR") > LONGEST_WORD
        ids, begins, ends = self._tokenizer.tokenize_with_offsets(tf.where(is_too_long, UNKNOWN, words.values))
        word = ids.value_rowids()
        ends = tf.where(tf.gather(is_too_long, word), tf.gather(sizes, word), tf.cast(ends.values, tf.int64))
        first_byte = tf.gather(tf.cumsum(sizes, exclusive=True), word)
        splits = tf.gather(ids.row_splits, words.row_splits)
        return (tf.RaggedTensor.from_row_splits(ids.values, splits, validate=False),
                first_byte + tf.cast(begins.values, tf.int64), first_byte + ends)
