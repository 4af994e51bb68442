"""Record files, which are complete or do not exist, and their manifests."""

import json
import os
import shutil

import pytest
import tensorflow as tf

from albert_tf.data.records import check_records, pretraining_features, record_writer
from albert_tf.utils.outputs import output_set, shard_paths


def write(path, records=(b"one", b"two"), **made_from):
    with record_writer(str(path), made_from) as writer:
        for record in records:
            writer.write(record)


def test_records_and_their_manifest_appear_together(tmp_path):
    path = tmp_path / "x.tfrecord"
    write(path, objective="sop")
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == [b"one", b"two"]
    manifest = json.loads((tmp_path / "x.manifest.json").read_text())
    assert manifest == dict(complete=True, made_from=dict(objective="sop"),
                            files={"x.tfrecord": dict(count=2, size=path.stat().st_size)})
    file, = check_records([str(path)])
    assert (file.path, file.count, file.made_from) == (str(path), 2, dict(objective="sop"))


def test_an_error_leaves_nothing_behind_and_the_old_file_in_place(tmp_path):
    path = tmp_path / "x.tfrecord"
    write(path)
    before = path.read_bytes()
    with pytest.raises(OSError, match="full"), record_writer(str(path), {}) as writer:
        writer.write(b"new")
        raise OSError("the disk is full")
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.manifest.json", "x.tfrecord"]


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda content: content + b"x"])
def test_a_file_that_was_cut_or_has_grown_is_refused(tmp_path, damage):
    path = tmp_path / "x.tfrecord"
    write(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"x.tfrecord has .* bytes but its manifest says .*: it was truncated or"):
        check_records([str(path)])


def test_the_releases_records_without_a_manifest_are_taken(tmp_path):
    path = tmp_path / "x.tfrecord"
    write(path)
    (tmp_path / "x.manifest.json").unlink()
    file, = check_records([str(path)])
    assert (file.count, file.made_from) == (None, {})


def test_an_empty_file_and_a_manifest_that_is_none_are_refused(tmp_path):
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    with pytest.raises(ValueError, match="empty.tfrecord is empty"):
        check_records([str(tmp_path / "empty.tfrecord")])
    write(tmp_path / "x.tfrecord")
    (tmp_path / "x.manifest.json").write_text("[]")
    with pytest.raises(ValueError, match="x.manifest.json: expected a JSON object"):
        check_records([str(tmp_path / "x.tfrecord")])


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
    with pytest.raises(ValueError, match="x.manifest.json does not list .*/x-00000-of-00003.tfrecord, which is of an"):
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
