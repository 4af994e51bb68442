"""The release's SentencePiece tokenization (with its rule about commas after digits) and WordPiece, as TensorFlow ops."""

from __future__ import annotations

import unicodedata

import numpy as np
import sentencepiece
import tensorflow as tf

from albert_tf.text.graph.normalization import NormalizedTexts, apart
from albert_tf.text.sentencepieces import WORD_START, DigitCommaTable
from albert_tf.text.wordpiece import LONGEST_WORD, UNKNOWN
from albert_tf.utils.imports import tensorflow_text as tf_text

_TO_THE_END = np.iinfo(np.int64).max // 2
_UTF8_BYTES = 4  # the most bytes of a character


class GraphSentencePieces(tf.Module):
    """Pieces of normalised texts.

    Args:
      sp_model: the SentencePiece model.

    Raises:
      ValueError: the model does not treat several spaces as one.
    """

    def __init__(self, sp_model: sentencepiece.SentencePieceProcessor):
        super().__init__()
        if sp_model.encode("  a  a ") != sp_model.encode("a a"):
            raise ValueError("the SentencePiece model distinguishes two spaces from one, which a tokenizer in a graph "
                             "does not support")
        self._tokenizer = tf_text.SentencepieceTokenizer(sp_model.serialized_model_proto(), out_type=tf.int32)
        pieces = [sp_model.id_to_piece(i) for i in range(sp_model.vocab_size())]
        replacements = DigitCommaTable(sp_model).replacements
        parts = [replacements.get(i, [i]) for i in range(len(pieces))]
        self._parts = tf.constant(np.concatenate(parts), tf.int32)
        self._num_parts = tf.constant([len(ids) for ids in parts], tf.int64)
        self._first_part = tf.cumsum(self._num_parts, exclusive=True)
        spans = [span for ids in parts for span in _spans([pieces[i] for i in ids])]
        self._begins, self._ends = tf.unstack(tf.constant(spans, tf.int64), axis=1)

    def pieces(self, normalized: NormalizedTexts) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """The ids of the pieces, int32 [texts, (pieces)], and the span of each piece.

        A span is the first byte of the piece and one past its last, int64 [pieces] each, counted in non-space bytes
        (see NormalizedTexts). The space before a word does not count.
        """
        ids, begins, ends = self._tokenizer.tokenize_with_offsets(normalized.texts)
        first_byte = tf.gather(normalized.byte_splits, ids.value_rowids())
        begins, ends = (tf.gather(normalized.num_non_space_before, first_byte + tf.cast(offsets.values, tf.int64))
                        for offsets in (begins, ends))
        return self._with_digit_commas(ids, begins, ends)

    def _with_digit_commas(
        self, ids: tf.RaggedTensor, begins: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
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


def codes_without_piece(sp_model: sentencepiece.SentencePieceProcessor) -> tuple[list[int], list[int]]:
    """The code points that are unknown pieces wherever they stand, and those that the model's normalization removes."""
    pieces = "".join(sp_model.id_to_piece(i) for i in range(sp_model.vocab_size()) if not sp_model.is_control(i))
    known = {*pieces, *unicodedata.normalize("NFKD", pieces), WORD_START}  # two characters can compose a known one
    forms = apart(lambda text: sp_model.normalize(text.encode("utf-8", "replace").decode()))  # surrogates become "?"
    unknown = [code for code, form in forms.items() if form and known.isdisjoint([*form, chr(code)])]
    return unknown, [code for code, form in forms.items() if not form]


def _size(piece: str) -> int:
    """The bytes of a piece, not counting the word-start mark."""
    return len(piece.replace(WORD_START, "").encode("utf-8"))


def _spans(pieces: list[str]) -> list[tuple[int, int]]:
    """The byte span of each part within its piece, not counting the word-start mark. The last span is open-ended."""
    bounds = [0, *np.cumsum([_size(piece) for piece in pieces[:-1]], dtype=int).tolist(), _TO_THE_END]
    return list(zip(bounds, bounds[1:]))
