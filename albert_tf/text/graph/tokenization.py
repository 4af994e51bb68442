"""GraphTokenizer: FullTokenizer.encode as tensorflow-text ops, for SavedModels that take text."""

from __future__ import annotations

import functools

import sentencepiece
import tensorflow as tf

from albert_tf.text.graph.normalization import GraphNormalization
from albert_tf.text.graph.pieces import GraphSentencePieces, GraphWordPieces, codes_without_piece
from albert_tf.text.sentencepieces import preprocess_text
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.text.wordpiece import basic_tokens


class GraphTokenizer(tf.Module):
    """Converts raw text to ids in a graph. The ids are those of FullTokenizer.encode.

    In a text that is not valid UTF-8, each invalid byte sequence is read as U+FFFD. An empty text has no pieces. The
    ops have no XLA kernels, so they do not work in an XLA-compiled function.

    One result can differ: two segmentations of a word whose scores differ by a rounding error only ("0 00" and "00 0").
    tensorflow-text compares scores in float64, FullTokenizer in float32 with sentencepiece 0.2.2 and later, as the
    release did. Of 80,392 texts (sentences of novels, news, BLiMP, and paragraphs of SQuAD), 1 differed with the
    release's vocabulary, and 201 with that of albert_tiny_en, nearly all in numbers such as 40,000.

    Example::

      tokenizer = GraphTokenizer(FullTokenizer(spm_model_file="30k-clean.model"))
      ids, starts, ends = tokenizer.tokenize_with_offsets(["Hello, World"])
    """

    def __init__(self, tokenizer: FullTokenizer):
        super().__init__()
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
        """Converts texts, string [texts], to ids, and to the byte span of each piece in its text.

        Returns:
          ids, int32 [texts, (pieces)]; starts and ends, int64 of the same shape: the first byte of each piece and one
          past its last, in the raw text before any normalisation. The space in front of a word is not included, so a
          piece that is only a word-start mark has no bytes.
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
