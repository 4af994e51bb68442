"""TFRecord files with manifests, and the release's record features.

A TFRecord file that was truncated between two records reads as a shorter file, without an error. So x.manifest.json
next to x.tfrecord has the number, size and origin of the records (utils/manifests.py). Files without a manifest (the
release's) are accepted, with one warning. Examples are serialized without TensorFlow, to the same bytes: a protobuf
message would convert the values one by one, and most values are padding.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import struct
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from albert_tf.utils.files import check_is_file
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.manifests import checked_manifest, entry_of, manifest_of, output_set
from albert_tf.utils.progress import count_of

_SMALLEST_RECORD = 16  # besides its content, a record has a length (8 bytes) and two checksums (4 bytes each)
# Field numbers of tensorflow/core/example/example.proto and feature.proto.
_FEATURES, _ENTRY, _KEY, _VALUE, _LIST = 1, 1, 1, 2, 1
_FLOAT_LIST, _INT64_LIST = 2, 3
_LENGTH_DELIMITED = 2
# Encodings of numbers below this one are kept: ids, masks, labels.
_KEPT = 1 << 16


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
    """Yields a writer of records, made from `made_from`. File and manifest appear when the block ends without error."""
    with output_set({path: [path]}) as outputs:
        outputs.made_from = made_from
        with tf.io.TFRecordWriter(outputs.temporary[path]) as writer:
            counting = CountingWriter(writer)
            yield counting
        outputs.counts[path] = counting.count


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """A TFRecord file that has been checked. Without a manifest, count is None and made_from is empty."""

    path: str
    count: int | None
    made_from: dict


@dataclasses.dataclass(frozen=True)
class CountedFile(RecordFile):
    """A RecordFile with a known count."""

    count: int


def check_records(paths: list[str]) -> list[RecordFile]:
    """Compares files with their manifests: sizes, counts, complete sets, and one run for what was written together."""
    manifests: dict[str, dict[str, Any]] = {}
    files = [_check(path, manifests) for path in paths]
    if without := [file.path for file in files if file.count is None]:
        logging.warning("%s without a manifest, such as %s: a truncated file would not be noticed",
                        count_of(len(without), "record file"), without[0])
    runs = {os.path.normpath(path): manifest.get("run", {}) for path, manifest in manifests.items()}
    for path, run in runs.items():
        for other in (os.path.normpath(os.path.join(os.path.dirname(path), name)) for name in run.get("manifests", ())):
            if other in runs and runs[other].get("id") != run["id"]:
                raise ValueError(f"{path} and {other} were written together, but are now of two runs: make the records "
                                 "again")
    return files


def _check(path: str, manifests: dict[str, dict[str, Any]]) -> RecordFile:
    """Checks a file, and adds its manifest to those that were checked."""
    check_is_file(path)
    size = tf.io.gfile.stat(path).length
    if size == 0:
        raise ValueError(f"{path} is empty: there are no records in it")
    manifest = manifest_of(path)
    if manifest is None:
        return RecordFile(path, None, {})
    if manifest not in manifests:
        manifests[manifest] = checked_manifest(manifest)
    count = entry_of(path, manifest, manifests[manifest]).get("count")
    if type(count) is not int or count < 0:
        raise ValueError(f"{manifest} is not a manifest of records: 'count' must be a whole number; make the records "
                         "again")
    if count * _SMALLEST_RECORD > size:
        raise ValueError(f"{manifest} says that {size:,} bytes hold {count_of(count, 'record')}, but a record has at "
                         f"least {_SMALLEST_RECORD} bytes: make the records again")
    return RecordFile(path, count, manifests[manifest]["made_from"])


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> dict[str, tf.io.FixedLenFeature]:
    """The features of a pre-training record (release: create_pretraining_data.py). Swapped segments have label 1."""
    tokens = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    predictions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    return dict(
        input_ids=tokens, input_mask=tokens, segment_ids=tokens, token_boundary=tokens,
        masked_lm_positions=predictions, masked_lm_ids=predictions,
        masked_lm_weights=tf.io.FixedLenFeature([max_predictions_per_seq], tf.float32),
        next_sentence_labels=tf.io.FixedLenFeature([1], tf.int64),
    )


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The data set without autotuning, whose thread can sleep a minute while the end of an iterator waits for it."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def serialize(**features: Sequence[int | float] | np.ndarray) -> bytes:
    """Serializes a tf.Example. Each feature is a list or 1-D array of integers or floats with at least one value."""
    encoded = {}
    for name, values in features.items():
        row: Any = values.tolist() if isinstance(values, np.ndarray) else values  # all integers, or all floats
        encoded[name] = float_feature(row) if isinstance(row[0], float) else int64_feature(varints(row))
    return example(encoded)


def example(features: Mapping[str, bytes]) -> bytes:
    """A serialized tf.Example of features by name, which int64_feature and float_feature have encoded."""
    entries = [_field(_ENTRY, _key(name) + _field(_VALUE, features[name])) for name in sorted(features)]
    return _field(_FEATURES, b"".join(entries))


def int64_feature(encoded: bytes) -> bytes:
    """An encoded feature of integers. `encoded` is the result of `varints`, or several results concatenated."""
    return _field(_INT64_LIST, _field(_LIST, encoded))


def float_feature(values: Iterable[float]) -> bytes:
    """An encoded feature of float32 numbers, at least one."""
    values = tuple(values)
    return _field(_FLOAT_LIST, _field(_LIST, struct.pack(f"<{len(values)}f", *values)))


def varints(values: Iterable[int]) -> bytes:
    """64-bit integers as protobuf varints: seven bits per byte, the lowest first."""
    return b"".join(map(_VARINTS.__getitem__, values))


class _Varints(dict):
    """The varint of each number, kept for small numbers."""

    def __missing__(self, number: int) -> bytes:
        rest, encoded = int(number) % (1 << 64), bytearray()  # negative numbers as two's complement
        while rest > 127:
            encoded.append(rest & 127 | 128)
            rest >>= 7
        encoded.append(rest)
        if 0 <= number < _KEPT:
            self[number] = bytes(encoded)
        return bytes(encoded)


_VARINTS = _Varints()
_TAGS = [bytes([number << 3 | _LENGTH_DELIMITED]) for number in range(_INT64_LIST + 1)]


def _field(number: int, content: bytes) -> bytes:
    return _TAGS[number] + _VARINTS[len(content)] + content


@functools.lru_cache(maxsize=None)
def _key(name: str) -> bytes:
    return _field(_KEY, name.encode())
