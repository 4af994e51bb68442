"""[CLS] a [SEP] b [SEP], padded: how one or two texts become a row for the model (Lan et al., 2020, section 4.1)."""

from __future__ import annotations

from typing import Sequence

from albert_tf.text.tokenization import FullTokenizer

SPECIAL_TOKENS = 3  # of a pair; a single text has one less


def truncated_lengths(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """What is left of two texts when tokens go from the end of the longer one, of b on a tie, until they fit.

    Args:
      length_a, length_b: tokens of each.
      room: tokens of both together.
    """
    half = room // 2
    return min(length_a, max(room - length_b, room - half)), min(length_b, max(room - length_a, half))


class PairPacker:
    """Packs ids for one tokenizer and length.

    Args:
      tokenizer: gives the special ids.
      max_seq_length: length of every row.
      pad: whether rows that are shorter are filled up to it.

    Raises:
      ValueError: max_seq_length has no room for a token beside the special ones.
    """

    def __init__(self, tokenizer: FullTokenizer, max_seq_length: int, pad: bool = True):
        if max_seq_length <= SPECIAL_TOKENS:
            raise ValueError(f"max_seq_length must be more than {SPECIAL_TOKENS}. Received: {max_seq_length}")
        self._cls_id, self._sep_id, self._pad_id = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
        self._max_seq_length, self._pad = max_seq_length, pad

    def pack(self, ids_a: Sequence[int], ids_b: Sequence[int] = ()) -> dict[str, list[int]]:
        """One or two texts in a row; what is too long is cut by `truncated_lengths`.

        Returns:
          input_ids, input_mask (1 up to the last [SEP]) and segment_ids (1 on b and its [SEP]), lists of one length.
        """
        if not len(ids_b):
            return self._row([self._cls_id, *ids_a[: self._max_seq_length - 2], self._sep_id], [])
        length_a, length_b = truncated_lengths(len(ids_a), len(ids_b), self._max_seq_length - SPECIAL_TOKENS)
        return self._row([self._cls_id, *ids_a[:length_a], self._sep_id], [*ids_b[:length_b], self._sep_id])

    def padding(self) -> dict[str, list[int]]:
        """A row with nothing in it: it fills up a batch, or stands for a choice that a question does not have."""
        return self._row([], [])

    def _row(self, first: list[int], second: list[int]) -> dict[str, list[int]]:
        length = len(first) + len(second)
        padding = self._max_seq_length - length if self._pad else 0
        return dict(
            input_ids=first + second + [self._pad_id] * padding,
            input_mask=[1] * length + [0] * padding,
            segment_ids=[0] * len(first) + [1] * len(second) + [0] * padding,
        )
