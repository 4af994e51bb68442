"""Tables and batches of examples with several windows."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.batching import bucket_lengths, evaluation_rows, table_batches, training_rows
from albert_tf.data.feature_table import FeatureSchema, cached_table
from albert_tf.text.packing import PairPacker, WindowOptions, WindowPacker

ALONE = tf.distribute.InputContext()
NAMES = ("input_ids", "input_mask", "segment_ids")


@pytest.fixture(scope="module")
def table(sentence_pieces, tmp_path_factory):
    """Texts of 3 to 60 pieces in up to 6 windows of 10 tokens; the label is the number of the text."""
    packer = WindowPacker(PairPacker(sentence_pieces, 10, pad=False), WindowOptions(6))
    schema = FeatureSchema(10, dict(label_ids=tf.int32), num_choices=6, are_windows=True)
    rows = [dict(packer.pack(range(20, 23 + length)), label_ids=length) for length in range(58)]
    return cached_table(str(tmp_path_factory.mktemp("windows") / "x.tfrecord"), {}, schema, lambda: rows), rows


def test_a_batch_has_only_as_many_windows_as_its_longest_text(table):
    table, rows = table
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


def test_both_replicas_have_the_windows_of_the_whole_batch(table):
    table, _ = table
    pair = tf.distribute.InputContext(num_replicas_in_sync=2)
    rows = training_rows(table, 4, 20, seed=1)
    alone, shared = (table_batches(table, rows, bucket_lengths(10), context) for context in (ALONE, pair))
    halves = [batch["input_ids"].numpy() for batch in shared]
    for whole, first, second in zip(alone, halves[::2], halves[1::2]):
        np.testing.assert_array_equal(whole["input_ids"], np.concatenate([first, second]))


def test_short_texts_have_the_order_that_they_have_without_windows(sentence_pieces, tmp_path):
    def batches(options, schema):
        packer = WindowPacker(PairPacker(sentence_pieces, 10, pad=False), options)
        rows = [dict(packer.pack(range(20, 20 + i % 9)), label_ids=i) for i in range(40)]
        table = cached_table(str(tmp_path / f"{options.max_windows}.tfrecord"), {}, schema, lambda: rows)
        return table_batches(table, training_rows(table, 4, 20, seed=3), bucket_lengths(10), ALONE)

    scalars = dict(label_ids=tf.int32)
    windowed = batches(WindowOptions(4), FeatureSchema(10, scalars, num_choices=4, are_windows=True))
    for cut, windows in zip(batches(WindowOptions(), FeatureSchema(10, scalars)), windowed):
        assert cut["label_ids"].numpy().tolist() == windows["label_ids"].numpy().tolist()
        for name in NAMES:
            np.testing.assert_array_equal(cut[name], windows[name][:, 0])
