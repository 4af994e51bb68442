"""Divides the phonemes of a sentence among its words, since espeak-ng joins short ones: "was a dog" is "wʌzɐ dˈɑːɡ".

What belongs to a word is told by its phonemes when it is spoken alone. Between words that sound the same in both, the
division with the smallest sum of edit distances is found by Dijkstra's algorithm.
"""

from __future__ import annotations

import collections
import functools
import heapq
import itertools
import unicodedata
from typing import Sequence

_STRESS = "ˈˌ"
_NOT_COMPARED = str.maketrans("", "", "ˈˌː")
_VOWELS = frozenset("aeiouyɑɐɒæɘəɚɛɜɝɞɤɨɪɔøœɵɶɯʉʊʌʏᵻ")
# The numbers of words and of parts of the sentence that belong together.
_STEPS = ((1, 1), (2, 1), (3, 1), (1, 2), (1, 3))
_LONGEST_DIFFERENCE = 2  # symbols per word or part, between what is said together and what is said alone
# Costs: of a symbol that is missing; of another vowel for a vowel ("a" alone is ˈeɪ, else ɐ) or consonant for a
# consonant; of one for the other; of each word or part that is joined.
_MISSING, _SIMILAR, _OTHER, _JOINED = 1.0, 0.3, 1.5, 0.25
_CACHED = 1 << 16


def divide(parts: Sequence[str], words: Sequence[str]) -> list[str]:
    """The phonemes of each word in a sentence, which are in `parts` cut at spaces, and in `words` as spoken alone."""
    counts_of_words, counts_of_parts = collections.Counter(words), collections.Counter(parts)
    # What is said once, and is said once alone, divides the sentence into pieces.
    anchors = [(words.index(word), parts.index(word)) for word, count in counts_of_words.items()
               if count == counts_of_parts[word] == 1]
    if anchors != sorted(anchors, key=lambda anchor: anchor[1]):
        anchors = []
    pieces: list[str] = []
    for (word, part), (next_word, next_part) in zip([(-1, -1), *anchors], [*anchors, (len(words), len(parts))]):
        alone = words[word + 1:next_word]
        pieces += [*(_shortest(parts[part + 1:next_part], alone) or alone), *words[next_word:next_word + 1]]
    return pieces


def _shortest(parts: Sequence[str], words: Sequence[str]) -> list[str] | None:
    """The division with the smallest sum of distances; None if there is none."""
    if len(parts) == len(words):
        return list(parts)
    order = itertools.count()  # of ways with equal costs
    ways: list[tuple[float, int, int, int, tuple[str, ...]]] = [(0.0, len(words), len(parts), next(order), ())]
    visited = set()
    while ways:
        cost, words_left, parts_left, _, way = heapq.heappop(ways)
        if not words_left and not parts_left:
            return list(way)
        if (words_left, parts_left) in visited:
            continue
        visited.add((words_left, parts_left))
        word, part = len(words) - words_left, len(parts) - parts_left
        for num_words, num_parts in _STEPS:
            if num_words <= words_left and num_parts <= parts_left:
                together, text = tuple(words[word:word + num_words]), "".join(parts[part:part + num_parts])
                joined = num_words + num_parts - 2
                if joined and abs(sum(map(len, together)) - len(text)) > _LONGEST_DIFFERENCE * (joined + 1):
                    continue
                step, pieces = _division(together, text)
                heapq.heappush(ways, (cost + step + _JOINED * joined, words_left - num_words, parts_left - num_parts,
                                      next(order), way + pieces))
    return None


@functools.lru_cache(_CACHED)
def _division(words: tuple[str, ...], text: str) -> tuple[float, tuple[str, ...]]:
    """The division of a text among words that has the smallest sum of distances, and this sum."""
    if len(words) == 1:
        return _distance(words[0], text), (text,)
    best: tuple[float, tuple[str, ...]] = float("inf"), ()
    for end in range(1, len(text)):
        # A mark of length belongs to the symbol before it, one of stress to the symbol after it.
        if text[end] in _STRESS or unicodedata.category(text[end]) not in ("Mn", "Lm"):
            rest, pieces = _division(words[1:], text[end:])
            cost = _distance(words[0], text[:end]) + rest
            if cost < best[0]:  # of equal ones the first, which is before a mark of stress
                best = cost, (text[:end], *pieces)
    return best


@functools.lru_cache(_CACHED)
def _distance(one: str, other: str) -> float:
    """The edit distance of two texts without their marks of stress and length."""
    one, other = one.translate(_NOT_COMPARED), other.translate(_NOT_COMPARED)
    row = [_MISSING * i for i in range(len(other) + 1)]
    for i, symbol in enumerate(one, start=1):
        above, row = row, [_MISSING * i]
        for j, compared in enumerate(other):
            replaced = (0.0 if symbol == compared else _SIMILAR if (symbol in _VOWELS) == (compared in _VOWELS)
                        else _OTHER)
            row.append(min(above[j] + replaced, above[j + 1] + _MISSING, row[j] + _MISSING))
    return row[-1]
