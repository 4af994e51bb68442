"""Segments and masks have the same statistics as the release's.

golden/segments.json: the statistics of 40 documents.
"""

import collections
import functools
import json
import pathlib

import numpy as np
import pytest

from albert_tf.pretraining.examples import Masker, MaskingOptions, Segmenter, SegmentOptions
from albert_tf.text.tokenization import FullTokenizer, word_starts

pytestmark = pytest.mark.both_stacks

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
RUNS = {(run["max_seq_length"], run["max_predictions_per_seq"], run["short_seq_prob"]): run
        for run in json.loads((GOLDEN / "segments.json").read_text())["runs"]}
LONG_RUNS = [key for key in RUNS if key[2] == 0]
PASSES = 12


@functools.lru_cache(maxsize=None)
def tokenizer():
    return FullTokenizer(spm_model_file=str(GOLDEN / "tiny_spm/tiny.model"))


@functools.lru_cache(maxsize=None)
def documents():
    """[(ids, ends)], as Corpus.sentences returns them."""
    stored = np.load(GOLDEN / "segments_docs.npz")
    found, ids, sentence = [], stored["ids"].astype(np.int32), 0
    token_ends = np.concatenate([[0], np.cumsum(stored["sentence_len"])])
    for sentences in stored["doc_len"]:
        ends = token_ends[sentence : sentence + sentences + 1]
        found.append((ids[ends[0] : ends[-1]], (ends - ends[0]).tolist()))
        sentence += sentences
    return found


def random_sentences(rng, index, length):
    other = int(rng.integers(len(documents()) - 1))
    ids, ends = documents()[other + (other >= index)]
    first = int(rng.integers(len(ends) - 1))
    last = next((end for end in ends[first + 1 :] if end - ends[first] >= length), ends[-1])
    return ids[ends[first] : last]


class WatchedMasker(Masker):
    """A masker that counts the n-grams that it masks, by their size."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ngrams = collections.Counter()

    def draw_spans(self, *arguments):
        spans = super().draw_spans(*arguments)
        self.ngrams.update(last - first for first, last in spans)
        return spans


@functools.lru_cache(maxsize=None)
def passes(key, release_compatible):
    """The counts of each pass, and the histograms of all of them."""
    max_seq_length, max_predictions, short_seq_prob = key
    starts = word_starts(tokenizer())
    segmenter = Segmenter(SegmentOptions(max_seq_length, short_seq_prob, "sop", release_compatible), starts,
                          random_sentences)
    options = MaskingOptions(max_predictions)
    masker = WatchedMasker(options, tokenizer().mask_id, tokenizer().vocab_size)
    counted, histograms = [], collections.defaultdict(collections.Counter, ngram_used=masker.ngrams)
    for number in range(PASSES):
        counts = collections.Counter()
        for index, (ids, ends) in enumerate(documents()):
            rng = np.random.default_rng([7, number, index])
            in_document = set(zip(ids[:-1].tolist(), ids[1:].tolist()))
            shorts = []
            for pair in segmenter.pairs(index, ids, ends, rng):
                if pair is not None:
                    count_example(counts, histograms, pair, starts, masker, options, max_seq_length, rng, in_document)
                    shorts.append(pair.is_short)
            counts.update(documents=1, documents_short=bool(shorts) and all(shorts))
        counted.append(counts)
    return counted, histograms


def count_example(counts, histograms, pair, starts, masker, options, max_seq_length, rng, in_document):
    row = np.concatenate([[2], pair.a, [3], pair.b, [3]]).astype(np.int32)
    special = np.zeros(len(row), bool)
    special[[0, len(pair.a) + 1, -1]] = True
    masked = masker.mask(row, starts[row], special, rng)
    assert np.array_equal(row[masked.positions], masked.labels)
    assert not special[masked.positions].any()
    changed = masked.input_ids[masked.positions]
    as_mask = changed == tokenizer().mask_id
    as_itself = ~as_mask & (changed == masked.labels)
    tokens = np.flatnonzero(~special)
    word = np.cumsum(starts[row[tokens]])
    hidden = np.isin(tokens, masked.positions)
    sizes = np.unique(word, return_counts=True)[1]
    masked_of_word = np.bincount(np.unique(word, return_inverse=True)[1], hidden)
    same_document = set(zip(pair.b[:-1].tolist(), pair.b[1:].tolist())) <= in_document
    counts.update(
        instances=1, label_1=pair.label, b_from_other=not same_document, swapped=pair.label and same_document,
        shorter=len(row) < max_seq_length, tokens=len(row), predictions=len(masked.positions),
        as_mask=as_mask.sum(), as_itself=as_itself.sum(), as_random=(~as_mask & ~as_itself).sum(),
        goal_reached=len(masked.positions) == options.goal(len(row)), short=pair.is_short,
        words_in_part=((masked_of_word > 0) & (masked_of_word < sizes)).sum(), words=len(sizes),
        across_sep=not starts[pair.b[0]], inside_word=not starts[pair.b[0]] or not starts[pair.a[0]])
    histograms["length_by_16"][len(row) // 16 * 16] += 1
    histograms["length_a_by_16"][len(pair.a) // 16 * 16] += 1
    histograms["masked_tokens"][len(masked.positions)] += 1
    for size, count in zip(sizes, masked_of_word):
        histograms["pieces_per_word"][size] += 1
        if count:
            histograms["pieces_per_masked_word"][size] += 1
    runs = np.flatnonzero(np.diff(np.concatenate([[0], masked_of_word > 0, [0]])))
    histograms["run_of_masked_words"].update((runs[1::2] - runs[::2]).tolist())


def share(counted, numerator, denominator):
    """The share over all passes, and its standard error from the variance over passes."""
    each = np.array([counts[numerator] / counts[denominator] for counts in counted])
    whole = sum(counts[numerator] for counts in counted) / sum(counts[denominator] for counts in counted)
    return whole, each.std(ddof=1) / len(each) ** 0.5


def assert_as_the_release(key, counted, name, numerator, denominator):
    """Within 4 combined standard errors, or 5 if short documents give the shares a heavy tail (golden/README)."""
    ours, error = share(counted, numerator, denominator)
    release, release_error = RUNS[key]["shares"][name], RUNS[key]["standard_errors"][name]
    assert abs(ours - release) <= (5 if key[2] else 4) * np.hypot(error, release_error) + 1e-12, (name, ours, release)


def distance(ours, release):
    """The largest difference of the cumulative shares of two histograms."""
    release = {int(value): count for value, count in release.items()}
    values = sorted(set(ours) | set(release))
    cumulative = [np.cumsum([h.get(v, 0) for v in values]) / sum(h.values()) for h in (ours, release)]
    return np.abs(cumulative[0] - cumulative[1]).max()


@pytest.mark.parametrize("key", LONG_RUNS, ids=str)
@pytest.mark.parametrize("release_compatible", [False, True])
def test_masks_are_drawn_as_the_release_draws_them(key, release_compatible):
    counted, histograms = passes(key, release_compatible)
    for name in ("as_mask", "as_itself", "as_random"):
        assert_as_the_release(key, counted, name, name, "predictions")
    assert share(counted, "words_in_part", "words")[0] == 0
    assert share(counted, "goal_reached", "instances")[0] == RUNS[key]["shares"]["goal_reached_exactly"] == 1
    assert abs(share(counted, "predictions", "tokens")[0] - RUNS[key]["shares"]["tokens_masked"]) < 2e-4
    for name in ("ngram_used", "run_of_masked_words", "pieces_per_masked_word", "pieces_per_word"):
        assert distance(histograms[name], RUNS[key]["histograms"][name]) < 0.03, name


@pytest.mark.parametrize("key", RUNS, ids=str)
def test_release_compatible_segments_are_the_releases(key):
    counted, histograms = passes(key, True)
    for name, numerator in (("label_1", "label_1"), ("swapped", "swapped"), ("b_from_other_document", "b_from_other"),
                            ("shorter_than_max", "shorter"), ("words_across_sep_per_instance", "across_sep")):
        assert_as_the_release(key, counted, name, numerator, "instances")
    assert_as_the_release(key, counted, "documents_short", "documents_short", "documents")
    assert share(counted, "across_sep", "instances")[0] > 0
    if key in LONG_RUNS:
        for name in ("length_by_16", "length_a_by_16", "masked_tokens"):
            assert distance(histograms[name], RUNS[key]["histograms"][name]) < 0.03, name


@pytest.mark.parametrize("key", RUNS, ids=str)
def test_pairs_come_from_one_document_are_swapped_half_the_time_and_a_tenth_is_drawn_short(key):
    counted, _ = passes(key, False)
    assert sum(counts["b_from_other"] for counts in counted) == 0
    assert sum(counts["inside_word"] for counts in counted) == 0
    swapped, instances = (sum(counts[name] for counts in counted) for name in ("swapped", "instances"))
    assert abs(swapped / instances - 0.5) < 4 * 0.5 / instances**0.5
    if key[2]:
        short = sum(counts["short"] for counts in counted)
        assert abs(short / instances - 0.1) < 4 * (0.09 / instances) ** 0.5


def segmenter(starts, random=None, **options):
    options = dict(dict(max_seq_length=32, short_seq_prob=0.0), **options)
    return Segmenter(SegmentOptions(**options), np.array(starts, bool), random)


def test_one_sentence_is_cut_in_two_at_a_word_and_one_word_is_left_out():
    starts = [False, True]  # the pieces 0 and 1
    sentence, rng = np.array([1, 0, 1, 0, 0], np.int32), np.random.default_rng(1)
    pair, = segmenter(starts, objective="none").pairs(0, sentence, [0, 5], rng)
    assert (pair.a.tolist(), pair.b.tolist(), pair.label) == ([1, 0], [1, 0, 0], 0)
    assert list(segmenter(starts).pairs(0, np.array([1, 0, 0], np.int32), [0, 3], rng)) == [None]


def test_next_sentence_pairs_take_b_from_another_document_half_the_time():
    cutter = segmenter([True, True, True], lambda rng, index, length: np.full(length, 2, np.int32), objective="nsp")
    pairs = [pair for seed in range(200)
             for pair in cutter.pairs(0, np.ones(10, np.int32), [0, 5, 10], np.random.default_rng(seed))]
    assert all((pair.b == 2).all() == bool(pair.label) and (pair.a == 1).all() for pair in pairs)
    assert 0.4 < np.mean([pair.label for pair in pairs]) < 0.7  # what a random B leaves over is used again


def test_permutation_predicts_a_second_set_of_spans_that_are_exchanged_among_themselves():
    options = MaskingOptions(10, permutation=True)
    ids = np.arange(10, 74, dtype=np.int32)
    drawn = []

    class RecordingMasker(Masker):
        def draw_spans(self, *arguments):
            drawn.append(super().draw_spans(*arguments))
            return drawn[-1]

    masked = RecordingMasker(options, 4, 100).mask(ids, np.ones(64, bool), np.zeros(64, bool), np.random.default_rng(5))
    exchanged = np.concatenate([np.arange(*span) for span in drawn[1]])  # each token is a word
    assert sorted(masked.input_ids[exchanged]) == sorted(ids[exchanged])
    assert not np.array_equal(masked.input_ids[exchanged], ids[exchanged])
    assert options.record_predictions == 20 == len(masked.positions)
    assert np.array_equal(masked.labels, ids[masked.positions])
    assert (np.diff(masked.positions) > 0).all()
    untouched = np.setdiff1d(np.arange(64), masked.positions)
    assert np.array_equal(masked.input_ids[untouched], ids[untouched])


def test_pieces_are_masked_one_by_one_without_whole_words():
    starts = np.array([True, False, False, False] * 8)
    masker = Masker(MaskingOptions(3, ngram=1, whole_words=False), 4, 100)
    masked = masker.mask(np.arange(10, 42, dtype=np.int32), starts, np.zeros(32, bool), np.random.default_rng(0))
    assert len(masked.positions) == 3


@pytest.mark.parametrize("make, named", [
    (lambda: SegmentOptions(4, 0.1), "max_seq_length=4"),
    (lambda: SegmentOptions(128, 0.1, "order"), "sentence_objective"),
    (lambda: MaskingOptions(0), "max_predictions_per_seq"), (lambda: MaskingOptions(20, 1.5), "masked_lm_prob=1.5")])
def test_options_out_of_range_are_named(make, named):
    with pytest.raises(ValueError, match=named):
        make()
