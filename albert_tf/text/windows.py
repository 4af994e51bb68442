"""Splits a text that is too long for a sequence into overlapping windows (release: doc_spans).

graph_windows.py does the same with TensorFlow ops.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """Pieces first to first + length - 1 of a text.

    is_max_context, bool [length]: whether a piece has more context in this window than in any other.
    """

    first: int
    length: int
    is_max_context: np.ndarray


def stride_or_half(doc_stride: int, window_length):
    """doc_stride, or half of window_length (rounded up) if doc_stride is 0. A length can be a tensor."""
    return doc_stride or -(-window_length // 2)


@functools.lru_cache(maxsize=1024)
def windows(num_pieces: int, window_length: int, doc_stride: int) -> tuple[Window, ...]:
    """The windows of a text.

    The pieces with is_max_context form one run per window, and the runs of consecutive windows follow each other.

    Args:
      num_pieces: the number of pieces of the text.
      window_length: the largest number of pieces of a window.
      doc_stride: pieces from the start of one window to the start of the next.
    """
    if num_pieces <= window_length:
        return (Window(0, num_pieces, np.ones(num_pieces, bool)),) if num_pieces else ()
    step = min(window_length, doc_stride)
    num_windows = 1 + -(-(num_pieces - window_length) // step)
    spans = [(i * step, min(window_length, num_pieces - i * step)) for i in range(num_windows)]
    best_score, best_window = np.full(num_pieces, -1.0), np.zeros(num_pieces, np.int32)
    for i, (first, length) in enumerate(spans):
        here = slice(first, first + length)
        place = np.arange(length)
        score = np.minimum(place, place[::-1]) + 0.01 * length
        better = score > best_score[here]
        best_score[here][better] = score[better]
        best_window[here][better] = i
    return tuple(Window(first, length, best_window[first : first + length] == i)
                 for i, (first, length) in enumerate(spans))
