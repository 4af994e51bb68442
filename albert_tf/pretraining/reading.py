"""Reads pre-training records: checks the files and parses batches."""

from __future__ import annotations

import reprlib
from typing import Callable, Sequence

import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError

from albert_tf.data import batching
from albert_tf.data.feature_cache import tokenizer_key
from albert_tf.data.records import CountedFile, check_records, manifest_path, pretraining_features
from albert_tf.pretraining.segments import OBJECTIVES
from albert_tf.text.tokenization import FullTokenizer

# The number of records of each file that are checked before a run.
_NUM_CHECKED = 200


def open_records(
    paths: list[str], max_seq_length: int, max_predictions_per_seq: int, vocab_size: int
) -> list[CountedFile]:
    """Checks that record files are complete and match the lengths and the model's vocab_size, and counts their records.

    Raises:
      ValueError: a file was truncated or changed; or its first records have other lengths, ids outside the vocabulary
        or positions outside the sequence, or are not pre-training records.
    """
    files = batching.counted(check_records(paths))
    for file in files:
        objective = file.made_from.get("objective", OBJECTIVES[0])
        if objective not in OBJECTIVES:
            raise ValueError(f"{manifest_path(file.path)}: objective must be one of {', '.join(OBJECTIVES)}. "
                             f"Received: {reprlib.repr(objective)}")
    features = pretraining_features(max_seq_length, max_predictions_per_seq)
    for file in files:
        with batching.naming_changed_files([file]):
            records = next(iter(tf.data.TFRecordDataset(file.path).batch(_NUM_CHECKED)))
        try:
            batch = tf.io.parse_example(records, features)
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:  # TensorFlow's message quotes the record
            lengths = _lengths(records[0].numpy())
            raise ValueError(f"{file.path} does not hold pre-training records of max_seq_length {max_seq_length} and "
                             f"max_predictions_per_seq {max_predictions_per_seq}: {lengths}") from error
        _check_values(file.path, batch, max_seq_length, vocab_size)
    return files


def check_tokenizer(files: Sequence[CountedFile], tokenizer: FullTokenizer | None, vocab_size: int) -> None:
    """Warns of records whose vocabulary, casing or accents differ from those of a tokenizer.

    If the vocabularies cannot be compared (no tokenizer, or records that do not name their vocabulary), warns if the
    number of pieces is not vocab_size. This is no error, since a model may have more embeddings than its vocabulary
    has pieces.
    """
    if tokenizer:
        _compare_tokenizers(files, tokenizer)
        files = [file for file in files if "vocabulary_sha256" not in file.made_from]
    other = next((file for file in files if file.made_from.get("vocab_size", vocab_size) != vocab_size), None)
    if other:
        logging.warning("%s was made with a vocabulary of %s pieces, but the config's vocab_size is %d: is it the "
                        "vocabulary of another model?", other.path, other.made_from["vocab_size"], vocab_size)


def parser(max_seq_length: int, max_predictions_per_seq: int) -> Callable:
    """Returns a function that parses serialized records [rows] into a batch of int32 and float32 tensors."""
    features = pretraining_features(max_seq_length, max_predictions_per_seq)

    def parse(records, numbers):
        del numbers
        batch = tf.io.parse_example(records, features)
        return {name: tf.cast(values, tf.int32 if values.dtype == tf.int64 else values.dtype)
                for name, values in batch.items()}

    return parse


def _compare_tokenizers(files: Sequence[CountedFile], tokenizer: FullTokenizer) -> None:
    for name, value in tokenizer_key(tokenizer).items():
        other = next((file for file in files if file.made_from.get(name, value) != value), None)
        if other and name == "vocabulary_sha256":
            logging.warning("%s was not made with %s: is it the vocabulary of another model?", other.path,
                            tokenizer.vocabulary_file)
        elif other:
            logging.warning("%s was made with --%s=%s, but the tokenizer of this run has %s: make the records again, "
                            "or set the flag of this run", other.path, name, other.made_from[name], value)


def _check_values(path: str, batch: dict[str, tf.Tensor], max_seq_length: int, vocab_size: int) -> None:
    largest_id = int(tf.reduce_max(batch["input_ids"]))
    if largest_id >= vocab_size:
        raise ValueError(f"{path} was made with another vocabulary: it has id {largest_id}, "
                         f"but the config's vocab_size is {vocab_size}")
    ends = dict(input_ids=vocab_size, masked_lm_ids=vocab_size, masked_lm_positions=max_seq_length, input_mask=2,
                token_boundary=2, next_sentence_labels=2)
    for name, end in ends.items():
        wrong = tf.boolean_mask(batch[name], (batch[name] < 0) | (batch[name] >= end))
        if tf.size(wrong):
            raise ValueError(f"{path} does not hold pre-training records: {name} must be from 0 to {end - 1}. "
                             f"Received: {int(wrong[0])}")


def _lengths(record: bytes) -> str:
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return "a record is not a tf.Example"
    lengths = {name: len(features[name].int64_list.value)
               for name in ("input_ids", "masked_lm_ids") if name in features}
    if not lengths:
        return "a record has other features"
    return "a record has " + " and ".join(f"{length} {name}" for name, length in lengths.items())
