"""New masks for existing records: the same rules, other masks in each epoch, equal masks for equal example numbers."""

import numpy as np
import pytest
import tensorflow as tf
from synthetic_records import CLS, MASK, SEP, VOCAB_SIZE, example, write_records

from albert_tf.data.records import RecordFile, check_records
from albert_tf.pretraining.dynamic_masking import (
    CHANCES,
    dynamic_masking,
    find_mask_id,
    new_masks,
    options_of_records,
    original_ids,
)
from albert_tf.pretraining.examples import Masker, MaskingOptions

SEQ, PREDICTIONS, ROWS = 64, 9, 400
OPTIONS = MaskingOptions(PREDICTIONS)


@pytest.fixture(scope="module")
def examples():
    """(parsed batch of ROWS examples, their ids before masking, whether a piece starts a word)"""
    rng = np.random.default_rng(0)
    made = [example(rng, SEQ, OPTIONS) for _ in range(ROWS)]
    features = {name: np.stack([features[name] for features, _, _ in made]) for name in made[0][0]}
    batch = {name: tf.constant(values, tf.float32 if values.dtype == np.float32 else tf.int32)
             for name, values in features.items()}
    return batch, np.stack([ids for _, ids, _ in made]), [starts for _, _, starts in made]


@pytest.fixture(scope="module")
def remask():
    return tf.function(dynamic_masking(OPTIONS, MASK, VOCAB_SIZE, seed=7))


@pytest.fixture(scope="module")
def many(examples, remask):
    """The examples with 20 different masks, as numpy arrays."""
    batch = examples[0]
    return [tf.nest.map_structure(np.asarray, remask(batch, tf.range(ROWS, dtype=tf.int64) + ROWS * epoch))
            for epoch in range(20)]


def masked_tokens(batch):
    """bool [rows, seq]"""
    masked = np.zeros(batch["input_ids"].shape, bool)
    rows, columns = np.nonzero(batch["masked_lm_weights"])
    masked[rows, batch["masked_lm_positions"][rows, columns]] = True
    return masked


def test_labels_are_the_original_ids_and_words_are_masked_as_a_whole_at_ascending_positions(examples, many):
    batch, ids, starts_of_rows = examples
    np.testing.assert_array_equal(original_ids(batch), ids)  # the records' own masks are undone
    special = (ids == CLS) | (ids == SEP) | (np.asarray(batch["input_mask"]) == 0)
    for number, again in enumerate(many):
        masked = masked_tokens(again)
        np.testing.assert_array_equal(again["input_ids"][~masked], ids[~masked])
        labels = np.take_along_axis(ids, again["masked_lm_positions"], axis=1) * (again["masked_lm_weights"] > 0)
        np.testing.assert_array_equal(again["masked_lm_ids"], labels)
        np.testing.assert_array_equal(original_ids(again), ids)
        for name in ("input_mask", "segment_ids", "token_boundary", "next_sentence_labels"):
            np.testing.assert_array_equal(again[name], batch[name])
        assert not masked[special].any()
        used = again["masked_lm_weights"].astype(int).sum(axis=1)
        for positions, count in zip(again["masked_lm_positions"], used):
            assert (np.diff(positions[:count]) > 0).all() and not positions[count:].any()
        for row, starts in enumerate(starts_of_rows if number < 5 else ()):
            word, of_row = np.cumsum(starts) - 1, masked[row, : len(starts)]
            assert all(len(set(of_row[word == w])) == 1 for w in set(word[of_row]))


def statistics(batches, starts_of_rows):
    """Shares of the replacements of masked tokens, of rows with the target number, and of runs of masked words."""
    fates, reached, counts, runs = [], [], [], []
    for batch, ids in batches:
        masked = masked_tokens(batch)
        inputs = batch["input_ids"][masked]
        fates.append([(inputs == MASK).mean(), (inputs == ids[masked]).mean()])
        for row, starts in enumerate(starts_of_rows):
            length = len(starts)
            counts.append(masked[row].sum())
            reached.append(masked[row].sum() == OPTIONS.goal(length))
            words = masked[row, :length][starts].astype(int)
            edges = np.flatnonzero(np.diff(words, prepend=0, append=0))
            runs += (edges[1::2] - edges[::2]).tolist()
    runs = np.bincount(runs, minlength=8)[1:8] / len(runs)
    return np.concatenate([np.mean(fates, axis=0), [np.mean(reached), np.mean(counts) / 10], runs])


def test_the_statistics_are_those_of_masking_at_creation(examples, many):
    _, ids, starts_of_rows = examples
    rng = np.random.default_rng(1)
    masker = Masker(OPTIONS, MASK, VOCAB_SIZE)

    def at_creation():
        batch = dict(input_ids=ids.copy(), masked_lm_positions=np.zeros((ROWS, PREDICTIONS), int),
                     masked_lm_weights=np.zeros((ROWS, PREDICTIONS)))
        for row, starts in enumerate(starts_of_rows):
            real = ids[row, : len(starts)]
            masked = masker.mask(real, starts, (real == CLS) | (real == SEP), rng)
            count = len(masked.positions)
            batch["input_ids"][row, : len(starts)] = masked.input_ids
            batch["masked_lm_positions"][row, :count] = masked.positions
            batch["masked_lm_weights"][row, :count] = 1
        return batch

    static = statistics([(at_creation(), ids) for _ in many], starts_of_rows)
    dynamic = statistics([(again, ids) for again in many], starts_of_rows)
    np.testing.assert_allclose(dynamic, static, atol=0.012)


def test_masks_differ_from_epoch_to_epoch_and_not_for_the_same_number(examples, remask, many):
    batch = examples[0]
    np.testing.assert_array_equal(remask(batch, tf.range(ROWS, dtype=tf.int64))["input_ids"], many[0]["input_ids"])
    assert (many[0]["masked_lm_positions"] != many[1]["masked_lm_positions"]).any(axis=1).mean() > 0.99
    part = {name: values[100:108] for name, values in batch.items()}
    again = remask(part, tf.range(100, 108, dtype=tf.int64))
    np.testing.assert_array_equal(again["input_ids"], many[0]["input_ids"][100:108])


def test_an_example_of_one_word_is_masked(remask):
    row = lambda values, length: tf.constant([values + [0] * (length - len(values))])  # noqa: E731
    batch = dict(input_ids=row([CLS, MASK, SEP, SEP], SEQ), input_mask=row([1, 1, 1, 1], SEQ),
                 segment_ids=row([0], SEQ), token_boundary=row([1, 0, 1, 1], SEQ),
                 masked_lm_positions=row([1], PREDICTIONS), masked_lm_ids=row([9], PREDICTIONS),
                 masked_lm_weights=row([1.0], PREDICTIONS), next_sentence_labels=row([0], 1))
    again = remask(batch, tf.constant([5], tf.int64))
    assert again["masked_lm_positions"][0, 0] == 1 and again["masked_lm_ids"][0, 0] == 9
    assert tf.reduce_sum(again["masked_lm_weights"]) == 1


@pytest.mark.parametrize("share", [0.3, 0.15, 0.01])
def test_each_example_has_its_share_of_masked_tokens(examples, share):
    batch, _, starts_of_rows = examples
    wide = dict(batch, **{f"masked_lm_{name}": tf.pad(batch[f"masked_lm_{name}"], [[0, 0], [0, 10]])
                          for name in ("positions", "ids", "weights")})
    single = MaskingOptions(19, masked_lm_prob=share, ngram=1, whole_words=False)
    again = tf.function(dynamic_masking(single, MASK, VOCAB_SIZE, seed=7))(wide, tf.range(ROWS, dtype=tf.int64))
    goals = np.clip(np.round(np.array([len(starts) for starts in starts_of_rows]) * share), 1, 19)
    np.testing.assert_array_equal(tf.reduce_sum(again["masked_lm_weights"], axis=1), goals)


def test_a_step_that_xla_compiles_as_a_whole_can_draw_new_masks(examples):
    chance = tf.random.stateless_uniform([ROWS, CHANCES, SEQ], [1, 2])
    draw = lambda chance: new_masks(examples[0], chance, OPTIONS, MASK, VOCAB_SIZE)  # noqa: E731
    compiled, plain = tf.function(draw, jit_compile=True), tf.function(draw)
    tf.nest.map_structure(np.testing.assert_array_equal, compiled(chance), plain(chance))


def test_the_id_of_mask_and_the_options_are_those_of_the_records(tmp_path):
    files = check_records([write_records(tmp_path / "x.tfrecord", ngram=1, whole_words=False, masked_lm_prob=0.3)])
    assert find_mask_id(files, 16, 3) == MASK
    assert options_of_records(files, 3) == MaskingOptions(3, masked_lm_prob=0.3, ngram=1, whole_words=False)


def test_records_without_options_are_masked_as_the_other_records_and_a_warning_says_so(caplog):
    described, unknown = RecordFile("b.tfrecord", 1, dict(ngram=1, masked_lm_prob=0.3)), RecordFile("a.tfrecord", 1, {})
    options = options_of_records([unknown, described], 3)
    assert options == MaskingOptions(3, masked_lm_prob=0.3, ngram=1)
    assert "such as a.tfrecord" in caplog.text
    caplog.clear()
    assert options_of_records([described, RecordFile("c.tfrecord", 1, described.made_from)], 3) == options
    assert options_of_records([unknown], 3) == MaskingOptions(3) and not caplog.text
    with pytest.raises(ValueError, match="d.tfrecord and b.tfrecord"):
        options_of_records([RecordFile("d.tfrecord", 1, dict(ngram=3)), described], 3)
