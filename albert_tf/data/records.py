"""TFRecord files with a manifest beside them, and the release's record features.

A TFRecord file that was cut between two records reads as a shorter one without an error. So a file here is written
under a temporary name and renamed when whole, and x.manifest.json beside x.tfrecord says how many records and bytes
there are and what they were made from. Files without a manifest (the release's) are taken, with one warning.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Iterator

import tensorflow as tf
from absl import logging

from albert_tf.files import check_is_file
from albert_tf.json_files import read_json_object
from albert_tf.manifests import manifest_path, written_with_manifest

# A TFRecord has a length of 8 bytes and two checksums of 4, beside its content.
_SMALLEST_RECORD = 16


class CountingWriter:
    """Writes serialized records and counts them."""

    def __init__(self, writer: tf.io.TFRecordWriter):
        self._writer, self.count = writer, 0

    def write(self, record: bytes) -> None:
        """Adds a serialized record."""
        self._writer.write(record)
        self.count += 1


@contextlib.contextmanager
def record_writer(path: str, made_from: dict) -> Iterator[CountingWriter]:
    """Gives a writer of the records of `path`. File and manifest appear when the block ends without an error.

    Args:
      path: the file to be.
      made_from: what a reader may want to know: sequence length, objective, source. JSON values.

    Raises:
      ValueError: there is another file at `path`, see check_output.

    Example:
      with record_writer("x.tfrecord", dict(max_seq_length=128)) as writer:
          writer.write(example.SerializeToString())
    """
    with written_with_manifest(path, made_from) as (temporary, manifest):
        with tf.io.TFRecordWriter(temporary) as writer:
            counting = CountingWriter(writer)
            yield counting
        manifest["count"] = counting.count


@contextlib.contextmanager
def all_or_none(paths: list[str]) -> Iterator[None]:
    """Removes files and manifests when the block that writes them ends with an error: a part is no data set."""
    try:
        yield
    except BaseException:
        for path in [*paths, *map(manifest_path, paths)]:
            if tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path):
                tf.io.gfile.remove(path)
        raise


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """A TFRecord file that has been checked: count is None, and made_from empty, where it has no manifest."""

    path: str
    count: int | None
    made_from: dict


@dataclasses.dataclass(frozen=True)
class CountedFile(RecordFile):
    """A RecordFile whose count is known."""

    count: int


def check_records(paths: list[str]) -> list[RecordFile]:
    """Compares each file with its manifest.

    Raises:
      ValueError: a file is empty, has another size than its manifest says, or its manifest cannot be read.
    """
    files = [_check(path) for path in paths]
    without = [file.path for file in files if file.count is None]
    if without:
        logging.warning("%d record file(s) without a manifest, such as %s: a cut file would not be noticed",
                        len(without), without[0])
    return files


def _check(path: str) -> RecordFile:
    check_is_file(path)
    size = tf.io.gfile.stat(path).length
    if size == 0:
        raise ValueError(f"{path} is empty: there are no records in it")
    beside = manifest_path(path)
    if not tf.io.gfile.exists(beside):
        return RecordFile(path, None, {})
    count, expected, made_from = _manifest(beside)
    if size != expected:
        raise ValueError(f"{path} has {size:,} bytes and its manifest says {expected:,}: it was cut or changed; "
                         "make it anew")
    return RecordFile(path, count, made_from)


def _manifest(path: str) -> tuple[int, int, dict]:
    try:
        manifest = read_json_object(path)
    except ValueError as error:
        raise ValueError(f"{error}; make the records anew") from error
    count, size, made_from = (manifest.get(key, -1) for key in ("count", "size", "made_from"))  # -1: refused below
    are_numbers = all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in (count, size))
    if not are_numbers or not isinstance(made_from, dict):
        raise ValueError(f"{path} is no manifest of records: 'count' and 'size' must be whole numbers, and 'made_from' "
                         "an object; make the records anew")
    if count * _SMALLEST_RECORD > size:
        raise ValueError(f"{path} says that {size:,} bytes hold {count:,} records, and a record has at least "
                         f"{_SMALLEST_RECORD} bytes: make the records anew")
    return count, size, made_from


def shard_paths(path: str, num_shards: int) -> list[str]:
    """x.tfrecord -> x-00000-of-00008.tfrecord, ...; one shard is the path itself."""
    if num_shards == 1:
        return [path]
    stem, ending = os.path.splitext(path)
    return [f"{stem}-{shard:05d}-of-{num_shards:05d}{ending}" for shard in range(num_shards)]


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, tf.io.FixedLenFeature]:
    """The features of a pre-training record (release: create_pretraining_data.py), for tf.io.parse_example.

    next_sentence_labels holds the sentence-order label: 1 where the segments are swapped.
    """
    tokens = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    predictions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    return dict(
        input_ids=tokens,
        input_mask=tokens,
        segment_ids=tokens,
        token_boundary=tokens,
        masked_lm_positions=predictions,
        masked_lm_ids=predictions,
        masked_lm_weights=tf.io.FixedLenFeature([max_predictions_per_seq], tf.float32),
        next_sentence_labels=tf.io.FixedLenFeature([1], tf.int64),
    )
