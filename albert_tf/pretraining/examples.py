"""Documents -> pairs of segments -> masked tf.Examples (Lan et al., 2020, sections 3.1 and 4.1).

Consecutive sentences form a chunk of about max_seq_length - 3 tokens. The chunk is split between two sentences into
segments A and B, which are trimmed if they are too long together. The objectives::

  sop (sentence order)  A and B are swapped in half of the pairs (label 1)
  nsp (next sentence)   B is from another document in half of the pairs (label 1)
  none                  A and B are not changed, and the label is 0

Masking takes n-grams of whole words (release: create_masked_lm_predictions). Words are visited in random order. At each
word an n-gram of 1 to `ngram` words is drawn with P(n) ~ 1/n. The n-gram is shortened if it would exceed the goal of
15 % of the tokens, and skipped if it overlaps one that was taken before. Of the chosen tokens, 80 % become [MASK], 10 %
are kept and 10 % become a random piece.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import functools
import reprlib
from typing import Callable, Iterator, NamedTuple

import numpy as np

from albert_tf.data.records import serialize
from albert_tf.pretraining.corpus import Corpus, Part
from albert_tf.text.lines import check_splitting
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.text.tokenization import FullTokenizer, word_starts
from albert_tf.utils import bounds
from albert_tf.utils.bounds import check_finite, check_one_of

OBJECTIVES = ("sop", "nsp", "none")
MAX_SEQ_LENGTH = bounds.SEQ_LENGTH.at_least(SPECIAL_TOKENS + 2)


@dataclasses.dataclass(frozen=True)
class SegmentOptions:
    """How documents are divided into pairs.

    With release_compatible, as in the release: the short length is drawn once per document, a chunk of one sentence is
    paired with a random document and labelled 1, and a trimmed segment may begin inside a word.
    """

    max_seq_length: int  # the largest number of tokens of an example, including special tokens
    short_seq_prob: float  # share of the examples that have a random shorter target length
    objective: str = "sop"  # one of OBJECTIVES
    release_compatible: bool = False

    def __post_init__(self) -> None:
        MAX_SEQ_LENGTH.check("max_seq_length", self.max_seq_length)
        check_finite("short_seq_prob", self.short_seq_prob, 0.0)
        check_one_of("sentence_objective", self.objective, OBJECTIVES)


class Pair(NamedTuple):
    """Two segments with their label, and facts for the statistics."""

    a: np.ndarray  # int32 ids
    b: np.ndarray
    label: int  # 1 if the segments are swapped or B is from another document
    is_short: bool  # whether the target length was drawn at random
    document_tokens: int  # tokens that are from the document, and not from a random B


class Segmenter:
    """Divides documents into pairs.

    starts_word, bool [vocab_size], is whether the piece of each id starts a word; for random_sentences see Corpus.
    """

    def __init__(self, options: SegmentOptions, starts_word: np.ndarray,
                 random_sentences: Callable[[np.random.Generator, int, int], np.ndarray]):
        self._options, self._starts_word, self._random_sentences = options, starts_word, random_sentences
        self._max_tokens = options.max_seq_length - SPECIAL_TOKENS  # of A and B together

    def pairs(self, index: int, ids: np.ndarray, ends: list[int], rng: np.random.Generator) -> Iterator[Pair | None]:
        """The pairs of document number `index`; None for a chunk that is skipped since it has one word only.

        ids, int32 [tokens], are the document's; `ends` is [0, end of sentence 1, end of sentence 2, ...].
        """
        options, first, last = self._options, 0, len(ends) - 1
        target, is_short = self._target_length(rng)
        while first < last:
            if not options.release_compatible:
                target, is_short = self._target_length(rng)
            end = min(bisect.bisect_left(ends, ends[first] + target, first + 1), last)
            cut = int(rng.integers(first + 1, end)) if end - first > 1 else end
            a, b = ids[ends[first] : ends[cut]], ids[ends[cut] : ends[end]]
            first = end
            is_random = (not len(b) and options.release_compatible and options.objective != "none") or (
                options.objective == "nsp" and rng.random() < 0.5)
            if is_random:
                b, label = self._random_sentences(rng, index, max(target - len(a), 1)), 1
                first = cut  # the next pair begins with the sentences that B would have had
            elif not len(b):  # one sentence: cut between words, and not at all if it has only one
                words = np.flatnonzero(self._starts_word[a[1:]]) + 1
                length = int(rng.choice(words)) if len(words) else len(a)
                a, b, label = a[:length], a[length:], 0
            else:
                label = 0
            if not len(b):
                yield None
                continue
            if label == 0 and options.objective == "sop" and rng.random() < 0.5:
                a, b, label = b, a, 1
            a, b = self._trim(a, b, rng)
            yield Pair(a, b, label, is_short, document_tokens=len(a) + (0 if is_random else len(b)))

    def _target_length(self, rng: np.random.Generator) -> tuple[int, bool]:
        if rng.random() < self._options.short_seq_prob:
            return int(rng.integers(2, self._max_tokens + 1)), True
        return self._max_tokens, False

    def _trim(self, a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Trims both segments as if tokens were removed one by one from a random end of the longer one."""
        excess = len(a) + len(b) - self._max_tokens
        if excess <= 0:
            return a, b
        longer_by = len(a) - len(b)
        alone = min(excess, abs(longer_by))  # the longer one loses tokens until both have the same length
        both = excess - alone  # then they lose tokens in turn, B first
        from_a, from_b = both // 2, both - both // 2
        if longer_by > 0:
            from_a += alone
        else:
            from_b += alone
        return self._take_off(a, from_a, rng), self._take_off(b, from_b, rng)

    def _take_off(self, segment: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        front = int(rng.binomial(count, 0.5)) if count else 0
        if front and not self._options.release_compatible:
            # A segment begins at a word: fewer tokens are removed in front to keep a word whole, and more at the end.
            starts = np.flatnonzero(self._starts_word[segment[: front + 1]])
            front = int(starts[-1]) if len(starts) else 0
        return segment[front : len(segment) - (count - front)]


AS_MASK, AS_ITSELF = 0.8, 0.1


@dataclasses.dataclass(frozen=True)
class MaskingOptions:
    """How tokens are chosen for masking. Raises ValueError for a value out of its range."""

    max_predictions_per_seq: int  # the largest number of masked tokens of an example
    masked_lm_prob: float = 0.15  # share of the tokens (including special ones) to mask
    ngram: int = 3  # the longest n-gram, in words
    favor_shorter_ngram: bool = True  # P(n) ~ 1/n; if False, the probabilities are reversed: the longest is most likely
    whole_words: bool = True  # if False, each piece counts as a word
    permutation: bool = False  # whether to permute the tokens of a second set of n-grams of the same size

    def __post_init__(self) -> None:
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
    """Masks examples. Random pieces are drawn from vocab_size ones."""

    def __init__(self, options: MaskingOptions, mask_id: int, vocab_size: int):
        self._options, self._mask_id, self._vocab_size = options, mask_id, vocab_size

    def mask(self, ids: np.ndarray, starts: np.ndarray, special: np.ndarray, rng: np.random.Generator) -> Masked:
        """Masks one example: ids, int32 [length], with [CLS] and [SEP].

        starts and special, bool [length], tell which tokens start a word, and which are special and never masked.
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

    def draw_spans(
        self, word_ends: list[int], taken: list[bool], goal: int, rng: np.random.Generator
    ) -> list[tuple[int, int]]:
        """Draws n-grams of untaken words, `goal` tokens or slightly fewer in total, as (first word, end).

        word_ends, [words + 1], has the number of tokens before each word, and of all tokens. `taken`, [words], says
        which words are taken; those that are drawn are marked in it.
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


@dataclasses.dataclass(frozen=True)
class CreationOptions:
    """How create_pretraining_data makes examples."""

    segments: SegmentOptions
    masking: MaskingOptions
    dupe_factor: int  # number of passes over the corpus, each with new random segments and masks
    random_seed: int
    split_lines: str | None = None  # the text's language, such as "en", to split each line into sentences by its rules

    def __post_init__(self) -> None:
        bounds.DUPE_FACTOR.check("dupe_factor", self.dupe_factor)
        bounds.SEED.check("random_seed", self.random_seed)
        if self.masking.max_predictions_per_seq > self.segments.max_seq_length:
            raise ValueError("max_predictions_per_seq must be at most max_seq_length "
                             f"{self.segments.max_seq_length}. Received: {self.masking.max_predictions_per_seq}")
        if self.split_lines is not None:
            check_splitting(self.split_lines)


class RecordMaker:
    """Makes the records of parts of a corpus; of the whole corpus, since a random segment B comes from any document."""

    def __init__(self, corpus: Corpus, tokenizer: FullTokenizer, options: CreationOptions):
        self._corpus, self._options = corpus, options
        self._starts_word = word_starts(tokenizer)
        self._segmenter = Segmenter(options.segments, self._starts_word, corpus.random_sentences)
        self._masker = Masker(options.masking, tokenizer.mask_id, len(self._starts_word))
        self._special_tokens, self._pad_id = tokenizer.special_tokens, tokenizer.pad_id

    def records(self, dupe: int, part: Part, statistics: collections.Counter[str]) -> Iterator[tuple[int, bytes]]:
        """The sorting key and the serialized record of each example of a part, in pass `dupe` over the corpus."""
        rng = np.random.default_rng([self._options.random_seed, dupe, part.first])
        ids, ends = self._corpus.sentences(part)
        statistics.update(sentences=part.last - part.first, text_tokens=len(ids), unused_tokens=len(ids))
        for pair in self._segmenter.pairs(part.document, ids, ends, rng):
            if pair is None:
                statistics["left_out"] += 1
            else:
                statistics["unused_tokens"] -= pair.document_tokens
                record = self._record(pair, rng, statistics)
                yield int(rng.integers(1 << 63, dtype=np.uint64)), record

    def _record(self, pair: Pair, rng: np.random.Generator, statistics: collections.Counter[str]) -> bytes:
        ids = self._special_tokens.around(pair.a, pair.b)
        length, second = len(ids), len(pair.a) + 2
        special = np.zeros(length, bool)
        special[[0, second - 1, length - 1]] = True
        masked = self._masker.mask(ids, self._starts_word[ids], special, rng)
        statistics.update(examples=1, tokens=length, masked=len(masked.positions), swapped=pair.label,
                          short=pair.is_short)

        padding = self._options.segments.max_seq_length - length
        predictions_padding = self._options.masking.record_predictions - len(masked.positions)
        segment_ids = np.zeros(length, np.int32)
        segment_ids[second:] = 1
        return serialize(
            input_ids=_pad(masked.input_ids, padding, self._pad_id),
            input_mask=_pad(np.ones(length, np.int32), padding),
            segment_ids=_pad(segment_ids, padding),
            token_boundary=_pad((self._starts_word[ids] | special).astype(np.int32), padding),
            masked_lm_positions=_pad(masked.positions, predictions_padding),
            masked_lm_ids=_pad(masked.labels, predictions_padding),
            masked_lm_weights=_pad(np.ones(len(masked.positions), np.float32), predictions_padding),
            next_sentence_labels=np.array([pair.label]),
        )


def _pad(values: np.ndarray, count: int, fill: int = 0) -> np.ndarray:
    return np.concatenate([values, np.full(count, fill, values.dtype)])
