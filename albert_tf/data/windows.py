"""A text that is too long for a sequence is read through windows that overlap (release: doc_spans).

data/graph_windows.py is the same as TensorFlow ops.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """Pieces first to first + length - 1 of a text.

    is_max_context, bool [length]: whether a piece has more context here than in any other window.
    """

    first: int
    length: int
    is_max_context: np.ndarray


@functools.lru_cache(maxsize=1024)
def windows(num_pieces: int, room: int, doc_stride: int) -> tuple[Window, ...]:
    """The windows over a text.

    The pieces that have most context in a window follow those that have it in the window before.

    Args:
      num_pieces: of the text.
      room: pieces of a window.
      doc_stride: pieces from the start of one to the start of the next.
    """
    if num_pieces <= room:
        return (Window(0, num_pieces, np.ones(num_pieces, bool)),) if num_pieces else ()
    step = min(room, doc_stride)
    num_windows = 1 + -(-(num_pieces - room) // step)
    spans = [(i * step, min(room, num_pieces - i * step)) for i in range(num_windows)]
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
