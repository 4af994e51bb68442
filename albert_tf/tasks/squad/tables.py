"""SQuAD features as tables: from cached records, such as squad_predict_1a2b3c.tfrecord.

The records have the model's inputs. The offsets by which answers are extracted are made anew for each run, and kept in
memory.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Callable, Iterable, Iterator, NamedTuple

import tensorflow as tf
from absl import logging

from albert_tf.data.feature_table import TOKENS, FeatureCache, FeatureSchema, FeatureTable
from albert_tf.tasks.squad.features import (
    FIRST_UNIQUE_ID,
    FeatureBlock,
    FeatureOptions,
    SquadFeature,
    feature_blocks,
    features_of_blocks,
)
from albert_tf.tasks.squad.reading import ReadingNotes, SquadExample, SquadFile, read_paragraphs
from albert_tf.utils.progress import progress

_TOKEN_PADDING = dict(TOKENS, p_mask=1)
_ANSWER = ("start_positions", "end_positions", "is_impossible")


class QuestionWindows(NamedTuple):
    """A question with the windows of its paragraph.

    Args:
      qas_id: id of the question.
      paragraph_text: the question's paragraph.
      windows: its features; empty if the paragraph is empty or the question was left out.
    """

    qas_id: str
    paragraph_text: str
    windows: list[SquadFeature]


def training_table(
    cache: FeatureCache, file: SquadFile, options: FeatureOptions, num_workers: int = 1, path: str | None = None
) -> FeatureTable:
    """The features of a training file, from the cache if it has them.

    Args:
      cache: has the tokenizer and the cached records.
      file: the content of the file.
      options: how features are made. Its is_training is replaced by True.
      num_workers: number of processes that make features.
      path: path of the records (--train_feature_file); None for a file in the cache.

    Raises:
      ValueError: the file is not a SQuAD file, or the records do not match its schema.
    """
    options = dataclasses.replace(options, is_training=True)
    return cache.table("squad_train", made_from(file, options), _schema(options),
                       lambda: _training_records(cache, file, options, num_workers), path)


def prediction_table(
    cache: FeatureCache, file: SquadFile, options: FeatureOptions, num_workers: int = 1, path: str | None = None
) -> tuple[FeatureTable | None, list[QuestionWindows]]:
    """The features of a file to predict (None if all contexts are empty), and all questions with their windows.

    Args:
      cache, file, num_workers: see training_table.
      options: how features are made. Its is_training is replaced by False.
      path: path of the records (--predict_feature_file); None for a file in the cache.

    Raises:
      ValueError: see training_table; or the records were made from another file or with other flags.
    """
    options = dataclasses.replace(options, is_training=False)
    examples: list[SquadExample] = []
    blocks = list(_blocks(cache, file, options, num_workers, examples.extend))
    windows: dict[int | None, list[SquadFeature]] = collections.defaultdict(list)
    for feature in features_of_blocks(blocks, cache.tokenizer, options):
        windows[feature.example_index].append(feature)
    questions = [QuestionWindows(example.qas_id, example.paragraph_text, windows[index])
                 for index, example in enumerate(examples)]
    count = sum(map(len, blocks))
    if not count:
        return None, questions
    table = cache.table("squad_predict", made_from(file, options), _schema(options),
                        lambda: _records(cache, options, blocks), path)
    if count != len(table):
        raise ValueError(f"{path or cache.directory} has {len(table):,} features, but {file.path} gives "
                         f"{count:,}: they were made with other flags, or by the release (then set "
                         "--release_compatible)")
    return table, questions


def made_from(file: SquadFile, options: FeatureOptions) -> dict:
    """Everything that the features depend on besides tokenizer and schema."""
    misplaced_answers = options.misplaced_answers if options.is_training else None
    return dict(dataclasses.asdict(options), task="squad", input=file.sha256, misplaced_answers=misplaced_answers)


def _schema(options: FeatureOptions) -> FeatureSchema:
    answer = _ANSWER if options.is_training else ()
    return FeatureSchema(options.max_seq_length, {name: tf.int32 for name in ("unique_ids", *answer)}, _TOKEN_PADDING)


def _blocks(
    cache: FeatureCache, file: SquadFile, options: FeatureOptions, num_workers: int,
    note: Callable[[list[SquadExample]], None] = lambda paragraph: None,
) -> Iterator[FeatureBlock]:
    """The features of a file. Calls `note` with the questions of each paragraph. Logs the ReadingNotes at the end."""
    notes = ReadingNotes()

    def paragraphs() -> Iterator[list[SquadExample]]:
        for paragraph in read_paragraphs(file, options.is_training, options.misplaced_answers, notes):
            note(paragraph)
            yield paragraph
            update(len(paragraph))

    with progress("features", file.summary.questions, " questions") as update:
        yield from feature_blocks(paragraphs(), cache.tokenizer, options, num_workers)
    logging.info("%s: %s", file.path, notes)


def _training_records(
    cache: FeatureCache, file: SquadFile, options: FeatureOptions, num_workers: int
) -> Iterator[dict]:
    is_empty = True
    for features in _records(cache, options, _blocks(cache, file, options, num_workers)):
        yield features
        is_empty = False
    if is_empty:
        raise ValueError(f"{file.path} has no question to train on: all were left out (see the log)")


def _records(cache: FeatureCache, options: FeatureOptions, blocks: Iterable[FeatureBlock]) -> Iterator[dict]:
    """The features of blocks as arguments of FeatureSchema.serialize."""
    unique_id = FIRST_UNIQUE_ID
    for block in blocks:
        padded = block.padded(options.max_seq_length, cache.tokenizer.pad_id)
        columns = dict(padded, start_positions=block.scalars["start_position"],
                       end_positions=block.scalars["end_position"], is_impossible=block.scalars["is_impossible"])
        for i in range(len(block)):
            yield dict({name: column[i] for name, column in columns.items()}, unique_ids=unique_id + i)
        unique_id += len(block)
