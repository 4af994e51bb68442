"""GraphTokenizer: FullTokenizer.encode as tensorflow-text ops, for SavedModels that take text.

`pieces` of both models takes normalised texts. It returns the ids of their pieces, int32 [texts, (pieces)], and the
span of each piece: its first byte and one past its last, int64 [pieces] each, counted in non-space bytes (see
NormalizedTexts).
"""

from __future__ import annotations

import functools
import unicodedata

import numpy as np
import sentencepiece
import tensorflow as tf

from albert_tf.text.graph.normalization import GraphNormalization, NormalizedTexts, map_characters, repeated, splits_of
from albert_tf.text.pieces import LONGEST_WORD, UNKNOWN, WORD_START, DigitCommaTable, basic_tokens, preprocess_text
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.imports import tensorflow_text as tf_text

_TO_THE_END = np.iinfo(np.int64).max // 2
_UTF8_BYTES = 4  # the most bytes of a character


def check_in_graph(tokenizer: FullTokenizer) -> None:
    """Raises ValueError if a graph cannot tokenize as this tokenizer does."""
    if tokenizer.added_tokens:
        raise ValueError(f"a tokenizer in a SavedModel has no added tokens, and {tokenizer.vocabulary_file} has "
                         f"{tokenizer.added_tokens[0].content!r}: convert the model to hugging_face, or export it to "
                         "ONNX")


class GraphTokenizer(tf.Module):
    """FullTokenizer.encode in a graph: converts raw text to ids.

    In a text that is not valid UTF-8, each invalid byte sequence is read as U+FFFD. An empty text has no pieces. The
    ops have no XLA kernels, so they do not work in an XLA-compiled function.

    One result can differ: two segmentations of a word with scores that are equal but for rounding ("0 00" and "00 0").
    tensorflow-text compares scores in float64, FullTokenizer in float32 with sentencepiece 0.2.2 and later, as the
    release did. Of 80,392 texts (sentences of novels, news, BLiMP, and paragraphs of SQuAD), 1 differed with the
    release's vocabulary, and 201 with albert_tiny_en's, nearly all in numbers such as 40,000.

    Example::

      tokenizer = GraphTokenizer(FullTokenizer(spm_model_file="30k-clean.model"))
      ids, starts, ends = tokenizer.tokenize_with_offsets(["Hello, World"])
    """

    def __init__(self, tokenizer: FullTokenizer):
        super().__init__()
        check_in_graph(tokenizer)
        self.cls_id, self.sep_id, self.mask_id = tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id
        self.pad_id, self.unk_id = tokenizer.pad_id, tokenizer.unk_id
        self._is_sentencepiece = tokenizer.sp_model is not None
        self._normalization = _normalization(tokenizer.sp_model, tokenizer.do_lower_case, tokenizer.keep_accents)
        self._model = (GraphSentencePieces(tokenizer.sp_model) if self._is_sentencepiece
                       else GraphWordPieces(tokenizer.vocab))

    def preprocess(self, texts: tf.Tensor) -> tf.Tensor:
        """FullTokenizer.preprocess for texts, string [texts].

        Runs of spaces are kept, which the SentencePiece model treats as one space, and runs of unknown characters are
        shortened.
        """
        return tf.strings.strip(self._normalization(texts).texts) if self._is_sentencepiece else texts

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Texts, string [texts], to ids, int32 [texts, (pieces)]."""
        return self.tokenize_with_offsets(texts)[0]

    def tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Converts texts, string [texts], to ids, int32 [texts, (pieces)], and to spans, int64 of the same shape.

        The starts and ends are the first byte of each piece and one past its last, in the raw text. The space in front
        of a word is not included, so a piece that is only a word-start mark has no bytes.
        """
        normalized = self._normalization(tf.convert_to_tensor(texts))
        ids, begins, ends = self._model.pieces(normalized)
        starts = tf.gather(normalized.starts, begins)
        ends = tf.where(begins == ends, starts, tf.gather(normalized.ends, tf.maximum(ends - 1, 0)))
        return ids, ids.with_values(starts), ids.with_values(ends)


@functools.lru_cache(maxsize=8)
def _normalization(
    sp_model: sentencepiece.SentencePieceProcessor | None, lower: bool, keep_accents: bool
) -> GraphNormalization:
    if sp_model is not None:
        return GraphNormalization(lambda text: preprocess_text(text, lower=lower, keep_accents=keep_accents),
                                  *codes_without_piece(sp_model))
    return GraphNormalization(lambda text: " ".join(basic_tokens(text, lower, keep_accents)))


class GraphSentencePieces(tf.Module):
    """Pieces by a SentencePiece model.

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
        spans = [span for ids in parts for span in _spans([pieces[i].replace(WORD_START, "") for i in ids])]
        self._is_byte = tf.constant([sp_model.is_byte(i) for i in range(len(pieces))])
        self._begins, self._ends = tf.unstack(tf.constant(spans, tf.int64), axis=1)

    def pieces(self, normalized: NormalizedTexts) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """The ids of the pieces, and their spans."""
        ids, begins, ends = self._tokenizer.tokenize_with_offsets(normalized.texts)
        first_byte = tf.gather(normalized.byte_splits, ids.value_rowids())
        begins, ends = (tf.gather(normalized.num_non_space_before, first_byte + tf.cast(offsets.values, tf.int64))
                        for offsets in (begins, ends))
        # Of the bytes of a character, only the last has a span; and yet each of them stands for the character.
        is_empty_byte = tf.gather(self._is_byte, ids.values) & (begins == ends)
        ends = tf.where(is_empty_byte, begins + 1, ends)
        num_parts = tf.gather(self._num_parts, ids.values)  # by the rule about commas
        piece, index = repeated(num_parts)
        part = tf.gather(self._first_part, tf.gather(ids.values, piece)) + index
        begins, ends = tf.gather(begins, piece), tf.gather(ends, piece)
        return (tf.RaggedTensor.from_row_splits(
                    tf.gather(self._parts, part), tf.gather(splits_of(num_parts), ids.row_splits), validate=False),
                tf.minimum(begins + tf.gather(self._begins, part), ends),
                tf.minimum(begins + tf.gather(self._ends, part), ends))


class GraphWordPieces(tf.Module):
    """Pieces by a WordPiece vocabulary (piece -> id), of basic tokens that are separated by spaces."""

    def __init__(self, vocab: dict[str, int]):
        super().__init__()
        entries = tf.lookup.KeyValueTensorInitializer(list(vocab), np.array(list(vocab.values()), np.int64))
        self._table = tf.lookup.StaticHashTable(entries, default_value=vocab[UNKNOWN])
        self._tokenizer = tf_text.WordpieceTokenizer(self._table, max_bytes_per_word=LONGEST_WORD * _UTF8_BYTES,
                                                     token_out_type=tf.int32, unknown_token=UNKNOWN)

    def pieces(self, normalized: NormalizedTexts) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """The ids of the pieces, and their spans."""
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
    """The code points that are always unknown pieces (none with byte fallback), and those that the model removes."""
    if any(map(sp_model.is_byte, range(sp_model.vocab_size()))):
        return [], []
    pieces = "".join(sp_model.id_to_piece(i) for i in range(sp_model.vocab_size()) if not sp_model.is_control(i))
    known = {*pieces, *unicodedata.normalize("NFKD", pieces), WORD_START}  # two characters can compose a known one
    # Surrogates become "?".
    forms = map_characters(lambda text: sp_model.normalize(text.encode("utf-8", "replace").decode()))
    unknown = [code for code, form in forms.items() if form and known.isdisjoint([*form, chr(code)])]
    return unknown, [code for code, form in forms.items() if not form]


def _spans(parts: list[str]) -> list[tuple[int, int]]:
    """The byte span of each part within its piece. The last span is open-ended."""
    bounds = [0, *np.cumsum([len(part.encode("utf-8")) for part in parts[:-1]], dtype=int).tolist(), _TO_THE_END]
    return list(zip(bounds, bounds[1:]))
