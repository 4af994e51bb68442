"""Records with their manifests, and the tf.Examples in them."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from feature_tables import MAX_SEQ_LENGTH, features

from albert_tf.data.feature_table import TOKENS, FeatureSchema
from albert_tf.data.records import (
    check_records,
    example,
    float_feature,
    int64_feature,
    pretraining_features,
    record_writer,
    serialize,
    varints,
)
from albert_tf.utils.manifests import output_set, shard_paths


def write(path, records=(b"one", b"two"), **made_from):
    with record_writer(str(path), made_from) as writer:
        for record in records:
            writer.write(record)


def test_a_damaged_file_or_manifest_is_refused_and_the_releases_records_without_a_manifest_are_taken(tmp_path):
    path, manifest = tmp_path / "x.tfrecord", tmp_path / "x.manifest.json"
    write(path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"x.tfrecord has {len(damaged)} bytes but its manifest says {len(whole)}"):
            check_records([str(path)])
    path.write_bytes(whole)
    manifest.write_text("[]")
    with pytest.raises(ValueError, match="x.manifest.json"):
        check_records([str(path)])
    manifest.unlink()
    file, = check_records([str(path)])
    assert (file.count, file.made_from) == (None, {})
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="x.tfrecord is empty"):
        check_records([str(path)])


def write_set(folder, outputs, seed):
    """Writes files that one command makes: the shards of each output by its name."""
    paths = {str(folder / output): shard_paths(str(folder / output), shards) for output, shards in outputs.items()}
    with output_set(paths) as written:
        for file in written.temporary:
            with tf.io.TFRecordWriter(written.temporary[file]) as writer:
                writer.write(b"%d" % seed)
            written.counts[file] = 1
        written.made_from = dict(seed=seed)
    return list(written.temporary)


def test_shards_of_which_one_is_missing_or_left_of_an_earlier_run_are_refused(tmp_path):
    files = write_set(tmp_path, {"x.tfrecord": 2}, 1)
    assert [(file.count, file.made_from) for file in check_records(files)] == [(1, dict(seed=1))] * 2
    assert len(check_records(files[:1])) == 1
    shutil.copy(files[0], tmp_path / "x-00000-of-00003.tfrecord")
    with pytest.raises(ValueError, match="x.manifest.json does not list .*/x-00000-of-00003.tfrecord"):
        check_records([*files, str(tmp_path / "x-00000-of-00003.tfrecord")])
    os.remove(files[1])
    with pytest.raises(ValueError, match="x-00001-of-00002.tfrecord is missing, which .*x.manifest.json lists"):
        check_records(files[:1])


def test_files_that_were_written_together_are_refused_if_they_are_of_two_runs(tmp_path):
    files = write_set(tmp_path, {"a.tfrecord": 1, "b/b.tfrecord": 1}, 1)
    assert len(check_records(files)) == 2
    write_set(tmp_path, {"b/b.tfrecord": 1}, 2)
    with pytest.raises(ValueError, match="a.manifest.json and .*/b/b.manifest.json were written together, but are now"):
        check_records(files)
    assert check_records(files[1:])[0].made_from == dict(seed=2)
    write_set(tmp_path, {"a.tfrecord": 1}, 3)
    assert len(check_records(files)) == 2  # two runs that each wrote one file


def test_the_features_are_the_releases():
    shapes = {name: feature.shape for name, feature in pretraining_features(128, 20).items()}
    assert shapes == dict(input_ids=[128], input_mask=[128], segment_ids=[128], token_boundary=[128],
                          masked_lm_positions=[20], masked_lm_ids=[20], masked_lm_weights=[20],
                          next_sentence_labels=[1])


def message(**features) -> bytes:
    """The bytes of the protobuf message."""
    record = tf.train.Example()
    for name, values in features.items():
        kind = "float_list" if isinstance(values[0], float) else "int64_list"
        getattr(record.features.feature[name], kind).value.extend(values)
    return record.SerializeToString(deterministic=True)


def test_numbers_of_any_size_are_written_as_protobuf_writes_them():
    values = [0, 1, 127, 128, 16383, 16384, 65535, 65536, 2**31, 2**63 - 1, -1, -(2**63)]
    assert example(dict(x=int64_feature(varints(values)))) == message(x=values)
    assert example(dict(x=int64_feature(varints(np.array(values))))) == message(x=values)


def test_lists_and_arrays_become_features_of_their_type_in_the_order_of_their_names():
    ours = example(dict(b=float_feature([0.5, -3.1]), a=int64_feature(varints([7] * 300))))
    assert ours == message(a=[7] * 300, b=[0.5, -3.1])
    ours = serialize(ids=np.array([3, -1], np.int32), weights=np.array([0.25, 1], np.float32), labels=[1], scores=[0.5])
    assert ours == message(ids=[3, -1], weights=[0.25, 1.0], labels=[1], scores=[0.5])


def test_a_schemas_record_is_the_message_of_its_padded_features_however_they_come():
    schema = FeatureSchema(MAX_SEQ_LENGTH, dict(label_ids=tf.float32, unique_id=tf.int32), dict(TOKENS, p_mask=1))
    for row in features(5):
        count = sum(row["input_mask"])
        p_mask = [0, 1] * MAX_SEQ_LENGTH
        row = dict(row, p_mask=p_mask[:count] + [1] * (MAX_SEQ_LENGTH - count), label_ids=2.75, unique_id=10**9)
        expected = message(**{name: value if isinstance(value, list) else [value] for name, value in row.items()})
        tokens = [name for name, value in row.items() if isinstance(value, list)]
        arrays, unpadded = {name: np.array(row[name]) for name in tokens}, {name: row[name][:count] for name in tokens}
        for given in ({}, arrays, unpadded):
            assert schema.serialize(dict(row, **given)) == expected
