"""Caches SQuAD features as records. For prediction, a second file has the questions that map answers back to text.

    squad_predict_1a2b3c.tfrecord            the model's inputs
    squad_predict_1a2b3c.questions.jsonl     questions and offsets (see question_windows.py)
"""

from __future__ import annotations

import contextlib
from typing import Iterator, NamedTuple

import tensorflow as tf
from absl import logging

from albert_tf.data.feature_cache import (
    cache_path,
    cache_writer,
    cached_table,
    fingerprint,
    is_current,
    read_table,
    tokenizer_key,
)
from albert_tf.data.feature_table import TOKENS, FeatureSchema, FeatureTable
from albert_tf.tasks.squad.feature_block import FeatureBlock
from albert_tf.tasks.squad.features import FIRST_UNIQUE_ID, FeatureOptions, paragraphs_with_features
from albert_tf.tasks.squad.question_windows import count_windows, question_writer
from albert_tf.tasks.squad.reading import ReadingNotes, SquadExample, read_paragraphs
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.progress import progress

_TOKEN_PADDING = dict(TOKENS, p_mask=1)
_ANSWER = ("start_positions", "end_positions", "is_impossible")


class FeatureSource(NamedTuple):
    """Everything that features are made from.

    Args:
      input_file: path of the SQuAD JSON file.
      num_questions: number of questions in the file.
      tokenizer, options: see convert_examples_to_features.
      misplaced_answers: see read_squad_examples.
      num_workers: number of processes that make features.
    """

    input_file: str
    num_questions: int
    tokenizer: FullTokenizer
    options: FeatureOptions
    misplaced_answers: str = "find"
    num_workers: int = 1

    def made_from(self) -> dict:
        """Everything that the features depend on, for the manifest. Reads the whole file."""
        options = self.options
        return dict(task="squad", input=fingerprint(self.input_file), **tokenizer_key(self.tokenizer),
                    max_seq_length=options.max_seq_length, doc_stride=options.doc_stride,
                    max_query_length=options.max_query_length, is_training=options.is_training,
                    release_compatible=options.release_compatible,
                    misplaced_answers=self.misplaced_answers if options.is_training else None)

    @property
    def schema(self) -> FeatureSchema:
        """The features of a record."""
        answer = _ANSWER if self.options.is_training else ()
        scalars = {name: tf.int32 for name in ("unique_ids", *answer)}
        return FeatureSchema(self.options.max_seq_length, scalars, _TOKEN_PADDING)

    def paragraphs_with_features(self) -> Iterator[tuple[list[list[SquadExample]], FeatureBlock]]:
        """The features in blocks, each with its paragraphs. Logs the ReadingNotes at the end."""
        notes, done = ReadingNotes(), 0
        paragraphs = read_paragraphs(self.input_file, self.options.is_training, self.misplaced_answers, notes)
        with progress("features", self.num_questions, " questions") as update:
            for made in paragraphs_with_features(paragraphs, self.tokenizer, self.options, self.num_workers):
                yield made
                update(notes.questions - done)
                done = notes.questions
        logging.info("%s: %s", self.input_file, notes)


def training_table(source: FeatureSource, directory: str, path: str | None = None) -> FeatureTable:
    """The features of a training file, from the cache if it has them.

    Args:
      source: what the features are made from.
      directory: folder of the cache.
      path: path of the records (--train_feature_file); None for a file in the cache.

    Raises:
      ValueError: the file is not a SQuAD file, or the records do not match its schema.
    """
    made_from = source.made_from()
    path = path or cache_path(directory, "squad_train", made_from, source.schema)
    return cached_table(path, made_from, source.schema, lambda: _training_records(source))


def prediction_table(
    source: FeatureSource, directory: str, path: str | None = None, questions_path: str | None = None
) -> tuple[FeatureTable | None, str]:
    """The features of a file to predict (None if all contexts are empty), and the path of the questions file.

    If one or both are missing, they are made in one pass over the file.

    Args:
      source, directory: see training_table.
      path: path of the records (--predict_feature_file); None for a file in the cache.
      questions_path: path of the questions file (--predict_feature_left_file); None for a file next to the records.

    Raises:
      ValueError: see training_table; or the two files do not belong together.
    """
    made_from = source.made_from()
    path = path or cache_path(directory, "squad_predict", made_from, source.schema)
    questions_path = questions_path or path.removesuffix(".tfrecord") + ".questions.jsonl"
    count, has_records = count_windows(questions_path, made_from), is_current(path, made_from, source.schema)
    if count is None or (count and not has_records):
        _make_prediction_files(source, made_from, questions_path, None if has_records else path)
        count = count_windows(questions_path, made_from)
    if not count:
        return None, questions_path
    table = read_table(path, source.schema)
    if count != len(table):
        raise ValueError(f"{path} has {len(table):,} features, but {source.input_file} gives {count:,}: they were made "
                         "with other flags, or by the release (then set --release_compatible)")
    return table, questions_path


def _make_prediction_files(source: FeatureSource, made_from: dict, questions_path: str, path: str | None) -> None:
    """Makes the questions file and, at `path`, the records. Makes no record file if there are no features."""
    records, unique_id = None, FIRST_UNIQUE_ID
    with contextlib.ExitStack() as stack:
        questions = stack.enter_context(question_writer(questions_path, made_from))
        for paragraphs, block in source.paragraphs_with_features():
            length = source.options.max_seq_length
            questions.write(paragraphs, block.features(source.tokenizer, length, unique_id, is_training=False))
            if path and len(block):
                records = records or stack.enter_context(cache_writer(path, made_from, source.schema))
                for features in _records(source, block, unique_id):
                    records.write(source.schema.serialize(features))
            unique_id += len(block)


def _training_records(source: FeatureSource) -> Iterator[dict]:
    unique_id = FIRST_UNIQUE_ID
    for _, block in source.paragraphs_with_features():
        yield from _records(source, block, unique_id)
        unique_id += len(block)
    if unique_id == FIRST_UNIQUE_ID:
        raise ValueError(f"{source.input_file} has no question to train on: all were left out (see the log)")


def _records(source: FeatureSource, block: FeatureBlock, first_unique_id: int) -> Iterator[dict]:
    """The features of a block as arguments of FeatureSchema.serialize."""
    padded = block.padded(source.options.max_seq_length, source.tokenizer.pad_id)
    columns = dict(padded, start_positions=block.start_position, end_positions=block.end_position,
                   is_impossible=block.is_impossible)
    for i in range(len(block)):
        yield dict({name: column[i] for name, column in columns.items()}, unique_ids=first_unique_id + i)
