"""Aligns the pieces of a paragraph with its original text (release: squad_utils.convert_examples_to_features).

The release computes a longest common subsequence (LCS) of two sequences: the original characters, each normalised
alone, and the characters of the pieces. That takes quadratic time, once per question. The offsets that
text/origins.py carries through normalisation need linear time. Both give the same result, except where a character was
inserted or deleted next to an equal one ("….", or two spaces before "2,"). So the LCS is computed too, but only for a
short stretch around each character without a counterpart.
"""

from __future__ import annotations

import collections
import functools
from typing import Iterator, Sequence

import numpy as np

from albert_tf.text.origins import NOWHERE, TracedPieces
from albert_tf.text.tokenization import FullTokenizer

# The release drops a question if less than this share of the paragraph's characters has a counterpart.
LEAST_MATCHED = 0.8
# How many matched characters after a gap are matched again, and the largest number of cells of an LCS table.
_MARGIN = 16
_MOST_CELLS = 1 << 17


class AlignedParagraph:
    """A paragraph's pieces and their offsets in its original text.

    Args:
      matches: int32 [characters of the joined pieces], the offset of each one's original, ascending, or NOWHERE.
      is_matched: whether the release would keep the paragraph's questions.

    Attributes:
      ids: int32 [pieces].
      starts, ends: int32 [pieces], the offsets of each piece's first and last original character, as in the release. A
        piece without an original character may have an end before its start.
    """

    def __init__(self, traced: TracedPieces, matches: np.ndarray, text_length: int, is_matched: bool):
        self.ids, self.is_matched = traced.ids, is_matched
        self._matches, self._text_length = matches, text_length
        self._piece_ends = np.cumsum(traced.lengths)  # one past each piece's last character in the surface
        self.starts = _as_start(matches, text_length)[self._piece_ends - traced.lengths]
        self.ends = _as_end(matches, text_length)[self._piece_ends - 1]

    def pieces_of(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last piece of the span from original character `first` to `last` inclusive."""
        start_of, end_of = self._surface_of
        start, end = np.searchsorted(self._piece_ends, [start_of[first], end_of[last]], side="right")
        return int(start), int(end)

    @functools.cached_property
    def _surface_of(self) -> tuple[np.ndarray, np.ndarray]:
        """For each original character, the surface offsets of a span's start and of a span's end at that character."""
        first, last = np.full([2, self._text_length], NOWHERE, np.int32)
        positions = np.flatnonzero(self._matches != NOWHERE)
        last[self._matches[positions]] = positions  # of several, such as bytes of one character
        first[self._matches[positions[::-1]]] = positions[::-1]
        return _as_start(first), _as_end(last)


def align_paragraphs(tokenizer: FullTokenizer, texts: list[str]) -> list[AlignedParagraph]:
    """The pieces of each text and their offsets in it."""
    as_released = tokenizer.sp_model is not None and not tokenizer.has_bytes
    return [_align(traced, len(text), as_released)
            for traced, text in zip(tokenizer.trace_batch(texts), texts)]


def _align(traced: TracedPieces, text_length: int, as_released: bool) -> AlignedParagraph:
    matches = traced.origins
    is_matched = True
    if as_released and (traced.surface[1:] != traced.forms or traced.forms[:1] == " "):
        matches = _release_matches(traced, text_length)
        is_matched = np.count_nonzero(matches != NOWHERE) >= LEAST_MATCHED * text_length
        if not is_matched:  # the carried offsets are better than so incomplete an LCS
            matches = traced.origins
    return AlignedParagraph(traced, matches, text_length, is_matched)


def _as_start(matches: np.ndarray, size: int | None = None) -> np.ndarray:
    """For each position in one text, the position in the other text at which a span starting there begins.

    This is its match, or the position after the previous match, or the next match if there is nothing in between:
    [0, NOWHERE, 1] gives [0, 1, 1], and [0, NOWHERE, 2] gives [0, 1, 2]. Positions after the last match have at most
    size - 1, the end of the other text, or without a size the last match.
    """
    before, after = _neighbours(matches, size)
    start = np.where(after > before + 1, before + 1, after)
    return start if size is None else np.minimum(start, size - 1)


def _as_end(matches: np.ndarray, size: int | None = None) -> np.ndarray:
    """The same as _as_start, for a span that ends at the position."""
    before, after = _neighbours(matches, size)
    return np.maximum(np.where(after > before + 1, after - 1, before), 0)


def _neighbours(matches: np.ndarray, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """For each position, the last match at or before it (-1 if there is none), and the first match at or after it."""
    before = np.maximum.accumulate(matches)
    after_last = size if size is not None else before[-1]
    after = np.where(matches == NOWHERE, after_last, matches)
    return before, np.minimum.accumulate(after[::-1])[::-1]


def _release_matches(traced: TracedPieces, text_length: int) -> np.ndarray:
    """The offset of the original that the release matches with each character of the surface, or NOWHERE."""
    surface, forms = traced.surface, traced.forms
    pairs = [(origin, position) for position, (origin, character) in enumerate(zip(traced.origins.tolist(), surface))
             if origin != NOWHERE and forms[origin] == character]
    pairs = [(-1, -1), *pairs, (text_length, len(surface))]
    matched, first = [], 0
    for before, after in _regions(pairs):
        (left, lower), (right, upper) = pairs[before], pairs[after]
        matched += pairs[first : before + 1]
        matched += _longest_common_subsequence(forms, surface, range(left + 1, right), range(lower + 1, upper))
        first = after
    matched += pairs[first:]
    matches = np.full(len(surface), NOWHERE, np.int32)
    for origin, position in matched[1:-1]:
        matches[position] = origin
    return matches


def _regions(pairs: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The regions of pairs to match again: from the pair before a gap to the pair that is _MARGIN after it.

    A gap within another gap's margin is in the same region, unless the region would be too large.
    """
    gaps = [k for k in range(1, len(pairs)) if pairs[k] != (pairs[k - 1][0] + 1, pairs[k - 1][1] + 1)]
    before = after = 0
    for gap in gaps:
        end = min(gap + _MARGIN, len(pairs) - 1)
        if gap > after or _cells(pairs, before, end) > _MOST_CELLS:
            if before < after:
                yield before, after
            before = after = max(gap - 1, after)
        if before < end and _cells(pairs, before, end) <= _MOST_CELLS:
            after = end
    if before < after:
        yield before, after


def _cells(pairs: list[tuple[int, int]], before: int, after: int) -> int:
    return (pairs[after][0] - pairs[before][0]) * (pairs[after][1] - pairs[before][1])


def _longest_common_subsequence(
    forms: Sequence[str], surface: str, origins: range, positions: range
) -> list[tuple[int, int]]:
    """The LCS as (origin, position) pairs. Of several, the one with the earliest pairs, compared from the last pair on.

    A row of the table is an integer. Its bit j is 0 if character j makes the subsequence longer (Hyyrö, 2004).
    """
    positions_of: dict[str, int] = collections.defaultdict(int)
    for column, position in enumerate(positions):
        positions_of[surface[position]] |= 1 << column
    every = (1 << len(positions)) - 1
    rows = [every]
    for i in origins:
        matched = rows[-1] & positions_of.get(forms[i], 0)
        rows.append(((rows[-1] + matched) | (rows[-1] - matched)) & every)

    def length(i: int, j: int) -> int:
        return j - bin(rows[i] & ((1 << j) - 1)).count("1")

    pairs, i, j = [], len(origins), len(positions)
    remaining = length(i, j)
    while remaining:
        if length(i - 1, j) == remaining:
            i -= 1
        elif length(i, j - 1) == remaining:
            j -= 1
        else:
            i, j, remaining = i - 1, j - 1, remaining - 1
            pairs.append((origins[i], positions[j]))
    return pairs[::-1]
