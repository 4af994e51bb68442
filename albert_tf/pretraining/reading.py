"""Reads pre-training records: checks the files, parses batches, and trains on sets of several lengths in turns.

Which set a step trains on is a function of the step alone: each step takes the set that is furthest behind its share.
With shares of 3 and 1, the sets of the first steps are 0 0 1 0, 0 0 1 0. All steps have equal numbers of tokens, so
batches of short examples have more rows::

    set                              rows of a batch (train_batch_size 8)
    64 tokens                        32
    256 tokens (--max_seq_length)    8
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError

from albert_tf.data import batching
from albert_tf.data.records import CountedFile, check_records, pretraining_features, without_autotuning
from albert_tf.pretraining import dynamic_masking
from albert_tf.pretraining.examples import OBJECTIVES
from albert_tf.pretraining.packed_rows import packer
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
        """A function that parses serialized records [rows] into a batch; `seed` is for masks of phonemes."""
        if self.phonemes:
            return phoneme_parser(self.phonemes, seed)
        return parser(self.max_seq_length, self.max_predictions_per_seq)


def open_records(paths: list[str], max_seq_length: int, max_predictions_per_seq: int, vocab_size: int) -> RecordSet:
    """Checks that record files are complete and match the lengths and the model's vocab_size, and counts their records.

    Raises:
      ValueError: a file was truncated or changed; or its first records have other lengths, ids outside the vocabulary
        or positions outside the sequence, or are not pre-training records.
    """
    files = batching.counted(check_records(paths))
    path_of = {file.made_from.get("objective") == PHONEMES: file.path for file in files}
    if len(path_of) > 1:
        raise ValueError(f"{path_of[True]} has records of phonemes and {path_of[False]} has records of text: they "
                         "cannot be used together")
    if True in path_of:
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
            raise ValueError(f"{file.path} does not hold pre-training records of max_seq_length {max_seq_length} and "
                             f"max_predictions_per_seq {max_predictions_per_seq}: {_describe(records[0].numpy())}"
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
    lengths = _lengths(record.numpy()) if record is not None else None
    return (lengths["input_ids"], lengths["masked_lm_ids"]) if lengths and all(lengths.values()) else None


class TrainingBatches:
    """Batches of one set of records, or of several sets in turns.

    Args:
      sets: the sets. The longest max_seq_length must be a multiple of the others.
      shares: for each set a whole number; a set's share of the steps is its number divided by their sum.
      batch_size: examples of a batch of the longest set, over all replicas.
    """

    def __init__(self, sets: Sequence[RecordSet], shares: Sequence[int], batch_size: int, seed: int):
        longest = max(one.max_seq_length for one in sets)
        for one in sets:
            if longest % one.max_seq_length:
                raise ValueError(f"the length of the longest records, {longest}, must be a multiple of the other "
                                 f"lengths, for steps of equal numbers of tokens. Received: {one.files[0].path} with "
                                 f"{one.max_seq_length}")
        self._sets, self._seed = sets, seed
        self.batch_sizes = [batch_size * longest // one.max_seq_length for one in sets]
        self.cycle = turns(shares)
        self._parsers = [one.parser(seed) for one in sets]
        self._packers: list[Callable | None] = [None] * len(sets)

    def pack_rows(self, length: int, multiple: int) -> None:
        """Packs several examples into a row.

        Args:
          length: the length of a row, as a multiple of the records' length.
          multiple: the number of rows is a multiple of it, as the batch size is.

        Raises:
          ValueError: the records are of phonemes.
        """
        if any(one.phonemes for one in self._sets):
            raise ValueError("--pack_rows is for records of text: records of phonemes are padded")
        self._packers = [packer(batch_size, length, multiple) for batch_size in self.batch_sizes]

    def draw_masks(self, vocab_size: int, masked_lm_prob: float | None, final_masked_lm_prob: float | None,
                   num_train_steps: int) -> None:
        """Replaces the masks of the records by new ones, in each epoch.

        The share of masked tokens changes from masked_lm_prob (None: as in the records) to final_masked_lm_prob (None:
        the same) in num_train_steps. Random pieces are drawn from vocab_size ones.

        Raises:
          ValueError: records of a set have different options, no masked tokens, or too few predictions for a share.
        """
        for number, one in enumerate(self._sets):
            if one.phonemes:
                raise ValueError("--dynamic_masking is for records of text: records of phonemes get new masks anyway")
            options = dynamic_masking.options_of_records(one.files, one.max_predictions_per_seq)
            initial = options.masked_lm_prob if masked_lm_prob is None else masked_lm_prob
            final = initial if final_masked_lm_prob is None else final_masked_lm_prob
            share = dynamic_masking.MaskedShare(initial, final, num_train_steps)
            if (masked_lm_prob, final_masked_lm_prob) != (None, None):
                share.check(options, one.max_seq_length)
            mask_id = dynamic_masking.find_mask_id(one.files, one.max_seq_length, one.max_predictions_per_seq)
            logging.info("new masks in each epoch: the share of masked tokens is %g at the start and %g at the end, an "
                         "n-gram has at most %s, and [MASK] is %d", initial, final,
                         count_of(options.ngram, "word" if options.whole_words else "piece"), mask_id)
            mask = dynamic_masking.dynamic_masking(options, mask_id, vocab_size, self._seed)
            self._parsers[number] = self._masking(number, self._parsers[number], mask, share)

    def _masking(self, number: int, parse: Callable, mask: Callable, share: dynamic_masking.MaskedShare
                 ) -> Callable:
        turns_of_set = tf.constant(np.flatnonzero(self.cycle == number))

        def parse_and_mask(records, numbers):
            turn = numbers[0] // self.batch_sizes[number]  # how many batches of this set were before
            in_cycle = tf.size(turns_of_set, tf.int64)
            step = turn // in_cycle * len(self.cycle) + turns_of_set[turn % in_cycle]
            return mask(parse(records, numbers), numbers, share.at(step))

        return parse_and_mask

    def from_step(self, first_step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        """An endless data set of batches that begins with the batch of `first_step` (see training_record_batches)."""
        cycles, rest = divmod(first_step, len(self.cycle))
        datasets = []
        for number, (one, batch_size, parse, pack) in enumerate(
                zip(self._sets, self.batch_sizes, self._parsers, self._packers)):
            taken = cycles * np.sum(self.cycle == number) + np.sum(self.cycle[:rest] == number)
            datasets.append(batching.training_record_batches(one.files, parse, batch_size, self._seed, int(taken),
                                                             context, pack))
        if len(datasets) == 1:
            return datasets[0]
        local = context.num_replicas_in_sync // context.num_input_pipelines  # consecutive elements of a step
        cycle = tf.constant(self.cycle)
        choices = tf.data.Dataset.range(first_step * local, tf.int64.max).map(
            lambda element: cycle[element // local % len(self.cycle)])
        batches = tf.data.Dataset.choose_from_datasets(datasets, choices)
        return without_autotuning(batching.with_infinite_cardinality(batches))


def turns(shares: Sequence[int]) -> np.ndarray:
    """The set of each step of a cycle, int64 [sum of shares]: the one that is furthest behind its share."""
    counts, cycle = np.zeros(len(shares), np.int64), []
    for step in range(1, sum(shares) + 1):
        cycle.append(int(np.argmax(np.multiply(shares, step) - counts * sum(shares))))
        counts[cycle[-1]] += 1
    return np.array(cycle, np.int64)


def check_tokenizer(files: Sequence[CountedFile], tokenizer: FullTokenizer | None, vocab_size: int) -> None:
    """Raises ValueError for records that were made with another vocabulary, casing or treatment of accents.

    If the vocabularies cannot be compared (no tokenizer, or records that do not name their vocabulary), warns if the
    number of pieces is not vocab_size. This is no error, since a model may have more embeddings than its vocabulary
    has pieces.
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


def parser(max_seq_length: int, max_predictions_per_seq: int) -> Callable:
    """Returns a function that parses serialized records [rows] into a batch of int32 and float32 tensors."""
    features = pretraining_features(max_seq_length, max_predictions_per_seq)

    def parse(records, numbers):
        del numbers
        batch = tf.io.parse_example(records, features)
        return {name: tf.cast(values, tf.int32 if values.dtype == tf.int64 else values.dtype)
                for name, values in batch.items()}

    return parse


def record_batches(records: RecordSet, examples: int = 1000) -> Iterator[dict[str, tf.Tensor]]:
    """The examples of records once, in their order, in parsed batches."""
    parse = parser(records.max_seq_length, records.max_predictions_per_seq)
    for serialized in tf.data.TFRecordDataset([file.path for file in records.files]).batch(examples):
        yield parse(serialized, None)


def frequency_baseline(training: RecordSet, evaluation: RecordSet, vocab_size: int) -> tuple[float, float]:
    """How well the frequencies of pieces in training records predict the masked tokens of evaluation records.

    Returns:
      The accuracy of the most frequent piece, and the mean cross entropy of the frequencies, in nats. Each piece counts
      once more than it occurs.
    """
    counts = np.ones(vocab_size)
    for batch in record_batches(training):
        ids = dynamic_masking.original_ids(batch)
        counts += np.bincount(ids[dynamic_masking.maskable(ids, batch["input_mask"])], minlength=vocab_size)
    labels = np.concatenate([batch["masked_lm_ids"][batch["masked_lm_weights"] > 0]
                             for batch in record_batches(evaluation)])
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


def _lengths(record: bytes) -> dict[str, int] | None:
    """The number of values of input_ids and masked_lm_ids in a record, 0 without them; None if it is no tf.Example."""
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return None
    return {name: len(features[name].int64_list.value) if name in features else 0
            for name in ("input_ids", "masked_lm_ids")}


def _describe(record: bytes) -> str:
    """What a record has, for an error message."""
    lengths = _lengths(record)
    if lengths is None:
        return "a record is not a tf.Example"
    described = " and ".join(f"{length} {name}" for name, length in lengths.items() if length)
    return f"a record has {described or 'other features'}"
