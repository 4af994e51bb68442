"""Batches of features: which examples a step gets, and how they are padded."""

import numpy as np
import pytest
import tensorflow as tf
from feature_tables import MAX_SEQ_LENGTH, features, table

from albert_tf.data.length_buckets import WINDOW, bucket_lengths, evaluation_batches, training_batches

ALONE = tf.distribute.InputContext()
COUNT, BATCH = 67, 4


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return table(tmp_path_factory.mktemp("table"), COUNT)


def taken(dataset, count):
    return [{name: values.numpy() for name, values in batch.items()} for batch in dataset.take(count)]


def training(examples, count, first_step=0, seed=1, buckets=bucket_lengths(MAX_SEQ_LENGTH), context=ALONE):
    return taken(training_batches(examples, BATCH, buckets, seed, first_step, context), count)


def test_buckets_end_with_the_longest_length_and_padding_to_it_is_one_bucket():
    assert bucket_lengths(64) == (8, 16, 24, 32, 48, 64)
    assert bucket_lengths(50) == (8, 16, 24, 32, 48, 50)
    assert bucket_lengths(512)[-1] == 512 and bucket_lengths(512, pad_to_max_length=True) == (512,)


def test_each_batch_has_the_smallest_bucket_that_holds_it(examples):
    buckets = bucket_lengths(MAX_SEQ_LENGTH)
    for batch in training(examples, 30):
        longest = batch["input_mask"].sum(axis=1).max()
        assert batch["input_ids"].shape == (BATCH, min(bucket for bucket in buckets if bucket >= longest))


def test_padding_changes_nothing_but_the_padding(examples):
    """The same examples at each step, whose values are those that the records were made of."""
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


def test_examples_of_one_length_come_together(examples):
    spread = [np.ptp(batch["input_mask"].sum(axis=1)) for batch in training(examples, WINDOW)]
    assert np.mean(spread) < 2  # of four random ones: about 20


def test_every_epoch_has_every_example_once_in_another_order(examples):
    """Windows are cut from epochs laid end to end, so over whole windows counts differ by one at most."""
    rows = [row for batch in training(examples, 4 * WINDOW) for row in batch["example"]]
    counts = np.bincount(rows, minlength=COUNT)
    assert counts.sum() == 4 * WINDOW * BATCH and counts.max() - counts.min() <= 1
    first, second = rows[: WINDOW * BATCH], rows[WINDOW * BATCH : 2 * WINDOW * BATCH]
    assert first != second


@pytest.mark.parametrize("first_step", [1, WINDOW - 1, WINDOW, 2 * WINDOW + 7])
def test_the_order_is_a_function_of_seed_and_step(examples, first_step):
    whole = training(examples, first_step + 5)[first_step:]
    resumed = training(examples, 5, first_step=first_step)
    assert all(np.array_equal(a[name], b[name]) for a, b in zip(whole, resumed) for name in a)
    other_seed = training(examples, 5, first_step, seed=2)
    assert any(not np.array_equal(a["example"], b["example"]) for a, b in zip(whole, other_seed))


def test_replicas_share_a_batch_and_its_bucket(examples):
    whole = training(examples, 6)
    two = tf.distribute.InputContext(num_input_pipelines=1, num_replicas_in_sync=2)
    parts = training(examples, 12, context=two)
    for batch, left, right in zip(whole, parts[::2], parts[1::2]):
        for name in batch:
            assert np.array_equal(batch[name], np.concatenate([left[name], right[name]]))


def test_evaluation_takes_every_example_once_and_fills_the_last_batch(examples):
    batches = list(evaluation_batches(examples, BATCH, bucket_lengths(MAX_SEQ_LENGTH), ALONE))
    rows = np.concatenate([batch["example"] for batch in batches])
    assert len(batches) == 17 and sorted(rows) == [-1, *range(COUNT)]
    lengths = [batch["input_ids"].shape[1] for batch in batches]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]
