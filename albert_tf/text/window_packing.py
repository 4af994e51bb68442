"""Splits texts that are longer than a row into overlapping windows: several rows for each example.

graph_window_packing.py does the same with TensorFlow ops.
"""

from __future__ import annotations

import dataclasses

from albert_tf.text.packing import SPECIAL_TOKENS, Ids, PairPacker, by_feature
from albert_tf.text.windows import stride_or_half, windows

_SHORTEST = SPECIAL_TOKENS + 2  # a token of each text


@dataclasses.dataclass(frozen=True)
class WindowOptions:
    """How an example that is longer than a row is read.

    Args:
      max_windows: the largest number of rows of an example. With 1, longer texts are truncated.
      doc_stride: tokens from the start of one window to the start of the next, at most a window; 0 for half a window.
    """

    max_windows: int = 1
    doc_stride: int = 0

    def stride(self, window_length: int) -> int:
        """doc_stride, or its default for windows of window_length tokens."""
        return stride_or_half(self.doc_stride, window_length)


class WindowPacker:
    """Packs one or two texts into windows.

    A single text is split into windows. Of a pair, the longer text is split (the second one if both are equally long),
    and each window has the shorter text too, which is truncated if it is longer than half a row. So the first window is
    the row of a PairPacker, which truncates the texts.

    With 10 tokens a row and a stride of 2, [CLS] a b c [SEP] d e f g h i [SEP] becomes

        [CLS] a b c [SEP] d e f g [SEP]
        [CLS] a b c [SEP] f g h i [SEP]

    Args:
      packer: packs a window into a row.
      options: how longer texts are read.

    Attributes:
      num_truncated: number of examples that had more than max_windows windows, whose last windows were left out.

    Raises:
      ValueError: the rows are too short for windows of a pair.
    """

    def __init__(self, packer: PairPacker, options: WindowOptions):
        if options.max_windows > 1 and packer.max_seq_length < _SHORTEST:
            raise ValueError(f"max_seq_length must be at least {_SHORTEST} for windows. "
                             f"Received: {packer.max_seq_length}")
        self._packer, self.options, self.num_truncated = packer, options, 0

    def pack(self, ids_a: Ids, ids_b: Ids = ()) -> dict[str, list]:
        """Packs one or two texts into max_windows rows.

        Returns:
          input_ids, input_mask and segment_ids, one list for each row; rows without a window have padding only. With
          max_windows 1, the result of PairPacker.pack: one list each.
        """
        most = self.options.max_windows
        if most == 1:
            return self._packer.pack(ids_a, ids_b)
        rows = self._windows(ids_a, ids_b)
        self.num_truncated += len(rows) > most
        rows = rows[:most] + [self._packer.padding()] * (most - len(rows))
        return by_feature(rows)

    def _windows(self, ids_a: Ids, ids_b: Ids) -> list[dict[str, list[int]]]:
        length_a, length_b = self._packer.lengths(len(ids_a), len(ids_b))
        has_long_b = len(ids_b) >= len(ids_a)
        long, window_length = (ids_b, length_b) if has_long_b else (ids_a, length_a)
        if not window_length:  # both texts are empty
            return [self._packer.pack(ids_a, ids_b)]
        parts = [long[window.first : window.first + window.length]
                 for window in windows(len(long), window_length, self.options.stride(window_length))]
        return [self._packer.pack(*((ids_a[:length_a], part) if has_long_b else (part, ids_b[:length_b])))
                for part in parts]
