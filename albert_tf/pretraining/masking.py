"""n-gram masking of whole words (Lan et al., 2020, section 4.1; release: create_masked_lm_predictions).

Words are visited in random order. At each word an n-gram of 1 to `ngram` words is drawn with P(n) ~ 1/n. The n-gram is
shortened if it would exceed the goal of 15 % of the tokens, and skipped if it overlaps one that was taken before. Of
the chosen tokens, 80 % become [MASK], 10 % are kept and 10 % become a random piece.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
from typing import NamedTuple

import numpy as np

from albert_tf.utils import bounds

AS_MASK, AS_ITSELF = 0.8, 0.1


@dataclasses.dataclass(frozen=True)
class MaskingOptions:
    """How tokens are chosen for masking.

    Args:
      max_predictions_per_seq: the largest number of masked tokens of an example.
      masked_lm_prob: share of the tokens (including special ones) to mask.
      ngram: the longest n-gram, in words.
      favor_shorter_ngram: whether P(n) ~ 1/n; if False, the probabilities are reversed and the longest is most likely.
      whole_words: whether to mask whole words; if False, each piece counts as a word.
      permutation: whether to choose a second set of n-grams of the same size, whose tokens are permuted at random.

    Raises:
      ValueError: a value is out of its range.
    """

    max_predictions_per_seq: int
    masked_lm_prob: float = 0.15
    ngram: int = 3
    favor_shorter_ngram: bool = True
    whole_words: bool = True
    permutation: bool = False

    def __post_init__(self):
        bounds.PREDICTIONS.check("max_predictions_per_seq", self.max_predictions_per_seq)
        bounds.NGRAM.check("ngram", self.ngram)
        if not isinstance(self.masked_lm_prob, (int, float)) or not 0 < self.masked_lm_prob < 1:
            raise ValueError("masked_lm_prob must be a number above 0 and below 1. "
                             f"Received: masked_lm_prob={reprlib.repr(self.masked_lm_prob)}")

    @property
    def record_predictions(self) -> int:
        """Length of the masked_lm features. Permuted positions are predicted too."""
        return self.max_predictions_per_seq * (2 if self.permutation else 1)

    @functools.cached_property
    def ngram_bounds(self) -> np.ndarray:
        """Cumulative probabilities of n-grams of 1, 2, ... words without the final 1, [ngram - 1]."""
        weights = 1.0 / np.arange(1, self.ngram + 1)
        if not self.favor_shorter_ngram:
            weights = weights[::-1]
        return np.cumsum(weights / weights.sum())[:-1]

    def goal(self, length: int) -> int:
        """How many of `length` tokens (including special ones) to mask."""
        return min(self.max_predictions_per_seq, max(1, round(length * self.masked_lm_prob)))


class Masked(NamedTuple):
    """An example's input after masking."""

    input_ids: np.ndarray  # int32 [length]
    positions: np.ndarray  # [masked], ascending
    labels: np.ndarray  # [masked], the original ids at these positions


class Masker:
    """Masks examples.

    Args:
      options: how tokens are chosen.
      mask_id: id of [MASK].
      vocab_size: size of the vocabulary, from which random pieces are drawn.
    """

    def __init__(self, options: MaskingOptions, mask_id: int, vocab_size: int):
        self._options, self._mask_id, self._vocab_size = options, mask_id, vocab_size

    def mask(self, ids: np.ndarray, starts: np.ndarray, special: np.ndarray, rng: np.random.Generator) -> Masked:
        """Masks one example.

        Args:
          ids: int32 [length], with [CLS] and [SEP].
          starts: bool [length], whether a token starts a word; ignored for special tokens.
          special: bool [length], whether a token is a special one, which is never masked.
          rng: source of all random numbers.
        """
        tokens = np.flatnonzero(~special)
        word_of_token = np.cumsum(starts[tokens]) if self._options.whole_words else np.arange(1, len(tokens) + 1)
        word_of_token = word_of_token - word_of_token[0]
        # [words + 1]: the number of tokens before each word, and the number of all tokens
        word_ends = np.searchsorted(word_of_token, np.arange(word_of_token[-1] + 2))
        word_ends, taken = word_ends.tolist(), [False] * (len(word_ends) - 1)
        goal = self._options.goal(len(ids))

        masked = tokens[_in_spans(self.draw_spans(word_ends, taken, goal, rng), len(taken))[word_of_token]]
        output, labels = ids.copy(), ids[masked]
        fate = rng.random(len(masked))
        random_ids = rng.integers(self._vocab_size, size=len(masked), dtype=ids.dtype)
        kept = np.where(fate < AS_MASK + AS_ITSELF, labels, random_ids)
        output[masked] = np.where(fate < AS_MASK, self._mask_id, kept)
        if not self._options.permutation:
            return Masked(output, masked, labels)

        permuted = tokens[_in_spans(self.draw_spans(word_ends, taken, goal, rng), len(taken))[word_of_token]]
        output[permuted] = ids[rng.permutation(permuted)]
        positions = np.concatenate([masked, permuted])
        order = np.argsort(positions, kind="stable")
        return Masked(output, positions[order], ids[positions[order]])

    def draw_spans(self, word_ends: list[int], taken: list[bool], goal: int, rng) -> list[tuple[int, int]]:
        """Draws n-grams of untaken words, `goal` tokens or slightly fewer in total, as (first word, end).

        Args:
          word_ends: [words + 1], the number of tokens before each word, and the number of all tokens.
          taken: [words], whether each word is taken. Words that are drawn are marked here.
          goal: the number of tokens to draw.
          rng: source of all random numbers.
        """
        spans, num_words, missing = [], len(taken), goal
        sizes = (np.searchsorted(self._options.ngram_bounds, rng.random(num_words), side="right") + 1).tolist()
        for first, size in zip(rng.permutation(num_words).tolist(), sizes):
            if missing <= 0:
                break
            last = min(first + size, num_words)
            while last > first and word_ends[last] - word_ends[first] > missing:
                last -= 1
            if last == first or any(taken[first:last]):
                continue
            taken[first:last] = [True] * (last - first)
            missing -= word_ends[last] - word_ends[first]
            spans.append((first, last))
        return spans


def _in_spans(spans: list[tuple[int, int]], num_words: int) -> np.ndarray:
    """Whether each word is in one of the spans, bool [num_words]."""
    inside = np.zeros(num_words, bool)
    for first, last in spans:
        inside[first:last] = True
    return inside
