"""[CLS] a [SEP] b [SEP], padded: how one or two texts become a row for the model (Lan et al., 2020, section 4.1).

text/graph_packing.py is the same as TensorFlow ops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence, Union

import numpy as np

if TYPE_CHECKING:
    from albert_tf.text.tokenization import FullTokenizer

Ids = Union[Sequence[int], np.ndarray]  # of one text, [tokens]
SPECIAL_TOKENS = 3  # of a pair; a single text has one less


def truncated_lengths(length_a: int, length_b: int, max_length: int) -> tuple[int, int]:
    """The lengths of two texts after tokens were cut from the end of the longer one, of b on a tie, until they fit.

    Args:
      length_a, length_b: tokens of each.
      max_length: tokens of both together.
    """
    half = max_length // 2
    return (min(length_a, max(max_length - length_b, max_length - half)),
            min(length_b, max(max_length - length_a, half)))


class SpecialTokens:
    """Puts [CLS] and [SEP] around ids.

    Args:
      tokenizer: gives their ids.
    """

    def __init__(self, tokenizer: FullTokenizer):
        self._cls, self._sep = (np.array([token_id], np.int32) for token_id in (tokenizer.cls_id, tokenizer.sep_id))

    def around(self, ids_a: Ids, ids_b: Ids | None = None) -> np.ndarray:
        """[CLS] a [SEP] where ids_b is None, else [CLS] a [SEP] b [SEP]: int32 [tokens]."""
        second = () if ids_b is None else (ids_b, self._sep)
        return np.concatenate([self._cls, ids_a, self._sep, *second]).astype(np.int32, copy=False)


class PairPacker:
    """Packs ids for one tokenizer and length.

    Args:
      tokenizer: gives the special ids.
      max_seq_length: length of every row.
      pad: whether rows that are shorter are filled up to it.

    Raises:
      ValueError: max_seq_length leaves no token beside the special ones.
    """

    def __init__(self, tokenizer: FullTokenizer, max_seq_length: int, pad: bool = True):
        if max_seq_length <= SPECIAL_TOKENS:
            raise ValueError(f"max_seq_length must be more than {SPECIAL_TOKENS}. Received: {max_seq_length}")
        self._special_tokens, self._pad_id = SpecialTokens(tokenizer), tokenizer.pad_id
        self._max_seq_length, self._pad = max_seq_length, pad

    def lengths(self, length_a: int, length_b: int = 0) -> tuple[int, int]:
        """How many tokens of each text a row keeps."""
        if not length_b:
            return min(length_a, self._max_seq_length - 2), 0
        return truncated_lengths(length_a, length_b, self._max_seq_length - SPECIAL_TOKENS)

    def pack(self, ids_a: Ids, ids_b: Ids = ()) -> dict[str, list[int]]:
        """One or two texts in a row; what is too long is cut by `truncated_lengths`.

        Returns:
          input_ids, input_mask (1 up to the last [SEP]) and segment_ids (1 on b and its [SEP]), lists of one length.
        """
        length_a, length_b = self.lengths(len(ids_a), len(ids_b))
        ids = self._special_tokens.around(ids_a[:length_a], ids_b[:length_b] if len(ids_b) else None)
        return self._row(ids.tolist(), first_length=length_a + 2)

    def padding(self) -> dict[str, list[int]]:
        """A row with nothing in it: it fills up a batch, or stands for a choice that a question does not have."""
        return self._row([], first_length=0)

    def _row(self, ids: list[int], first_length: int) -> dict[str, list[int]]:
        padding = self._max_seq_length - len(ids) if self._pad else 0
        return dict(
            input_ids=ids + [self._pad_id] * padding,
            input_mask=[1] * len(ids) + [0] * padding,
            segment_ids=[0] * first_length + [1] * (len(ids) - first_length) + [0] * padding,
        )
