"""Packs one or two texts as [CLS] a [SEP] b [SEP] and pads the row (Lan et al., 2020, section 4.1).

text/graph/packing.py does the same with TensorFlow ops.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

Ids = Sequence[int] | np.ndarray  # the token ids of one text, [tokens]
SPECIAL_TOKENS = 3  # for a pair; a single text has one less


def truncated_lengths(length_a: int, length_b: int, max_length: int) -> tuple[int, int]:
    """The lengths of two texts after truncation to max_length tokens in total.

    Tokens are removed one by one from the end of the longer text, or of b if both are equally long.
    """
    half = max_length // 2
    return (min(length_a, max(max_length - length_b, max_length - half)),
            min(length_b, max(max_length - length_a, half)))


class SpecialTokens:
    """Puts [CLS] and [SEP] of a FullTokenizer around ids."""

    def __init__(self, tokenizer: Any):
        self._cls, self._sep = (np.array([token_id], np.int32) for token_id in (tokenizer.cls_id, tokenizer.sep_id))

    def around(self, ids_a: Ids, ids_b: Ids | None = None) -> np.ndarray:
        """[CLS] a [SEP] if ids_b is None, else [CLS] a [SEP] b [SEP]: int32 [tokens]."""
        second = () if ids_b is None else (ids_b, self._sep)
        return np.concatenate([self._cls, ids_a, self._sep, *second]).astype(np.int32, copy=False)


class PairPacker:
    """Packs the ids of one or two texts into a row.

    Args:
      tokenizer: a FullTokenizer, for the ids of the special tokens.
      max_seq_length: the largest number of tokens of a row.
      pad: whether to pad every row to it.

    Raises:
      ValueError: it is too small for any token besides the special ones.
    """

    def __init__(self, tokenizer: Any, max_seq_length: int, pad: bool = True):
        if max_seq_length <= SPECIAL_TOKENS:
            raise ValueError(f"max_seq_length must be more than {SPECIAL_TOKENS}. Received: {max_seq_length}")
        self._special_tokens, self._pad_id = SpecialTokens(tokenizer), tokenizer.pad_id
        self.max_seq_length, self._pad = max_seq_length, pad

    def lengths(self, length_a: int, length_b: int = 0) -> tuple[int, int]:
        """How many tokens of each text a row keeps."""
        if not length_b:
            return min(length_a, self.max_seq_length - 2), 0
        return truncated_lengths(length_a, length_b, self.max_seq_length - SPECIAL_TOKENS)

    def pack(self, ids_a: Ids, ids_b: Ids = ()) -> dict[str, list[int]]:
        """Packs one or two texts into a row, truncated as by `truncated_lengths`.

        Returns:
          input_ids, input_mask (1 up to the last [SEP]) and segment_ids (1 on b and its [SEP]), lists of one length.
        """
        length_a, length_b = self.lengths(len(ids_a), len(ids_b))
        ids = self._special_tokens.around(ids_a[:length_a], ids_b[:length_b] if len(ids_b) else None)
        return self._row(ids.tolist(), first_length=length_a + 2)

    def padding(self) -> dict[str, list[int]]:
        """A row of padding only, which fills up a batch, or a question that has fewer choices than others."""
        return self._row([], first_length=0)

    def _row(self, ids: list[int], first_length: int) -> dict[str, list[int]]:
        padding = self.max_seq_length - len(ids) if self._pad else 0
        return dict(
            input_ids=ids + [self._pad_id] * padding,
            input_mask=[1] * len(ids) + [0] * padding,
            segment_ids=[0] * first_length + [1] * (len(ids) - first_length) + [0] * padding,
        )


def by_feature(rows: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """Rows with the same features as one list for each feature: [{"a": 1}, {"a": 2}] gives {"a": [1, 2]}."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def padded_rows(
    rows: Sequence[Any], fill: Any, dtype: Any = np.int32, shape: Sequence[int] | None = None
) -> np.ndarray:
    """Rows of different lengths as one array of a shape, [rows, longest] if it is None, filled up at their ends."""
    padded = np.full(shape or [len(rows), max(map(len, rows), default=0)], fill, dtype)
    for target, row in zip(padded, rows):
        target[: len(row)] = row
    return padded


def padding_values(pad_id: int) -> dict[str, int]:
    """The value of each feature of a row where there is no token."""
    return dict(input_ids=pad_id, input_mask=0, segment_ids=0)
