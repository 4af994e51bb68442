"""Packs one or two texts as [CLS] a [SEP] b [SEP] and pads the row (Lan et al., 2020, section 4.1).

A text that is too long for a row is split into overlapping windows (release: doc_spans). text/graph/packing.py does the
same with TensorFlow ops.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

Ids = Sequence[int] | np.ndarray  # the token ids of one text, [tokens]
SPECIAL_TOKENS = 3  # for a pair; a single text has one less
_SHORTEST_WINDOW = SPECIAL_TOKENS + 2  # a token of each text


class SpecialTokens(NamedTuple):
    """The special tokens of rows: [CLS] a [SEP] and [CLS] a [SEP] b [SEP], or what a ForeignTokenizer has instead."""

    first: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    second_segment: int = 1  # the segment of b and the tokens after it

    @property
    def single(self) -> int:
        """The number of special tokens of a row with one text."""
        return len(self.first) + len(self.last)

    @property
    def pair(self) -> int:
        """The number of special tokens of a row with two texts."""
        return self.single + len(self.between)

    @property
    def are_berts(self) -> bool:
        """Whether rows are as BERT's: one token in each place, and the second text has another segment."""
        return [*map(len, self[:3]), self.second_segment] == [1, 1, 1, 1]

    def around(self, ids_a: Ids, ids_b: Ids | None = None) -> np.ndarray:
        """The row of one text, or of two: int32 [tokens]."""
        second = () if ids_b is None else (self.between, ids_b)
        return np.concatenate([self.first, ids_a, *second, self.last]).astype(np.int32, copy=False)


class PairPacker:
    """Packs the ids of one or two texts into a row of at most max_seq_length tokens, padded to it if `pad`."""

    def __init__(self, tokenizer: Any, max_seq_length: int, pad: bool = True):
        self.special_tokens, self._pad_id = tokenizer.special_tokens, tokenizer.pad_id
        if max_seq_length <= self.special_tokens.pair:
            raise ValueError(f"max_seq_length must be more than {self.special_tokens.pair}. Received: {max_seq_length}")
        self.max_seq_length, self._pad = max_seq_length, pad

    def lengths(self, length_a: int, length_b: int = 0) -> tuple[int, int]:
        """How many tokens of each text a row keeps. The longer one loses tokens first; b, if both are equally long."""
        if not length_b:
            return min(length_a, self.max_seq_length - self.special_tokens.single), 0
        most = self.max_seq_length - self.special_tokens.pair
        half = most // 2
        return min(length_a, max(most - length_b, most - half)), min(length_b, max(most - length_a, half))

    def pack(self, ids_a: Ids, ids_b: Ids = ()) -> dict[str, list[int]]:
        """A row: input_ids, input_mask (1 up to the last [SEP]) and segment_ids (1 on b and its [SEP])."""
        length_a, length_b = self.lengths(len(ids_a), len(ids_b))
        ids = self.special_tokens.around(ids_a[:length_a], ids_b[:length_b] if len(ids_b) else None)
        return self._row(ids.tolist(), length_b + len(self.special_tokens.last) if len(ids_b) else 0)

    def padding(self) -> dict[str, list[int]]:
        """A row of padding, for a batch or a question with fewer rows than others."""
        return self._row([], second_length=0)

    def _row(self, ids: list[int], second_length: int) -> dict[str, list[int]]:
        padding = self.max_seq_length - len(ids) if self._pad else 0
        return dict(
            input_ids=ids + [self._pad_id] * padding,
            input_mask=[1] * len(ids) + [0] * padding,
            segment_ids=([0] * (len(ids) - second_length) + [self.special_tokens.second_segment] * second_length
                         + [0] * padding),
        )


def by_feature(rows: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """Rows with the same features as one list for each feature: [{"a": 1}, {"a": 2}] gives {"a": [1, 2]}."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def concatenated(batches: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The rows of all batches, by name: logits [2, 3] and logits [1, 3] give logits [3, 3]."""
    columns: dict[str, list[np.ndarray]] = {}
    for batch in batches:
        for name, values in batch.items():
            columns.setdefault(name, []).append(np.asarray(values))
    return {name: np.concatenate(values) for name, values in columns.items()}


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


class Window(NamedTuple):
    """Pieces first to first + length - 1 of a text."""

    first: int
    length: int
    is_max_context: np.ndarray  # bool [length], whether a piece has more context here than in any other window


def stride_or_half(doc_stride: int, window_length: tf.Tensor | int) -> tf.Tensor | int:
    """doc_stride, or half of window_length (rounded up) if doc_stride is 0. A length can be a tensor."""
    return doc_stride or -(-window_length // 2)


@functools.lru_cache(maxsize=1024)
def windows(num_pieces: int, window_length: int, doc_stride: int) -> tuple[Window, ...]:
    """The windows of a text, each doc_stride pieces after the one before.

    The pieces with is_max_context form one run per window, and the runs of consecutive windows follow each other.
    """
    if num_pieces <= window_length:
        return (Window(0, num_pieces, np.ones(num_pieces, bool)),) if num_pieces else ()
    step = min(window_length, doc_stride)
    num_windows = 1 + -(-(num_pieces - window_length) // step)
    spans = [(i * step, min(window_length, num_pieces - i * step)) for i in range(num_windows)]
    best_score, best_window = np.full(num_pieces, -1.0), np.zeros(num_pieces, np.int32)
    for i, (first, length) in enumerate(spans):
        here, index = slice(first, first + length), np.arange(length)
        score = np.minimum(index, index[::-1]) + 0.01 * length
        better = score > best_score[here]
        best_score[here][better] = score[better]
        best_window[here][better] = i
    return tuple(Window(first, length, best_window[first : first + length] == i)
                 for i, (first, length) in enumerate(spans))


@dataclasses.dataclass(frozen=True)
class WindowOptions:
    """How an example that is longer than a row is read."""

    max_windows: int = 1  # the largest number of rows of an example; with 1, longer texts are truncated
    doc_stride: int = 0  # tokens between the starts of two windows, at most a window; 0: half a window


class WindowPacker:
    """Packs one or two texts into windows.

    A single text is split into windows. Of a pair, the longer text is split (the second one if both are equally long),
    and each window has the shorter text too, which is truncated if it is longer than half a row. So the first window is
    the row of a PairPacker, which truncates the texts.

    With 10 tokens a row and a stride of 2, [CLS] a b c [SEP] d e f g h i [SEP] becomes

        [CLS] a b c [SEP] d e f g [SEP]
        [CLS] a b c [SEP] f g h i [SEP]

    num_truncated is the number of examples that lost windows, since they had more than max_windows.
    """

    def __init__(self, packer: PairPacker, options: WindowOptions):
        if options.max_windows > 1 and packer.max_seq_length < _SHORTEST_WINDOW:
            raise ValueError(f"max_seq_length must be at least {_SHORTEST_WINDOW} for windows. "
                             f"Received: {packer.max_seq_length}")
        self._packer, self.options, self.num_truncated = packer, options, 0

    def pack(self, ids_a: Ids, ids_b: Ids = ()) -> dict[str, list]:
        """max_windows rows: for each feature of PairPacker.pack a list per row, or with max_windows 1 one list.

        Rows without a window are padding.
        """
        most = self.options.max_windows
        if most == 1:
            return self._packer.pack(ids_a, ids_b)
        rows = self._windows(ids_a, ids_b)
        self.num_truncated += len(rows) > most
        return by_feature(rows[:most] + [self._packer.padding()] * (most - len(rows)))

    def _windows(self, ids_a: Ids, ids_b: Ids) -> list[dict[str, list[int]]]:
        length_a, length_b = self._packer.lengths(len(ids_a), len(ids_b))
        has_long_b = len(ids_b) >= len(ids_a)
        long, window_length = (ids_b, length_b) if has_long_b else (ids_a, length_a)
        if not window_length:  # both texts are empty
            return [self._packer.pack(ids_a, ids_b)]
        stride = stride_or_half(self.options.doc_stride, window_length)
        parts = [long[window.first : window.first + window.length]
                 for window in windows(len(long), window_length, stride)]
        return [self._packer.pack(ids_a[:length_a], part) if has_long_b else self._packer.pack(part, ids_b[:length_b])
                for part in parts]
