"""FullTokenizer, the release's tokenizer, and the release's functions of text."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from albert_tf.text.batches import pack_texts
from albert_tf.text.normalization import preprocess_text
from albert_tf.text.pieces import PieceTokenizer
from albert_tf.text.sentencepieces import encode_ids, encode_pieces

__all__ = ["FullTokenizer", "encode_ids", "encode_pieces", "preprocess_text"]


class FullTokenizer(PieceTokenizer):
    """The release's tokenizer (tokenization.FullTokenizer).

    Args:
      vocab_file: path of a WordPiece vocabulary. It is ignored if spm_model_file is set.
      do_lower_case: whether to lower-case texts.
      spm_model_file: path of a SentencePiece model.
      keep_accents: whether texts keep their accents. If false, a SentencePiece tokenizer removes accents; a WordPiece
        tokenizer removes them only when it lower-cases, as in the release.
      max_seq_length: the largest number of tokens of a row, if a call does not set it.

    Attributes:
      vocabulary_file: path of the file that was read.
      vocab: dict from piece to id.

    Raises:
      ValueError: neither path is set, the file cannot be read, or it lacks [CLS], [SEP], [MASK] or the padding piece.

    Example::

      tokenizer = FullTokenizer(spm_model_file="30k-clean.model")
      tokenizer.tokenize(preprocess_text("Hello, World", lower=True))     # ["▁hello", ",", "▁world"]
      inputs = tokenizer(["A text.", "Another one."])                     # a batch that a model can be called with
    """

    def __call__(
        self, texts: str | Sequence[str], text_pairs: str | Sequence[str] | None = None,
        max_seq_length: int | None = None, padding: str = "longest", return_offsets: bool = False,
    ) -> dict[str, np.ndarray]:
        """Converts raw texts to a batch of model inputs, packed as in the release.

        Args:
          texts: one text, or a list of texts for a batch.
          text_pairs: the second text of each row; None if no row has one, or "" for a single row without one.
          max_seq_length: the largest number of tokens of a row; None for the tokenizer's. Longer rows are truncated,
            the longer text first.
          padding: "longest" pads to the longest row of the batch, "max_length" to max_seq_length.
          return_offsets: whether to return the offsets of the pieces in the raw texts.

        Returns:
          input_ids, input_mask (1 up to the last [SEP]) and segment_ids (1 on the second text and its [SEP]), int32
          [batch, seq]. With return_offsets also offsets, int32 [batch, seq, 2]: the first character of each piece in
          its text and one past its last; (0, 0) for special tokens and padding.

        Raises:
          ValueError: texts and text_pairs differ in length, padding is unknown, or max_seq_length is too small.
        """
        length = self.max_seq_length if max_seq_length is None else max_seq_length
        return pack_texts(self, texts, text_pairs, length, padding, return_offsets)
