"""SQuAD features as tables: from cached records, such as squad_predict_1a2b3c.tfrecord.

The records have the model's inputs. The offsets by which answers are extracted are made anew for each run, and kept in
memory.
"""

from __future__ import annotations

from typing import Iterable, Iterator, NamedTuple

import tensorflow as tf
from absl import logging

from albert_tf.data.feature_cache import cache_path, cached_table, tokenizer_key
from albert_tf.data.feature_table import TOKENS, FeatureSchema, FeatureTable
from albert_tf.tasks.squad.features import (
    FIRST_UNIQUE_ID,
    FeatureBlock,
    FeatureOptions,
    QuestionWindows,
    paragraphs_with_features,
    question_windows,
)
from albert_tf.tasks.squad.reading import ReadingNotes, SquadExample, SquadFile, read_paragraphs
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.progress import progress

_TOKEN_PADDING = dict(TOKENS, p_mask=1)
_ANSWER = ("start_positions", "end_positions", "is_impossible")


class FeatureSource(NamedTuple):
    """Everything that features are made from.

    Args:
      file: the content of the SQuAD file.
      tokenizer, options: see convert_examples_to_features.
      misplaced_answers: see read_squad_examples.
      num_workers: number of processes that make features.
    """

    file: SquadFile
    tokenizer: FullTokenizer
    options: FeatureOptions
    misplaced_answers: str = "find"
    num_workers: int = 1

    def made_from(self) -> dict:
        """Everything that the features depend on, for the manifest."""
        options = self.options
        return dict(task="squad", input=self.file.sha256, **tokenizer_key(self.tokenizer),
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
        notes = ReadingNotes()
        paragraphs = read_paragraphs(self.file, self.options.is_training, self.misplaced_answers, notes)
        with progress("features", self.file.summary.questions, " questions") as update:
            for chunk, block in paragraphs_with_features(paragraphs, self.tokenizer, self.options, self.num_workers):
                yield chunk, block
                update(sum(map(len, chunk)))
        logging.info("%s: %s", self.file.path, notes)


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
    source: FeatureSource, directory: str, path: str | None = None
) -> tuple[FeatureTable | None, list[QuestionWindows]]:
    """The features of a file to predict (None if all contexts are empty), and all questions with their windows.

    Args:
      source, directory: see training_table.
      path: path of the records (--predict_feature_file); None for a file in the cache.

    Raises:
      ValueError: see training_table; or the records were made from another file or with other flags.
    """
    questions, blocks, count = [], [], 0
    for paragraphs, block in source.paragraphs_with_features():
        windows = block.features(source.tokenizer, source.options.max_seq_length, FIRST_UNIQUE_ID + count, False)
        questions += question_windows(paragraphs, windows)
        blocks.append(block)
        count += len(block)
    if not count:
        return None, questions
    made_from = source.made_from()
    path = path or cache_path(directory, "squad_predict", made_from, source.schema)
    table = cached_table(path, made_from, source.schema, lambda: _records(source, blocks))
    if count != len(table):
        raise ValueError(f"{path} has {len(table):,} features, but {source.file.path} gives {count:,}: they were made "
                         "with other flags, or by the release (then set --release_compatible)")
    return table, questions


def _training_records(source: FeatureSource) -> Iterator[dict]:
    is_empty = True
    for features in _records(source, (block for _, block in source.paragraphs_with_features())):
        yield features
        is_empty = False
    if is_empty:
        raise ValueError(f"{source.file.path} has no question to train on: all were left out (see the log)")


def _records(source: FeatureSource, blocks: Iterable[FeatureBlock]) -> Iterator[dict]:
    """The features of blocks as arguments of FeatureSchema.serialize."""
    unique_id = FIRST_UNIQUE_ID
    for block in blocks:
        padded = block.padded(source.options.max_seq_length, source.tokenizer.pad_id)
        columns = dict(padded, start_positions=block.start_position, end_positions=block.end_position,
                       is_impossible=block.is_impossible)
        for i in range(len(block)):
            yield dict({name: column[i] for name, column in columns.items()}, unique_ids=unique_id + i)
        unique_id += len(block)
