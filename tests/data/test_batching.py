"""Batches of features: the examples of each step, and their padding."""


import functools

import numpy as np
import pytest
import tensorflow as tf
from feature_tables import MAX_SEQ_LENGTH, features, table

from albert_tf.data.batching import (
    WINDOW,
    bucket_lengths,
    evaluation_rows,
    lengths_of_run,
    padded_lengths,
    table_batches,
    training_rows,
)
from albert_tf.data.feature_table import FeatureSchema, FeatureTable, cached_table
from albert_tf.text.packing import PairPacker, WindowOptions, WindowPacker

ALONE = tf.distribute.InputContext()
COUNT, BATCH = 67, 4


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return table(tmp_path_factory.mktemp("table"), COUNT)


def taken(dataset, count):
    return [{name: values.numpy() for name, values in batch.items()} for batch in dataset.take(count)]


def training(examples, count, first_step=0, seed=1, buckets=bucket_lengths(MAX_SEQ_LENGTH), context=ALONE, **grouping):
    rows = training_rows(examples, BATCH, first_step + count // context.num_replicas_in_sync, seed, **grouping)
    return taken(table_batches(examples, rows[first_step:], buckets, context), count)


def test_buckets_end_with_the_longest_length_and_padding_to_it_is_one_bucket():
    assert bucket_lengths(64) == (8, 16, 24, 32, 48, 64)
    assert bucket_lengths(50) == (8, 16, 24, 32, 48, 50)
    assert bucket_lengths(512)[-1] == 512 and bucket_lengths(512, pad_to_max_length=True) == (512,)


def test_each_batch_has_the_smallest_bucket_that_holds_it(examples):
    buckets = bucket_lengths(MAX_SEQ_LENGTH)
    for batch in training(examples, 30):
        longest = batch["input_mask"].sum(axis=1).max()
        assert batch["input_ids"].shape == (BATCH, min(bucket for bucket in buckets if bucket >= longest))
    rows = training_rows(examples, BATCH, 30, 1)
    assert padded_lengths(examples, rows, buckets) == [batch["input_ids"].shape[1] for batch in training(examples, 30)]


def test_a_length_of_fewer_than_10_steps_is_padded_to_the_next_longer_one(examples):
    buckets = bucket_lengths(MAX_SEQ_LENGTH)
    for steps in (1, 20, 60):
        rows = training_rows(examples, BATCH, steps, 1)
        lengths = lengths_of_run(examples, rows, buckets)
        before, after = (padded_lengths(examples, rows, each) for each in (buckets, lengths))
        assert set(lengths) <= set(buckets) and max(after) == max(before)
        assert all(old <= new for old, new in zip(before, after, strict=True))
        assert all(after.count(length) >= 10 for length in lengths[:-1])
    assert len(lengths_of_run(examples, training_rows(examples, BATCH, 9, 1), buckets)) == 1
    many = training_rows(examples, BATCH, 2_000, 1)
    assert lengths_of_run(examples, many, buckets) == tuple(sorted(set(padded_lengths(examples, many, buckets))))


def test_padding_changes_nothing_but_the_padding(examples):
    """Each step has the same examples, with the values that the records were made from."""
    known = {tuple(row["input_ids"]): row for row in features(COUNT)}
    padded = training(examples, 2 * WINDOW, buckets=bucket_lengths(MAX_SEQ_LENGTH, pad_to_max_length=True))
    for short, long in zip(training(examples, 2 * WINDOW), padded):
        assert long["input_ids"].shape == (BATCH, MAX_SEQ_LENGTH)
        for i in range(BATCH):
            row = known[tuple(long["input_ids"][i])]
            assert short["label_ids"][i] == long["label_ids"][i] == row["label_ids"]
            for name in ("input_ids", "input_mask", "segment_ids"):
                assert list(long[name][i]) == row[name]
                assert list(short[name][i]) == row[name][: short[name].shape[1]]


def table_of(count, seed=0):
    """A table without records, with lengths like those of sentences, most of them short."""
    lengths = np.random.default_rng(seed).geometric(0.15, count).clip(1, MAX_SEQ_LENGTH)
    ids = tf.RaggedTensor.from_row_lengths(np.arange(lengths.sum(), dtype=np.int32), lengths)
    return FeatureTable(FeatureSchema(MAX_SEQ_LENGTH, {}, dict(input_ids=0)), dict(input_ids=ids), {})


@pytest.mark.parametrize("count, batch_size", [(20, 8), (20, 16), (20, 32), (100, 32), (635, 8), (2490, 32)])
def test_a_batch_has_no_example_twice_and_all_are_taken_equally_often(count, batch_size):
    """With fewer examples than batch_size: each of them floor or ceil of batch_size / count times."""
    counts = np.zeros(count, int)
    for batch in training_rows(table_of(count), batch_size, 2 * count // batch_size + 10, seed=1):
        in_batch = np.bincount(batch, minlength=count)
        assert in_batch.min() >= batch_size // count and in_batch.max() <= -(-batch_size // count)
        counts += in_batch
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("group_by_length", [True, False])
@pytest.mark.parametrize("count, batch_size, steps", [(20, 32, 3), (20, 16, 5), (635, 32, 21), (640, 32, 20)])
def test_more_steps_do_not_change_the_earlier_ones_nor_lengths_the_order_without_grouping(
        count, batch_size, steps, group_by_length):
    fewer, more, other = (training_rows(table_of(count, seed), batch_size, num_steps, 1, group_by_length)
                          for num_steps, seed in ((steps, 0), (3 * steps, 0), (steps, 1)))
    np.testing.assert_array_equal(fewer, more[:steps])
    assert np.array_equal(fewer, other) is not group_by_length


def test_the_order_is_the_same_with_every_version_of_numpy():
    """A run that was begun with one environment continues with the other."""
    rows = training_rows(table_of(10), 4, 4, seed=1)
    assert rows.tolist() == [[2, 6, 7, 0], [1, 5, 8, 9], [3, 4, 2, 0], [1, 5, 8, 9]]


@pytest.mark.parametrize("batch_size, warns", [(840, False), (5000, True)])
def test_a_batch_that_is_larger_than_the_set_brings_a_warning(caplog, batch_size, warns):
    training_rows(table_of(840), batch_size, 1, seed=1)
    expected = ["a batch of 5,000 examples repeats the training set of 840: a smaller --train_batch_size takes less "
                "time and memory"]
    assert caplog.messages == (expected if warns else [])


def test_the_batch_in_which_an_epoch_ends_is_of_about_one_length_too():
    examples, batch_size = table_of(635), 32
    batches = training_rows(examples, batch_size, 20 * 635 // batch_size, seed=1)
    ends = [epoch * 635 // batch_size for epoch in range(1, 20) if epoch * 635 % batch_size]
    ranges = np.ptp(examples.lengths[batches], axis=1)
    assert ranges[ends].mean() < 8 and ranges.mean() < 4  # of 32 random ones: about 25


@pytest.mark.parametrize("first_step", [1, WINDOW - 1, WINDOW, 2 * WINDOW + 7])
def test_the_order_is_a_function_of_seed_and_step(examples, first_step):
    whole = training(examples, first_step + 5)[first_step:]
    resumed = training(examples, 5, first_step=first_step)
    assert all(np.array_equal(a[name], b[name]) for a, b in zip(whole, resumed) for name in a)
    other_seed = training(examples, 5, first_step, seed=2)
    assert any(not np.array_equal(a["example"], b["example"]) for a, b in zip(whole, other_seed))


def test_replicas_share_a_batch_its_bucket_and_its_number_of_windows(examples, windowed):
    two = tf.distribute.InputContext(num_input_pipelines=1, num_replicas_in_sync=2)
    of_windows = functools.partial(training, windowed[0], buckets=bucket_lengths(10))
    whole = [*training(examples, 6), *of_windows(20)]
    parts = [*training(examples, 12, context=two), *of_windows(40, context=two)]
    for batch, left, right in zip(whole, parts[::2], parts[1::2]):
        for name in batch:
            assert np.array_equal(batch[name], np.concatenate([left[name], right[name]]))


def test_evaluation_takes_every_example_once_and_fills_the_last_batch(examples):
    batches = list(table_batches(examples, evaluation_rows(examples, BATCH), bucket_lengths(MAX_SEQ_LENGTH), ALONE))
    rows = np.concatenate([batch["example"] for batch in batches])
    assert len(batches) == 17 and sorted(rows) == [-1, *range(COUNT)]
    lengths = [batch["input_ids"].shape[1] for batch in batches]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


@pytest.fixture(scope="module")
def windowed(sentence_pieces, tmp_path_factory):
    """Texts of 3 to 60 pieces in up to 6 windows of 10 tokens; the label is the number of the text."""
    packer = WindowPacker(PairPacker(sentence_pieces, 10, pad=False), WindowOptions(6))
    schema = FeatureSchema(10, dict(label_ids=tf.int32), num_choices=6, are_windows=True)
    rows = [dict(packer.pack(range(20, 23 + length)), label_ids=length) for length in range(58)]
    return cached_table(str(tmp_path_factory.mktemp("windows") / "x.tfrecord"), {}, schema, lambda: rows), rows


def test_a_batch_has_only_as_many_windows_as_its_longest_text(windowed):
    table, rows = windowed
    assert table.num_sequences.tolist() == [sum(map(bool, row["input_ids"])) for row in rows]
    shapes = set()
    for batch in table_batches(table, training_rows(table, 4, 40, seed=1), bucket_lengths(10), ALONE):
        most = max(table.num_sequences[label] for label in batch["label_ids"].numpy())
        windows, length = batch["input_ids"].shape[1:]
        assert windows == next(count for count in (1, 2, 4, 6) if count >= most)
        shapes.add((windows, length))
        for label, ids, mask in zip(*(batch[name].numpy() for name in ("label_ids", "input_ids", "input_mask"))):
            for window in range(windows):
                row = rows[label]["input_ids"][window]
                assert ids[window, : len(row)].tolist() == row and mask[window].sum() == len(row)
    assert {(1, 8), (6, 10)} <= shapes
    evaluated = table_batches(table, evaluation_rows(table, 4), bucket_lengths(10), ALONE)
    assert sorted(number for batch in evaluated for number in batch["example"].numpy() if number >= 0) == [*range(58)]
