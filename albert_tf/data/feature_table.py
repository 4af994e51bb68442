"""Fine-tuning features: the schema of a task's records, a table of them in memory without padding, and their cache.

The features of a split are made once, and again when anything that they depend on has changed::

    schema = FeatureSchema(max_seq_length=512, scalars=dict(label_ids=tf.int32), num_choices=4)
    made_from = dict(train_file=fingerprint(path), max_qa_length=128)
    table = FeatureCache(tokenizer, cached_dir).table("race_train", made_from, schema, lambda: make_features(...))

The manifest next to a file of records says what it was made from. A file without a manifest, such as one from the
release, is used without this check. data/batching.py makes batches of a table.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from albert_tf.data import records
from albert_tf.data.records import check_records, int64_feature, varints
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key
from albert_tf.utils.files import check_is_file, check_name
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import locked
from albert_tf.utils.progress import count_of

TOKENS = dict(input_ids=0, segment_ids=0)  # the per-token features that every task has, with their padding values
_CHUNK = 1000
# Increase this number when a change of the code makes other features from the same files and flags.
_VERSION = 1
_BLOCK = 1 << 22
Convert = Callable[[], Iterable[Mapping[str, Any]]]  # the features of each example, for FeatureSchema.serialize


@dataclasses.dataclass(frozen=True)
class FeatureSchema:
    """The features of a task's record, with the release's names.

    Args:
      scalars: names and types of the features with one value per example, tf.int32 or tf.float32.
      token_padding: names and padding values of the features with one value per token, without input_mask.
      num_choices: sequences per example; a record has them concatenated.
      sizes: the number of values per example of those scalars that have several.
      are_windows: whether the sequences are the 1 to num_choices windows of a text; the other sequences are empty. A
        batch leaves out the windows that are empty in all of its examples.
    """

    max_seq_length: int
    scalars: Mapping[str, tf.DType]
    token_padding: Mapping[str, float] = dataclasses.field(default_factory=lambda: dict(TOKENS))
    num_choices: int = 1
    are_windows: bool = False
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def serialize(self, features: Mapping[str, Any]) -> bytes:
        """A record of an example. A per-token feature is a list or array, or num_choices of them, padded or not."""
        def rows(name: str) -> list[list[int]]:
            choices = [features[name]] if self.num_choices == 1 else features[name]
            return [row.tolist() if isinstance(row, np.ndarray) else row for row in choices]

        masks = rows("input_mask")
        lengths = [mask.count(1) for mask in masks]
        record = {"input_mask": int64_feature(self._pad(masks, lengths, 0))}
        for name, padding in self.token_padding.items():
            record[name] = int64_feature(self._pad(rows(name), lengths, padding))
        for name, dtype in self.scalars.items():
            values = features[name] if name in self.sizes else [features[name]]
            record[name] = (records.float_feature(values) if dtype.is_floating
                            else int64_feature(varints(map(int, values))))
        return records.example(record)

    def _pad(self, rows: list[list[int]], lengths: list[int], padding: float) -> bytes:
        """The concatenated rows as varints, each truncated to its length and padded."""
        encoded_padding = varints([int(padding)])
        return b"".join([varints(row[:length]) + encoded_padding * (self.max_seq_length - length)
                         for row, length in zip(rows, lengths)])

    def record_features(self) -> dict[str, tf.io.FixedLenFeature]:
        """The feature specification for tf.io.parse_example."""
        tokens = tf.io.FixedLenFeature([self.num_choices * self.max_seq_length], tf.int64)
        scalars = {name: tf.io.FixedLenFeature([self.sizes[name]] if name in self.sizes else [],
                                            tf.float32 if dtype.is_floating else tf.int64)
                   for name, dtype in self.scalars.items()}
        return dict({name: tokens for name in (*self.token_padding, "input_mask")}, **scalars)


class FeatureTable:
    """Examples in memory, without padding: about 8 bytes per token.

    Args:
      sequences: the per-token features by name, [examples * num_choices, (tokens)].
      scalars: the other features by name, [examples], or [examples, sizes of the schema].

    Attributes, int32 [examples]:
      lengths: the number of tokens of the longest sequence.
      sizes: what examples are sorted by for batches: lengths, or for windows the number of tokens of all windows.
      num_sequences: the number of sequences that a batch with the example needs.
    """

    def __init__(self, schema: FeatureSchema, sequences: dict[str, tf.RaggedTensor], scalars: dict[str, tf.Tensor]):
        self.schema, self.sequences, self.scalars = schema, sequences, scalars
        self._sequence_lengths = tf.cast(sequences["input_ids"].row_lengths(), tf.int32)
        lengths = self._sequence_lengths.numpy().reshape(-1, schema.num_choices)
        self.lengths = lengths.max(axis=1)
        self.sizes = lengths.sum(axis=1, dtype=np.int32) if schema.are_windows else self.lengths
        self.num_sequences = ((lengths > 0).sum(axis=1, dtype=np.int32) if schema.are_windows
                              else np.full(len(lengths), schema.num_choices, np.int32))

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def from_records(cls, file: records.RecordFile, schema: FeatureSchema) -> FeatureTable:
        """Reads a file of records, written by this package or by the release."""
        wanted, parts = schema.record_features(), []
        try:
            for chunk in records.without_autotuning(tf.data.TFRecordDataset(file.path).batch(_CHUNK)):
                parts.append(without_padding(tf.io.parse_example(chunk, wanted), schema))
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:  # TensorFlow's message quotes the record
            message = "a record is not a tf.Example" if isinstance(error, UnicodeDecodeError) else error.message
            reason = message.rpartition("}} ")[2]  # the part after TensorFlow's name of the op
            raise ValueError(f"{file.path} does not hold records of max_seq_length {schema.max_seq_length} with "
                             f"{', '.join(wanted)}: {reason.splitlines()[0][:200]}") from error
        except tf.errors.DataLossError as error:
            raise ValueError(f"{file.path} was truncated or changed, or is not a TFRecord file: choose another "
                             "path") from error
        if not parts:
            raise ValueError(f"there are no records in {file.path}")
        return cls.joined(parts, schema)

    @classmethod
    def joined(cls, parts: Sequence[dict[str, np.ndarray]], schema: FeatureSchema) -> FeatureTable:
        """The table of all examples of several parts, each the result of without_padding."""
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        lengths = columns.pop("input_mask")
        sequences = {name: tf.RaggedTensor.from_row_lengths(columns.pop(name), lengths, validate=False)
                     for name in schema.token_padding}
        scalars = {name: tf.cast(columns[name], dtype) for name, dtype in schema.scalars.items()}
        return cls(schema, sequences, scalars)

    def batch(self, rows: tf.Tensor, length: tf.Tensor, num_sequences: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """A batch of examples, padded to a length. It can be called inside Dataset.map.

        `rows` are int64 [batch]; `length` and num_sequences (None: all) are int32 []. Per-token features are int32
        [batch, length], or [batch, num_sequences, length] if num_choices is more than 1; scalars are [batch].
        """
        choices = self.schema.num_choices
        taken = choices if num_sequences is None else num_sequences
        indices = tf.reshape(rows[:, None] * choices + tf.cast(tf.range(taken), rows.dtype), [-1])  # [batch * taken]
        count = -1 if rows.shape[0] is None else rows.shape[0]  # static if it is known
        shape = [count, length] if choices == 1 else [count, taken, length]
        mask = tf.sequence_mask(tf.gather(self._sequence_lengths, indices), length, tf.int32)
        tokens, to_length = dict(input_mask=tf.reshape(mask, shape)), tf.cast(tf.stack([-1, length]), tf.int64)
        for name, padding in self.schema.token_padding.items():
            sequences = tf.gather(self.sequences[name], indices)
            further = self.sequences[name].shape[2:]  # of a column with several values per token
            padded = sequences.to_tensor(tf.cast(padding, sequences.dtype), shape=tf.concat([to_length, further], 0))
            values = padded if padded.dtype.is_floating else tf.cast(padded, tf.int32)
            tokens[name] = tf.reshape(values, [*shape, *further])
        return dict(tokens, **{name: tf.gather(values, rows) for name, values in self.scalars.items()})

    def with_columns(self, columns: Mapping[str, np.ndarray], token_padding: Mapping[str, float]) -> FeatureTable:
        """A table with further columns, which records do not have.

        Columns are float32 [examples, ...], or [tokens of all examples, ...] if token_padding has their padding values.
        """
        lengths = self._sequence_lengths
        sequences = {name: tf.RaggedTensor.from_row_lengths(columns[name], lengths) for name in token_padding}
        scalars = {name: tf.constant(values) for name, values in columns.items() if name not in token_padding}
        schema = dataclasses.replace(self.schema, token_padding={**self.schema.token_padding, **token_padding})
        return FeatureTable(schema, {**self.sequences, **sequences}, {**self.scalars, **scalars})

    def digest(self) -> str:
        """The SHA-256 digest of all columns, for made_from of files that are computed from the table."""
        sha256 = hashlib.sha256(self._sequence_lengths.numpy().tobytes())
        flat = {name: values.flat_values for name, values in self.sequences.items()}
        for name, values in sorted({**flat, **self.scalars}.items()):
            sha256.update(f"{name} {values.dtype.name} ".encode() + values.numpy().tobytes())
        return sha256.hexdigest()


def without_padding(examples: Mapping[str, Any], schema: FeatureSchema) -> dict[str, np.ndarray]:
    """Padded examples with per-token features flattened and without padding, and input_mask replaced by lengths."""
    columns = {name: np.asarray(values) for name, values in examples.items()}
    is_token = columns["input_mask"].reshape(-1, schema.max_seq_length).astype(bool)  # [examples * choices, seq]
    columns["input_mask"] = is_token.sum(axis=1)
    for name in schema.token_padding:
        columns[name] = columns[name].reshape(is_token.shape)[is_token]
        is_small = name != "input_ids" and columns[name].max(initial=0) <= np.iinfo(np.int8).max  # most are 0 or 1
        columns[name] = columns[name].astype(np.int8 if is_small else np.int32)
    return columns


@dataclasses.dataclass(frozen=True)
class FeatureCache:
    """Makes the feature tables of every task, and caches them as records in a folder (--cached_dir)."""

    tokenizer: FullTokenizer
    directory: str

    def table(
        self, name: str, made_from: Mapping[str, Any], schema: FeatureSchema, convert: Convert, path: str | None = None
    ) -> FeatureTable:
        """The features of a split, such as "sst-2_train". They are converted if the cache does not have them.

        made_from is everything that they depend on besides tokenizer and schema, as JSON values. path: of the records;
        None for a file in the cache's folder.
        """
        made_from = dict(made_from, **tokenizer_key(self.tokenizer))
        return cached_table(path or cache_path(self.directory, name, made_from, schema), made_from, schema, convert)


def cache_path(directory: str, name: str, made_from: dict, schema: FeatureSchema) -> str:
    """The path of a split's cached records. It has a hash of everything that the features depend on."""
    check_name(name, "the name of a task")
    key = digest(json.dumps(_all_made_from(made_from, schema), sort_keys=True).encode())
    return os.path.join(directory, f"{name}_{key[:12]}.tfrecord")


def cached_table(path: str, made_from: dict, schema: FeatureSchema, convert: Convert) -> FeatureTable:
    """The features at a path. They are made first if the file is missing, damaged or made from something else."""
    made_from = _all_made_from(made_from, schema)
    table = _current_table(path, made_from, schema)
    if table is None:
        with locked(f"{path}.features", wait=True):  # another command may make the same features
            table = _current_table(path, made_from, schema)
            if table is None:
                with records.record_writer(path, made_from) as writer:
                    for features in convert():
                        writer.write(schema.serialize(features))
                logging.info("%s: %s made", path, count_of(writer.count, "record"))
    return FeatureTable.from_records(check_records([path])[0], schema) if table is None else table


def _current_table(path: str, made_from: dict, schema: FeatureSchema) -> FeatureTable | None:
    """The features at a path; None if they are missing, damaged or made from something else.

    A file without a manifest is accepted, and raises ValueError if it is damaged, since it may be someone else's.
    """
    if not tf.io.gfile.exists(path):
        return None
    try:
        file = check_records([path])[0]
    except ValueError as error:
        logging.warning("%s", error)
        return None
    if file.count is None:
        return FeatureTable.from_records(file, schema)
    changed = sorted(key for key in {*made_from, *file.made_from} if made_from.get(key) != file.made_from.get(key))
    if changed:
        logging.info("%s was made with another %s: making it again", path, ", ".join(changed))
        return None
    try:
        return FeatureTable.from_records(file, schema)
    except ValueError as error:
        logging.warning("%s. Making it again", error)
        return None


def fingerprint(path: str) -> str:
    """The SHA-256 digest of a file's content, for made_from."""
    check_is_file(path)
    sha256 = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
    return sha256.hexdigest()


def digest(content: bytes) -> str:
    """The SHA-256 digest of bytes, for made_from."""
    return hashlib.sha256(content).hexdigest()


def _all_made_from(made_from: dict, schema: FeatureSchema) -> dict:
    features = sorted(schema.record_features())
    return dict(made_from, max_seq_length=schema.max_seq_length, features=features, version=_VERSION)
