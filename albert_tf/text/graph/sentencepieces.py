"""The release's SentencePiece tokenization as tensorflow-text ops: pieces, and its rule about commas after digits.

tensorflow-text has two SentencePiece tokenizers, and this module needs both:

- SentencepieceTokenizer returns offsets, but it compares scores in float64, as the sentencepiece library did up to
  version 0.2.1. Since 0.2.2 the library compares them in float32, as it did when ALBERT was released. If two
  segmentations of a word differ in score by a rounding error only, float32 and float64 can choose different ones
  ("ee e" instead of "e ee").
- FastSentencepieceTokenizer compares in float32. It returns no offsets, and it corrupts its process's memory if one
  call returns more than 32,767 pieces.

So the pieces come from FastSentencepieceTokenizer, one text per call, and the offsets from SentencepieceTokenizer.

FastSentencepieceTokenizer also subtracts the penalty of an unknown character once per byte; the library subtracts it
once per character. All later scores would then round differently. So each unknown character is replaced by one byte.
"""

from __future__ import annotations

import numpy as np
import sentencepiece
import tensorflow as tf

from albert_tf.text.graph.normalization import NormalizedTexts
from albert_tf.text.sentencepieces import WORD_START, DigitCommaTable
from albert_tf.utils.imports import tensorflow_text as tf_text

_TO_THE_END = np.iinfo(np.int64).max // 2
# The largest text, in bytes, for FastSentencepieceTokenizer. One piece per byte would stay far below its limit.
_LONGEST_TEXT = 16_000
# Replaces an unknown character. This byte occurs in no UTF-8 text, and so in no piece.
_UNKNOWN_BYTE = b"\xff"


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
        serialized, self._unk_id = sp_model.serialized_model_proto(), sp_model.unk_id()
        self._with_offsets = tf_text.SentencepieceTokenizer(serialized, out_type=tf.int32)
        self._surfaces = tf_text.SentencepieceTokenizer(serialized, out_type=tf.string)
        self._as_the_library = tf_text.FastSentencepieceTokenizer(serialized)
        self._first_word_start = f"^{WORD_START}" if sp_model.normalize("a").startswith(WORD_START) else "^$"
        self._unknown_character = _unknown_character(sp_model)
        pieces = [sp_model.id_to_piece(i) for i in range(sp_model.vocab_size())]
        self._sizes = tf.constant([_size(piece) for piece in pieces], tf.int64)
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
        placed, begins, ends = self._with_offsets.tokenize_with_offsets(normalized.texts)
        first_byte = tf.gather(normalized.byte_splits, placed.value_rowids())
        begins, ends = (tf.gather(normalized.num_non_space_before, first_byte + tf.cast(offsets.values, tf.int64))
                        for offsets in (begins, ends))
        ids = self._chosen(normalized.texts, placed)
        return self._with_digit_commas(ids, *self._places(ids.values, placed.values, begins, ends))

    # Always a graph, also in an eager call: otherwise the loop over the texts would run in Python.
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string),
                                                   tf.RaggedTensorSpec([None, None], tf.int32)])
    def _chosen(self, texts: tf.Tensor, placed: tf.RaggedTensor) -> tf.RaggedTensor:
        """The library's ids of each text. For a text over _LONGEST_TEXT bytes, the ids of `placed`."""
        is_long = tf.strings.length(texts) > _LONGEST_TEXT
        chosen = tf.map_fn(lambda text: self._as_the_library.tokenize(text[None]).values,
                           self._with_unknown_bytes(tf.where(is_long, "", texts)),
                           fn_output_signature=tf.RaggedTensorSpec([None], tf.int32))
        lengths = placed.row_lengths() * tf.cast(is_long, tf.int64)
        long_ones = tf.boolean_mask(placed.values, tf.gather(is_long, placed.value_rowids()))
        return tf.concat([chosen, tf.RaggedTensor.from_row_lengths(long_ones, lengths, validate=False)], axis=1)

    def _with_unknown_bytes(self, texts: tf.Tensor) -> tf.Tensor:
        """The texts after the model's own normalization, each unknown character replaced by one byte.

        The normalization comes first, since it can compose characters: two unknown jamo become one unknown syllable.
        """
        normalized = tf.strings.reduce_join(self._surfaces.tokenize(texts), axis=-1)
        normalized = tf.strings.regex_replace(normalized, self._first_word_start, "")
        return tf.strings.regex_replace(normalized, self._unknown_character, _UNKNOWN_BYTE)

    def _places(
        self, ids: tf.Tensor, placed: tf.Tensor, begins: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Start and end of the pieces `ids`, from begins and ends of `placed`, another segmentation of the same texts.

        If `placed` has the same piece, its span is copied. If not, a byte is located by its distance from the start of
        the piece in `placed` that contains it.
        """
        is_unknown = placed == self._unk_id
        sizes = tf.where(is_unknown, ends - begins, tf.gather(self._sizes, placed))
        unknown_sizes = tf.pad(tf.boolean_mask(sizes, is_unknown), [[0, 1]])
        bounds = tf.pad(tf.cumsum(sizes), [[1, 0]])  # [placed + 1]
        is_unknown = ids == self._unk_id
        number = tf.minimum(tf.cumsum(tf.cast(is_unknown, tf.int32), exclusive=True), tf.size(unknown_sizes) - 1)
        sizes = tf.where(is_unknown, tf.gather(unknown_sizes, number), tf.gather(self._sizes, ids))
        last = tf.cumsum(sizes)
        first = last - sizes
        begins = tf.concat([begins, ends[-1:]], axis=0)

        def holder(byte):  # the index of the piece in `placed` that contains the byte
            return tf.searchsorted(bounds[1:], byte, side="right")

        def place(byte, of):
            return tf.gather(begins, of) + byte - tf.gather(bounds, of)

        of_first, of_last = holder(first), holder(last - 1)
        starts = place(first, of_first)
        stops = tf.where(last == tf.gather(bounds, of_last + 1), tf.gather(ends, of_last), place(last, of_last))
        return starts, tf.where(sizes == 0, starts, stops)

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


def _unknown_character(sp_model: sentencepiece.SentencePieceProcessor) -> str:
    """A regular expression that matches a character which occurs in no piece."""
    pieces = (sp_model.id_to_piece(i) for i in range(sp_model.vocab_size()) if not sp_model.is_control(i))
    codes = sorted({ord(character) for piece in pieces for character in piece})
    return f"[^{''.join(f'{chr(92)}x{{{code:x}}}' for code in codes)}]"


def _size(piece: str) -> int:
    """The bytes of a piece, not counting the word-start mark."""
    return len(piece.replace(WORD_START, "").encode("utf-8"))


def _spans(pieces: list[str]) -> list[tuple[int, int]]:
    """The byte span of each part within its piece, not counting the word-start mark. The last span is open-ended."""
    bounds = [0, *np.cumsum([_size(piece) for piece in pieces[:-1]], dtype=int).tolist(), _TO_THE_END]
    return list(zip(bounds, bounds[1:]))
