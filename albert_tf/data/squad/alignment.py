"""Where the pieces of a paragraph stand in its original text (release: squad_utils.convert_examples_to_features).

The release finds out by a longest common subsequence of the original characters, each normalised on its own, and those
of the pieces: quadratic in time, and once per question. Offsets kept through normalisation know it already, in linear
time. They and the release disagree in places where something was put in or left out beside a character that is equal to
it ("….", two blanks before "2,"); only there is the subsequence looked for, over some characters.
"""

from __future__ import annotations

import functools

import numpy as np

from albert_tf.text.origins import NOWHERE, TracedPieces, trace_pieces
from albert_tf.text.tokenization import FullTokenizer

# The release drops a question when less than this share of the paragraph's characters found its counterpart.
LEAST_MATCHED = 0.8
# Matched characters behind a gap that may have to be matched anew, and the largest table for it.
_MARGIN = 16
_MOST_CELLS = 1 << 16


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
    if as_released and traced.surface[1:] != traced.forms:
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
    pairs = _settled(forms, surface, [(-1, -1), *pairs, (text_length, len(surface))])
    matches = np.full(len(surface), NOWHERE, np.int32)
    if pairs:
        origins, places = zip(*pairs)
        matches[list(places)] = origins
    return matches


def _settled(forms, surface: str, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs matched anew behind every gap in which there is something for the pairs behind it to match with.

    Args:
      forms, surface: the two sides.
      pairs: (original, surface), rising, between a pair before both sides and one behind them.
    """
    settled, k = pairs[:1], 1
    while k < len(pairs):
        if not _is_open(forms, surface, settled[-1], pairs[k]):
            settled.append(pairs[k])
            k += 1
            continue
        last = min(k + _MARGIN, len(pairs) - 1)
        (left, lower), (right, upper) = settled[-1], pairs[last]
        found = pairs[k:last]
        if (right - left) * (upper - lower) <= _MOST_CELLS:
            found = _longest_common_subsequence(forms, surface, range(left + 1, right), range(lower + 1, upper))
        settled += found
        # What is behind the margin stands in a gap of its own only if the last match moved.
        k = last
        settled.append(pairs[k])
        k += 1
    return settled[1:-1]


def _is_open(forms, surface: str, before: tuple[int, int], pair: tuple[int, int]) -> bool:
    """Whether the gap between two pairs has a character that the second pair, or another of the gap, could have."""
    origins, places = range(before[0] + 1, pair[0]), range(before[1] + 1, pair[1])
    if not origins and not places:
        return False
    wanted = surface[pair[1]] if pair[1] < len(surface) else None
    put_in = surface[places.start : places.stop]
    if wanted is not None and wanted in put_in:
        return True
    return any(forms[i] == wanted or forms[i] in put_in for i in origins if len(forms[i]) == 1)


def _longest_common_subsequence(forms, surface: str, origins: range, places: range) -> list[tuple[int, int]]:
    """The longest one, and of several the one whose pairs, from the last to the first, come earliest."""
    rows = [[0] * (len(places) + 1)]
    for i in origins:
        row = [0]
        for column, j in enumerate(places):
            matched = rows[-1][column] + 1 if forms[i] == surface[j] else 0
            row.append(max(rows[-1][column + 1], row[column], matched))
        rows.append(row)
    pairs, i, j = [], len(origins), len(places)
    while i and j:
        if rows[i - 1][j] == rows[i][j]:
            i -= 1
        elif rows[i][j - 1] == rows[i][j]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((origins[i], places[j]))
    return pairs[::-1]
