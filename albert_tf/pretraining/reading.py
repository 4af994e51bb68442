"""Reads pre-training records: checks the files, and parses batches."""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError

from albert_tf.data import batching
from albert_tf.data.records import CountedFile, check_records, pretraining_features
from albert_tf.pretraining import dynamic_masking
from albert_tf.pretraining.examples import OBJECTIVES
from albert_tf.pretraining.packed_rows import ROW_STEPS, packed
from albert_tf.pretraining.phoneme_objective import PhonemeFormat, format_of, parser as phoneme_parser
from albert_tf.pretraining.phonemes import OBJECTIVE as PHONEMES
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.manifests import manifest_of
from albert_tf.utils.progress import count_of

_NUM_CHECKED = 200  # records of each file that are checked before a run


@dataclasses.dataclass(frozen=True)
class RecordSet:
    """Record files with examples of the same lengths (with padding). `phonemes`: None for records of text."""

    files: list[CountedFile]
    max_seq_length: int
    max_predictions_per_seq: int
    phonemes: PhonemeFormat | None = None

    def parser(self, seed: int) -> Callable:
        """A function that parses serialized records [rows] into int32 and float32; `seed` is for masks of phonemes."""
        if self.phonemes:
            return phoneme_parser(self.phonemes, seed)
        features = pretraining_features(self.max_seq_length, self.max_predictions_per_seq)

        def parse(records: tf.Tensor, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
            del numbers
            batch = tf.io.parse_example(records, features)
            return {name: tf.cast(values, tf.int32 if values.dtype == tf.int64 else values.dtype)
                    for name, values in batch.items()}

        return parse


def open_records(paths: list[str], max_seq_length: int, max_predictions_per_seq: int, vocab_size: int) -> RecordSet:
    """Checks that record files are complete and match the lengths and the model's vocab_size, and counts records."""
    files = batching.counted(check_records(paths))
    if any(file.made_from.get("objective") == PHONEMES for file in files):
        return RecordSet(files, max_seq_length, max_seq_length, format_of(files, max_seq_length, vocab_size))
    features = pretraining_features(max_seq_length, max_predictions_per_seq)
    for file in files:
        objective = file.made_from.get("objective", OBJECTIVES[0])
        check_one_of(f"{manifest_of(file.path)}: objective", objective, OBJECTIVES)
        with batching.naming_changed_files([file]):
            records = next(iter(tf.data.TFRecordDataset(file.path).batch(_NUM_CHECKED)))
        try:
            batch = tf.io.parse_example(records, features)
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:  # TensorFlow's message quotes the record
            raise ValueError("{} does not hold pre-training records of max_seq_length {} and max_predictions_per_seq "
                             "{}: a record has {} input_ids and {} masked_lm_ids".format(
                                 file.path, max_seq_length, max_predictions_per_seq, *_lengths(records[0].numpy()))
                             ) from error
        _check_values(file.path, batch, max_seq_length, vocab_size)
    return RecordSet(files, max_seq_length, max_predictions_per_seq)


def lengths_of_records(path: str) -> tuple[int, int] | None:
    """The max_seq_length and max_predictions_per_seq of a file's first record; None if it is not such a record."""
    files = check_records([path])
    if files[0].made_from.get("objective") == PHONEMES:
        return files[0].made_from["max_seq_length"], files[0].made_from["max_seq_length"]
    with batching.naming_changed_files(files):
        record = next(iter(tf.data.TFRecordDataset(path).take(1)), None)
    lengths = _lengths(record.numpy()) if record is not None else (0, 0)
    return lengths if all(lengths) else None


class TrainingBatches:
    """Batches of a set of records, of batch_size examples over all replicas."""

    def __init__(self, records: RecordSet, batch_size: int, seed: int):
        self._records, self._batch_size, self._seed = records, batch_size, seed
        self._parse = records.parser(seed)
        self._pack: Callable | None = None

    def pack_rows(self, length: int, multiple: int) -> None:
        """Packs several examples into a row.

        Args:
          length: the length of a row, as a multiple of the records' length.
          multiple: the number of rows is a multiple of it, as the batch size is.
        """
        if self._records.phonemes:
            raise ValueError("--pack_rows is for records of text: records of phonemes are padded")
        step = max(1, -(-self._batch_size // (length * multiple * ROW_STEPS)))
        self._pack = functools.partial(packed, length=length, multiple=multiple * step)

    def draw_masks(self, vocab_size: int, masked_lm_prob: float | None) -> None:
        """Replaces the masks of the records by new ones, in each epoch.

        masked_lm_prob is the share of masked tokens; None: as in the records. Random pieces are drawn from vocab_size
        ones.
        """
        records = self._records
        if records.phonemes:
            raise ValueError("--dynamic_masking is for records of text: records of phonemes get new masks anyway")
        options = dynamic_masking.options_of_records(records.files, records.max_predictions_per_seq)
        if masked_lm_prob is not None:
            options = dataclasses.replace(options, masked_lm_prob=masked_lm_prob)
            tokens, most = round(records.max_seq_length * masked_lm_prob), options.max_predictions_per_seq
            if tokens > most:
                raise ValueError(f"a masked_lm_prob of {masked_lm_prob:g} masks {tokens} of {records.max_seq_length} "
                                 f"tokens, but the records have max_predictions_per_seq {most}: make them with "
                                 f"--max_predictions_per_seq={tokens} or more")
        mask_id = dynamic_masking.find_mask_id(records.files, records.max_seq_length, records.max_predictions_per_seq)
        logging.info("new masks in each epoch: the share of masked tokens is %g, an n-gram has at most %s, and [MASK] "
                     "is %d", options.masked_lm_prob,
                     count_of(options.ngram, "word" if options.whole_words else "piece"), mask_id)
        parse, mask = self._parse, dynamic_masking.dynamic_masking(options, mask_id, vocab_size, self._seed)
        self._parse = lambda serialized, numbers: mask(parse(serialized, numbers), numbers)

    def from_step(self, first_step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        """An endless data set of batches that begins with the batch of `first_step` (see training_record_batches)."""
        return batching.training_record_batches(self._records.files, self._parse, self._batch_size, self._seed,
                                                first_step, context, self._pack)


def check_tokenizer(files: Sequence[CountedFile], tokenizer: FullTokenizer | None, vocab_size: int) -> None:
    """Raises ValueError for records that were made with another vocabulary, casing or treatment of accents.

    If the vocabularies cannot be compared, warns if the number of pieces is not vocab_size. This is no error, since a
    model may have more embeddings than its vocabulary has pieces.
    """
    if tokenizer:
        for name, value in tokenizer_key(tokenizer).items():
            other = next((file for file in files if file.made_from.get(name, value) != value), None)
            if other and name == "vocabulary_sha256":
                raise ValueError(f"{other.path} was not made with {tokenizer.vocabulary_file}: it is the vocabulary of "
                                 "another model, so make the records again with this one")
            if other:
                raise ValueError(f"{other.path} was made with --{name}={other.made_from[name]}, but the tokenizer of "
                                 f"this run has {value}: make the records again, or set the flag of this run")
        files = [file for file in files if "vocabulary_sha256" not in file.made_from]
    other = next((file for file in files if file.made_from.get("vocab_size", vocab_size) != vocab_size), None)
    if other:
        logging.warning("%s was made with a vocabulary of %s pieces, but the config's vocab_size is %d: is it the "
                        "vocabulary of another model?", other.path, other.made_from["vocab_size"], vocab_size)


def _record_batches(records: RecordSet) -> Iterator[dict[str, tf.Tensor]]:
    """The examples of records once, in their order, in parsed batches."""
    parse = records.parser(seed=0)
    for serialized in tf.data.TFRecordDataset([file.path for file in records.files]).batch(1000):
        yield parse(serialized, None)


def frequency_baseline(training: RecordSet, evaluation: RecordSet, vocab_size: int) -> tuple[float, float]:
    """How well the frequencies of pieces in training records predict the masked tokens of evaluation records.

    Returns:
      The accuracy of the most frequent piece, and the mean cross entropy of the frequencies, in nats. Each piece counts
      once more than it occurs.
    """
    counts = np.ones(vocab_size)
    for batch in _record_batches(training):
        ids = dynamic_masking.original_ids(batch)
        counts += np.bincount(ids[dynamic_masking.maskable(ids, batch["input_mask"])], minlength=vocab_size)
    labels = np.concatenate([batch["masked_lm_ids"][batch["masked_lm_weights"] > 0]
                             for batch in _record_batches(evaluation)])
    return float(np.mean(labels == counts.argmax())), float(np.log(counts.sum()) - np.log(counts[labels]).mean())


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


def _lengths(record: bytes) -> tuple[int, int]:
    """The numbers of input_ids and of masked_lm_ids in a record: 0 if it is no such record."""
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return 0, 0
    return len(features["input_ids"].int64_list.value), len(features["masked_lm_ids"].int64_list.value)
