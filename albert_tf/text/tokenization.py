"""FullTokenizer, the release's tokenizer, and the release's functions of text."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from albert_tf.text.origins import trace_pieces
from albert_tf.text.packing import PairPacker, padding_values
from albert_tf.text.pieces import PieceTokenizer
from albert_tf.text.sentencepieces import encode_ids, encode_pieces, preprocess_text

__all__ = ["FullTokenizer", "encode_ids", "encode_pieces", "preprocess_text"]


class FullTokenizer(PieceTokenizer):
    """The release's tokenizer (FullTokenizer).

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


PADDINGS = ("longest", "max_length")


def pack_texts(
    tokenizer: PieceTokenizer, texts: str | Sequence[str], text_pairs: str | Sequence[str] | None, max_seq_length: int,
    padding: str, return_offsets: bool,
) -> dict[str, np.ndarray]:
    """Implements FullTokenizer.__call__; arguments, result and errors are described there."""
    if padding not in PADDINGS:
        raise ValueError(f"padding must be one of {', '.join(PADDINGS)}. Received: {padding!r}")
    texts = list_of_strings("texts", [texts] if isinstance(texts, str) else texts)
    pairs = [""] * len(texts) if text_pairs is None else list_of_strings(
        "text_pairs", [text_pairs] if isinstance(text_pairs, str) else text_pairs)
    if len(texts) != len(pairs):
        raise ValueError("texts and text_pairs must have the same length. "
                         f"Received: {len(texts)} texts and {len(pairs)} text_pairs")
    packer = PairPacker(tokenizer, max_seq_length, pad=False)
    encoded = [_encode(tokenizer, each, return_offsets) for each in (texts, pairs)]
    rows = [packer.pack(ids_a, ids_b) for ids_a, ids_b in zip(*(ids for ids, _ in encoded))]
    length = max_seq_length if padding == "max_length" else max((len(row["input_ids"]) for row in rows), default=0)
    fills = padding_values(tokenizer.pad_id)
    batch = {name: _padded([row[name] for row in rows], [len(rows), length], fill) for name, fill in fills.items()}
    if return_offsets:
        offsets = [_row_offsets(packer, a, b) for a, b in zip(*(offsets for _, offsets in encoded))]
        batch["offsets"] = _padded(offsets, [len(rows), length, 2], 0)
    return batch


def list_of_strings(name: str, texts: Sequence[str]) -> list[str]:
    """Texts as a list.

    Raises:
      ValueError: texts is a single string, or an element is not a string. The message has `name` and the element.
    """
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of strings, not a string")
    texts = list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be strings. Received: {name}[{i}]={text!r}")
    return texts


def _encode(tokenizer: PieceTokenizer, texts: list[str], with_offsets: bool):
    """The ids of each text, and the offsets of its pieces (None if with_offsets is False)."""
    if not with_offsets:
        return tokenizer.encode_batch(texts), [None] * len(texts)
    traced = trace_pieces(tokenizer, texts)
    return [each.ids for each in traced], [each.offsets for each in traced]


def _row_offsets(packer: PairPacker, offsets_a: np.ndarray, offsets_b: np.ndarray) -> np.ndarray:
    length_a, length_b = packer.lengths(len(offsets_a), len(offsets_b))
    special = np.zeros([1, 2], np.int32)
    return np.concatenate([special, offsets_a[:length_a], special, offsets_b[:length_b]])


def _padded(rows: list, shape: list[int], fill: int) -> np.ndarray:
    padded = np.full(shape, fill, np.int32)
    for target, row in zip(padded, rows):
        target[: len(row)] = row
    return padded
