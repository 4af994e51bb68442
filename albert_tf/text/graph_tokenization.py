"""GraphTokenizer: FullTokenizer.encode as tensorflow-text ops, for SavedModels that take text."""

from __future__ import annotations

import functools

import tensorflow as tf

from albert_tf.text.graph_normalization import GraphNormalization
from albert_tf.text.graph_sentencepieces import GraphSentencePieces
from albert_tf.text.graph_wordpiece import GraphWordPieces
from albert_tf.text.normalization import preprocess_text
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.text.wordpiece import basic_tokens


class GraphTokenizer(tf.Module):
    """Raw text to ids, in a graph: the ids that FullTokenizer.encode gives.

    In a text that is not UTF-8, each sequence of bytes that stands for no character is taken as U+FFFD. An empty text
    has no pieces. In an XLA-compiled function it does not work: the ops have no XLA kernels.

    One thing differs: in a text of over 16,000 bytes, the choice among ways to cut a word whose scores are the same but
    for rounding. (FullTokenizer makes that choice in float32 with sentencepiece 0.2.2 and later, as the release did.)

    Args:
      tokenizer: what to do the same as.

    Example:
      tokenizer = GraphTokenizer(FullTokenizer(spm_model_file="30k-clean.model"))
      ids, starts, ends = tokenizer.tokenize_with_offsets(["Hello, World"])
    """

    def __init__(self, tokenizer: FullTokenizer):
        super().__init__()
        self.cls_id, self.sep_id, self.mask_id = tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id
        self.pad_id, self.unk_id = tokenizer.pad_id, tokenizer.unk_id
        self._is_sentencepiece = tokenizer.sp_model is not None
        self._normalization = _normalization(self._is_sentencepiece, tokenizer.do_lower_case)
        self._model = (GraphSentencePieces(tokenizer.sp_model) if self._is_sentencepiece
                       else GraphWordPieces(tokenizer.vocab))

    def preprocess(self, texts: tf.Tensor) -> tf.Tensor:
        """preprocess_text of texts, string [texts]; as they are, where there is no SentencePiece model.

        Runs of blanks stay, which the SentencePiece model takes for one.
        """
        return tf.strings.strip(self._normalization(texts).texts) if self._is_sentencepiece else texts

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Texts, string [texts], to ids, int32 [texts, (pieces)]."""
        return self.tokenize_with_offsets(texts)[0]

    def tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Texts to ids and to where the pieces stand in the texts.

        Args:
          texts: string [texts], UTF-8.

        Returns:
          ids, int32 [texts, (pieces)], and of the same shape, int64, the first byte of each piece in its text and the
          one behind its last: bytes of the text as it was given, before any normalisation. The blank in front of a
          word is left out, so that a piece of nothing but a word start has no bytes.
        """
        normalized = self._normalization(tf.convert_to_tensor(texts))
        ids, begins, ends = self._model.pieces(normalized)
        starts = tf.gather(normalized.starts, begins)
        ends = tf.where(begins == ends, starts, tf.gather(normalized.ends, tf.maximum(ends - 1, 0)))
        return ids, ids.with_values(starts), ids.with_values(ends)


@functools.lru_cache(maxsize=None)
def _normalization(has_sentencepiece_model: bool, lower: bool) -> GraphNormalization:
    if has_sentencepiece_model:
        return GraphNormalization(lambda text: preprocess_text(text, lower=lower))
    return GraphNormalization(lambda text: " ".join(basic_tokens(text, lower)))
