"""TFRecord files with manifests, and the release's record features.

A TFRecord file that was truncated between two records reads as a shorter file, without an error. So files are written
under a temporary name and renamed when complete, and x.manifest.json next to x.tfrecord has the number of records, the
size in bytes and the origin of the records. Files without a manifest (the release's) are accepted, with one warning.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
from typing import Iterator

import tensorflow as tf
from absl import logging

from albert_tf.utils.files import absolute, check_is_file
from albert_tf.utils.json_files import read_json_object
from albert_tf.utils.manifests import check_output, manifest_path, written_with_manifest
from albert_tf.utils.progress import count_of

# Besides its content, a TFRecord has a length (8 bytes) and two checksums (4 bytes each).
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
    """Yields a writer of records. File and manifest appear at `path` when the block ends without an error.

    Args:
      path: path of the new file.
      made_from: the origin of the records as JSON values: sequence length, objective, source files.

    Raises:
      ValueError: there is a file at `path` that is not an earlier output (see check_output).

    Example::

      with record_writer("x.tfrecord", dict(max_seq_length=128)) as writer:
          writer.write(example.SerializeToString())
    """
    with written_with_manifest(path, made_from) as (temporary, manifest):
        with tf.io.TFRecordWriter(temporary) as writer:
            counting = CountingWriter(writer)
            yield counting
        manifest["count"] = counting.count


def check_outputs(paths: list[str]) -> None:
    """Checks that record files may be written: see check_output. No two outputs may have a file or manifest in common.

    Raises:
      ValueError: two outputs have the same path or the same manifest (x and x.tfrecord), or check_output refuses one.
    """
    files = collections.Counter(file for path in map(absolute, paths) for file in (path, manifest_path(path)))
    for file, count in files.items():
        if count > 1:
            raise ValueError(f"two of the output files would both be written to {file}: give each another name")
    for path in paths:
        check_output(path)


@contextlib.contextmanager
def all_or_none(paths: list[str]) -> Iterator[None]:
    """Removes files and their manifests if the block that writes them raises, so that no incomplete set remains."""
    try:
        yield
    except BaseException:
        for path in [*paths, *map(manifest_path, paths)]:
            if tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path):
                tf.io.gfile.remove(path)
        raise


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """A TFRecord file that has been checked. Without a manifest, count is None and made_from is empty."""

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
      ValueError: a file is empty, its size is not that of its manifest, or its manifest cannot be read.
    """
    files = [_check(path) for path in paths]
    without = [file.path for file in files if file.count is None]
    if without:
        logging.warning("%s without a manifest, such as %s: a truncated file would not be noticed",
                        count_of(len(without), "record file"), without[0])
    return files


def _check(path: str) -> RecordFile:
    check_is_file(path)
    size = tf.io.gfile.stat(path).length
    if size == 0:
        raise ValueError(f"{path} is empty: there are no records in it")
    manifest = manifest_path(path)
    if not tf.io.gfile.exists(manifest):
        return RecordFile(path, None, {})
    count, expected, made_from = _manifest(manifest)
    if size != expected:
        raise ValueError(f"{path} has {size:,} bytes but its manifest says {expected:,}: it was truncated or changed; "
                         "make it again")
    return RecordFile(path, count, made_from)


def _manifest(path: str) -> tuple[int, int, dict]:
    try:
        manifest = read_json_object(path)
    except ValueError as error:
        raise ValueError(f"{error}; make the records again") from error
    count, size, made_from = (manifest.get(key, -1) for key in ("count", "size", "made_from"))  # -1: refused below
    are_numbers = all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in (count, size))
    if not are_numbers or not isinstance(made_from, dict):
        raise ValueError(f"{path} is not a manifest of records: 'count' and 'size' must be whole numbers, and "
                         "'made_from' an object; make the records again")
    if count * _SMALLEST_RECORD > size:
        raise ValueError(f"{path} says that {size:,} bytes hold {count_of(count, 'record')}, but a record has at least "
                         f"{_SMALLEST_RECORD} bytes: make the records again")
    return count, size, made_from


def shard_paths(path: str, num_shards: int) -> list[str]:
    """The paths of shards: x.tfrecord -> x-00000-of-00008.tfrecord, ...; a single shard has the path itself."""
    if num_shards == 1:
        return [path]
    stem, ending = os.path.splitext(path)
    return [f"{stem}-{shard:05d}-of-{num_shards:05d}{ending}" for shard in range(num_shards)]


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, tf.io.FixedLenFeature]:
    """The features of a pre-training record (release: create_pretraining_data.py), for tf.io.parse_example.

    next_sentence_labels is the sentence-order label: 1 if the segments are swapped.
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


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The data set without autotuning: tf.data.AUTOTUNE is then one parallel call per core, at most 16.

    The thread of autotuning sleeps for up to a minute at a time, and the end of an iterator can wait for it. So
    trainings and evaluations ended up to a minute late.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
