"""Where the pieces of a paragraph stand in its original text (release: squad_utils.convert_examples_to_features).

The release finds out by a longest common subsequence of the original characters, each normalised on its own, and those
of the pieces: quadratic in time, and once per question. Offsets kept through normalisation know it already, in linear
time. They and the release disagree in places where something was put in or left out beside a character that is equal to
it ("….", two blanks before "2,"); so around every character without a counterpart the subsequence is looked for.
"""

from __future__ import annotations

import collections
import functools
from typing import Iterator

import numpy as np

from albert_tf.text.origins import NOWHERE, TracedPieces, trace_pieces
from albert_tf.text.tokenization import FullTokenizer

# The release drops a question when less than this share of the paragraph's characters found its counterpart.
LEAST_MATCHED = 0.8
# Matched characters behind a gap that may have to be matched anew, and the largest table for it.
_MARGIN = 16
_MOST_CELLS = 1 << 17


class AlignedParagraph:
    """A paragraph's pieces and their places.

    Args:
      traced: its pieces.
      matches: int32 [characters of the surface], the original character of each, rising; NOWHERE where there is none.
      text_length: characters of the original.
      is_matched: whether the release would keep the paragraph's questions.

    Attributes:
      ids: int32 [pieces].
      starts, ends: int32 [pieces], the first and the last original character of each, as the release has them. A piece
        without a character of its own may end before it starts.
    """

    def __init__(self, traced: TracedPieces, matches: np.ndarray, text_length: int, is_matched: bool):
        self.ids, self.is_matched = traced.ids, is_matched
        self._matches, self._text_length = matches, text_length
        self._behind = np.cumsum(traced.lengths)
        self.starts = _as_start(matches, text_length)[self._behind - traced.lengths]
        self.ends = _as_end(matches, text_length)[self._behind - 1]

    def pieces_of(self, first: int, last: int) -> tuple[int, int]:
        """The first and the last piece of a span of original characters, both ends included."""
        start_of, end_of = self._surface_of
        start, end = np.searchsorted(self._behind, [start_of[first], end_of[last]], side="right")
        return int(start), int(end)

    @functools.cached_property
    def _surface_of(self) -> tuple[np.ndarray, np.ndarray]:
        """For each original character the place in the surface where a span begins that begins there, and ends."""
        inverse = np.full(self._text_length, NOWHERE, np.int32)
        places = np.flatnonzero(self._matches != NOWHERE)[::-1]
        inverse[self._matches[places]] = places
        return _as_start(inverse), _as_end(inverse)


def align_paragraphs(tokenizer: FullTokenizer, texts: list[str]) -> list[AlignedParagraph]:
    """The pieces of each text and where they stand in it."""
    return [_align(traced, len(text), tokenizer.sp_model is not None)
            for traced, text in zip(trace_pieces(tokenizer, texts), texts)]


def _align(traced: TracedPieces, text_length: int, as_released: bool) -> AlignedParagraph:
    matches = traced.origins
    is_matched = True
    if as_released and (traced.surface[1:] != traced.forms or traced.forms[:1] == " "):
        matches = _release_matches(traced, text_length)
        is_matched = np.count_nonzero(matches != NOWHERE) >= LEAST_MATCHED * text_length
        if not is_matched:  # there the offsets know better
            matches = traced.origins
    return AlignedParagraph(traced, matches, text_length, is_matched)


# --- from matched positions to all positions ------------------------------------------------------------------------


def _as_start(matches: np.ndarray, size: int | None = None) -> np.ndarray:
    """For each position its match, or where there is none where a span that begins there begins on the other side.

    Args:
      matches: int32 [positions], rising, NOWHERE where there is none.
      size: of the other side, whose last position ends a span behind the last match; None: the last match does.
    """
    before, after = _neighbours(matches, size)
    start = np.where(after > before + 1, before + 1, after)
    return start if size is None else np.minimum(start, size - 1)


def _as_end(matches: np.ndarray, size: int | None = None) -> np.ndarray:
    """The same for a span that ends there."""
    before, after = _neighbours(matches, size)
    return np.maximum(np.where(after > before + 1, after - 1, before), 0)


def _neighbours(matches: np.ndarray, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """For each position the match at it or before it (-1: none) and the match at it or after it."""
    before = np.maximum.accumulate(matches)
    behind_all = size if size is not None else before[-1]
    after = np.where(matches == NOWHERE, behind_all, matches)
    return before, np.minimum.accumulate(after[::-1])[::-1]


# --- the release's matches ------------------------------------------------------------------------------------------


def _release_matches(traced: TracedPieces, text_length: int) -> np.ndarray:
    """The original character that the release matches with each character of the surface, or NOWHERE."""
    surface, forms = traced.surface, traced.forms
    pairs = [(origin, place) for place, (origin, character) in enumerate(zip(traced.origins.tolist(), surface))
             if origin != NOWHERE and forms[origin] == character]
    pairs = [(-1, -1), *pairs, (text_length, len(surface))]
    settled, first = [], 0
    for before, behind in _regions(pairs):
        (left, lower), (right, upper) = pairs[before], pairs[behind]
        settled += pairs[first : before + 1]
        settled += _longest_common_subsequence(forms, surface, range(left + 1, right), range(lower + 1, upper))
        first = behind
    settled += pairs[first:]
    matches = np.full(len(surface), NOWHERE, np.int32)
    for origin, place in settled[1:-1]:
        matches[place] = origin
    return matches


def _regions(pairs: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where pairs may have to be matched anew: from the pair before a gap to the one that ends the margin behind it.

    Gaps in one another's margin are in one region, as long as that is not too large.
    """
    gaps = [k for k in range(1, len(pairs)) if pairs[k] != (pairs[k - 1][0] + 1, pairs[k - 1][1] + 1)]
    before = behind = 0
    for gap in gaps:
        end = min(gap + _MARGIN, len(pairs) - 1)
        if gap > behind or _cells(pairs, before, end) > _MOST_CELLS:
            if before < behind:
                yield before, behind
            before = behind = max(gap - 1, behind)
        if before < end and _cells(pairs, before, end) <= _MOST_CELLS:
            behind = end
    if before < behind:
        yield before, behind


def _cells(pairs: list[tuple[int, int]], before: int, behind: int) -> int:
    return (pairs[behind][0] - pairs[before][0]) * (pairs[behind][1] - pairs[before][1])


def _longest_common_subsequence(forms, surface: str, origins: range, places: range) -> list[tuple[int, int]]:
    """The longest one, and of several the one whose pairs, from the last to the first, come earliest.

    A row of the table is a number, of which bit j is 0 where the subsequence grows with character j (Hyyrö, 2004).
    """
    places_of: dict[str, int] = collections.defaultdict(int)
    for column, place in enumerate(places):
        places_of[surface[place]] |= 1 << column
    every = (1 << len(places)) - 1
    rows = [every]
    for i in origins:
        matched = rows[-1] & places_of.get(forms[i], 0)
        rows.append(((rows[-1] + matched) | (rows[-1] - matched)) & every)

    def length(i: int, j: int) -> int:
        return j - bin(rows[i] & ((1 << j) - 1)).count("1")

    pairs, i, j = [], len(origins), len(places)
    remaining = length(i, j)
    while remaining:
        if length(i - 1, j) == remaining:
            i -= 1
        elif length(i, j - 1) == remaining:
            j -= 1
        else:
            i, j, remaining = i - 1, j - 1, remaining - 1
            pairs.append((origins[i], places[j]))
    return pairs[::-1]
