"""The release's SentencePiece tokenization as tensorflow-text ops: pieces, and its rule about commas after digits."""

from __future__ import annotations

import numpy as np
import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.text.graph_normalization import NormalizedTexts
from albert_tf.text.sentencepieces import WORD_START, DigitCommaTable

_TO_THE_END = np.iinfo(np.int64).max // 2


class GraphSentencePieces(tf.Module):
    """Pieces of normalised texts.

    Args:
      sp_model: the SentencePiece model.

    Raises:
      ValueError: the model does not take runs of blanks for one.
    """

    def __init__(self, sp_model: sentencepiece.SentencePieceProcessor):
        super().__init__()
        if sp_model.encode("  a  a ") != sp_model.encode("a a"):
            raise ValueError("the SentencePiece model tells two blanks from one: its text cannot be taken in a graph")
        self._tokenizer = tf_text.SentencepieceTokenizer(sp_model.serialized_model_proto(), out_type=tf.int32)
        replacements = DigitCommaTable(sp_model).replacements
        parts = [replacements.get(i, [i]) for i in range(sp_model.vocab_size())]
        self._parts = np.concatenate(parts).astype(np.int32)
        self._num_parts = np.array([len(ids) for ids in parts], np.int64)
        self._first_part = np.cumsum(self._num_parts) - self._num_parts
        spans = [span for ids in parts for span in _spans([sp_model.id_to_piece(i) for i in ids])]
        self._begins, self._ends = np.array(spans, np.int64).T

    def pieces(self, normalized: NormalizedTexts) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """The pieces' ids, int32 [texts, (pieces)], and for each piece its first solid byte and the one behind its
        last, int64 [pieces]. The blank before a word is no part of it."""
        ids, begins, ends = self._tokenizer.tokenize_with_offsets(normalized.texts)
        first_byte = tf.gather(normalized.byte_splits, ids.value_rowids())
        begins, ends = (tf.gather(normalized.solid_before, first_byte + tf.cast(offsets.values, tf.int64))
                        for offsets in (begins, ends))
        num_parts = tf.gather(self._num_parts, ids.values)
        piece = tf.repeat(tf.range(tf.size(ids.values)), num_parts)
        splits = tf.pad(tf.cumsum(num_parts), [[1, 0]])
        part = tf.gather(self._first_part, tf.gather(ids.values, piece))
        part += tf.range(splits[-1]) - tf.gather(splits, piece)
        begins, ends = tf.gather(begins, piece), tf.gather(ends, piece)
        return (tf.RaggedTensor.from_row_splits(tf.gather(self._parts, part), tf.gather(splits, ids.row_splits),
                                                validate=False),
                tf.minimum(begins + tf.gather(self._begins, part), ends),
                tf.minimum(begins + tf.gather(self._ends, part), ends))


def _spans(pieces: list[str]) -> list[tuple[int, int]]:
    """Which bytes of a piece its parts have, the word start not counted; the last part has all that is left."""
    sizes = [len(piece.replace(WORD_START, "").encode("utf-8")) for piece in pieces]
    bounds = [0, *np.cumsum(sizes[:-1]).tolist(), _TO_THE_END]
    return list(zip(bounds, bounds[1:]))
