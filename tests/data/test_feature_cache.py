"""Features as records: their content, and when they are made again."""

import numpy as np
import pytest
import tensorflow as tf
from feature_tables import MAX_SEQ_LENGTH, features

from albert_tf.data.feature_table import TOKENS, FeatureSchema, cache_path, cached_table, fingerprint

SCHEMA = FeatureSchema(MAX_SEQ_LENGTH, dict(label_ids=tf.int32))


class Maker:
    """Makes features and counts its calls."""

    def __init__(self, **arguments):
        self.calls, self._arguments = 0, arguments

    def __call__(self):
        self.calls += 1
        return features(5, **self._arguments)


def test_features_are_made_once_and_again_if_their_inputs_change_or_they_are_damaged(tmp_path):
    path, make = tmp_path / "x.tfrecord", Maker()
    for file, calls in (("a", 1), ("a", 1), ("b", 2)):
        assert len(cached_table(str(path), dict(file=file), SCHEMA, make)) == 5 and make.calls == calls
    path.write_bytes(path.read_bytes()[:-100])
    assert len(cached_table(str(path), dict(file="b"), SCHEMA, make)) == 5 and make.calls == 3
    shorter = Maker(max_seq_length=20)
    assert cached_table(str(path), dict(file="b"), FeatureSchema(20, SCHEMA.scalars), shorter).lengths.max() <= 20


@pytest.mark.parametrize("damage", [
    lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],  # the disk has changed a bit
    lambda content: bytes(len(content)),  # a power cut has left zeros
    lambda content: content[1:] + content[:1]])
def test_features_that_were_damaged_in_their_place_are_made_again(tmp_path, caplog, damage):
    path, make = tmp_path / "x.tfrecord", Maker()
    expected = cached_table(str(path), {}, SCHEMA, make).digest()
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert cached_table(str(path), {}, SCHEMA, make).digest() == expected and make.calls == 2
    assert path.read_bytes() == content and "Making it again" in caplog.text
    # Without a manifest they may be someone else's.
    (tmp_path / "x.manifest.json").unlink()
    path.write_bytes(bytes(len(content)))
    with pytest.raises(ValueError, match="x.tfrecord was truncated or changed"):
        cached_table(str(path), {}, SCHEMA, make)
    assert make.calls == 2


def test_records_without_a_manifest_are_taken_as_they_are_if_their_length_is_the_same(tmp_path):
    path, make = tmp_path / "x.tfrecord", Maker()
    cached_table(str(path), {}, SCHEMA, make)
    (tmp_path / "x.manifest.json").unlink()
    assert len(cached_table(str(path), dict(file="other"), SCHEMA, make)) == 5 and make.calls == 1
    with pytest.raises(ValueError, match="max_seq_length 20"):
        cached_table(str(path), {}, FeatureSchema(20, SCHEMA.scalars), make)
    with pytest.raises(ValueError, match="none.tfrecord"):
        cached_table(str(tmp_path / "none.tfrecord"), {}, SCHEMA, lambda: iter(()))


def test_paths_differ_by_all_that_features_depend_on(tmp_path):
    paths = {cache_path("d", "x", made_from, schema) for made_from, schema in [
        (dict(a=1), SCHEMA), (dict(a=2), SCHEMA), (dict(a=1), FeatureSchema(20, SCHEMA.scalars)),
        (dict(a=1), FeatureSchema(MAX_SEQ_LENGTH, dict(label_ids=tf.float32, unique_id=tf.int32)))]}
    assert len(paths) == 4
    (tmp_path / "a").write_text("x"), (tmp_path / "b").write_text("y"), (tmp_path / "c").write_text("x")
    a, b, c = (fingerprint(str(tmp_path / name)) for name in "abc")
    assert a == c != b


def test_scores_and_other_token_features_come_back_with_their_padding(tmp_path):
    schema = FeatureSchema(MAX_SEQ_LENGTH, dict(label_ids=tf.float32, unique_id=tf.int32), dict(TOKENS, p_mask=1))
    rows = [dict(row, label_ids=0.25 + i, unique_id=1_000_000_000 + i,
                 p_mask=[i % 2] * sum(row["input_mask"]) + [1] * (MAX_SEQ_LENGTH - sum(row["input_mask"])))
            for i, row in enumerate(features(5))]
    read = cached_table(str(tmp_path / "x.tfrecord"), {}, schema, lambda: rows)
    batch = read.batch(tf.constant([3, 0], tf.int64), tf.constant(MAX_SEQ_LENGTH))
    assert batch["label_ids"].numpy().tolist() == [3.25, 0.25] and batch["label_ids"].dtype == tf.float32
    assert batch["unique_id"].numpy().tolist() == [1_000_000_003, 1_000_000_000]
    assert batch["p_mask"].numpy().tolist() == [rows[3]["p_mask"], rows[0]["p_mask"]]


def test_choices_are_concatenated_in_the_record_and_stacked_in_the_batch(tmp_path):
    schema = FeatureSchema(MAX_SEQ_LENGTH, dict(label_ids=tf.int32), num_choices=2)
    pairs = list(zip(features(6, seed=1), features(6, seed=2)))
    rows = [dict({name: [a[name], b[name]] for name in ("input_ids", "input_mask", "segment_ids")}, label_ids=i)
            for i, (a, b) in enumerate(pairs)]
    path = str(tmp_path / "x.tfrecord")
    read = cached_table(path, {}, schema, lambda: rows)
    record = tf.train.Example.FromString(next(iter(tf.data.TFRecordDataset(path))).numpy()).features.feature
    assert list(record["input_ids"].int64_list.value) == rows[0]["input_ids"][0] + rows[0]["input_ids"][1]
    assert read.lengths.tolist() == [max(sum(row["input_mask"][0]), sum(row["input_mask"][1])) for row in rows]
    batch = read.batch(tf.constant([4, 1], tf.int64), tf.constant(MAX_SEQ_LENGTH))
    assert batch["input_ids"].shape == (2, 2, MAX_SEQ_LENGTH) and batch["label_ids"].numpy().tolist() == [4, 1]
    for name in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(batch[name], [rows[4][name], rows[1][name]])
