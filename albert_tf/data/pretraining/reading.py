"""Pre-training records to batches."""

from __future__ import annotations

from typing import Callable

import tensorflow as tf

from albert_tf.data.records import RecordFile, check_records, pretraining_features


def open_records(paths: list[str], max_seq_length: int, max_predictions_per_seq: int) -> list[RecordFile]:
    """Checks that records are whole and have the given lengths.

    Raises:
      ValueError: a file was cut or changed, or its records have other lengths or are no pre-training records.
    """
    files = check_records(paths)
    features = pretraining_features(max_seq_length, max_predictions_per_seq)
    for file in files:
        try:
            record = next(tf.data.TFRecordDataset(file.path).take(1).as_numpy_iterator())
            tf.io.parse_single_example(record, features)
        except StopIteration:
            raise ValueError(f"there are no records in {file.path}") from None
        except tf.errors.DataLossError as error:
            raise ValueError(f"{file.path} is no TFRecord file, or was changed: {error.message}") from error
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"{file.path} does not hold pre-training records of --max_seq_length={max_seq_length} and "
                             f"--max_predictions_per_seq={max_predictions_per_seq}: {_lengths(record)}") from error
    return files


def parser(max_seq_length: int, max_predictions_per_seq: int) -> Callable:
    """A function that parses serialized records [rows] to a batch of int32 and float32 tensors."""
    features = pretraining_features(max_seq_length, max_predictions_per_seq)

    def parse(records, numbers):
        del numbers
        batch = tf.io.parse_example(records, features)
        return {name: tf.cast(values, tf.int32) if values.dtype == tf.int64 else values for name, values in batch.items()}

    return parse


def _lengths(record: bytes) -> str:
    features = tf.train.Example.FromString(record).features.feature
    found = {name: len(features[name].int64_list.value) for name in ("input_ids", "masked_lm_ids") if name in features}
    return "it has " + " and ".join(f"{name} of length {length}" for name, length in found.items()) if found else "it has other features"
