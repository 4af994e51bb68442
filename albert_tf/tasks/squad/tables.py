"""SQuAD features as tables: for training from cached records, such as squad_train_1a2b3c.tfrecord.

For prediction they are made in memory, with the offsets by which answers are extracted.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Callable, Iterable, Iterator, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.data.feature_table import TOKENS, FeatureCache, FeatureSchema, FeatureTable, without_padding
from albert_tf.tasks.squad.features import (
    FIRST_UNIQUE_ID,
    FeatureBlock,
    FeatureOptions,
    SquadFeature,
    feature_blocks,
    features_of_blocks,
)
from albert_tf.tasks.squad.reading import ReadingNotes, SquadExample, SquadFile, read_paragraphs
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.progress import progress

_TOKEN_PADDING = dict(TOKENS, p_mask=1)
_ANSWER = dict(start_positions="start_position", end_positions="end_position", is_impossible="is_impossible")


class QuestionWindows(NamedTuple):
    """A question with the windows of its paragraph: none if the paragraph is empty or the question was left out."""

    qas_id: str
    paragraph_text: str
    windows: list[SquadFeature]


def training_table(
    cache: FeatureCache, file: SquadFile, options: FeatureOptions, num_workers: int = 1, path: str | None = None
) -> FeatureTable:
    """The features of a training file, from the cache, or from the records at `path` (--train_feature_file)."""
    options = dataclasses.replace(options, is_training=True)
    return cache.table("squad_train", made_from(file, options), _schema(options),
                       lambda: _records(cache.tokenizer, file, options, num_workers), path)


def prediction_table(
    tokenizer: FullTokenizer, file: SquadFile, options: FeatureOptions, num_workers: int = 1
) -> tuple[FeatureTable | None, list[QuestionWindows]]:
    """The features of a file to predict (None if all contexts are empty), and all questions with their windows."""
    options = dataclasses.replace(options, is_training=False)
    examples: list[SquadExample] = []
    blocks = list(_blocks(tokenizer, file, options, num_workers, examples.extend))
    windows: dict[int | None, list[SquadFeature]] = collections.defaultdict(list)
    for feature in features_of_blocks(blocks, tokenizer, options):
        windows[feature.example_index].append(feature)
    questions = [QuestionWindows(example.qas_id, example.paragraph_text, windows[index])
                 for index, example in enumerate(examples)]
    schema, columns = _schema(options), _columns(blocks, tokenizer, options)
    parts = [without_padding(part, schema) for part in columns if len(part["unique_ids"])]
    return FeatureTable.joined(parts, schema) if parts else None, questions


def made_from(file: SquadFile, options: FeatureOptions) -> dict:
    """Everything that training features depend on besides tokenizer and schema."""
    return dict(dataclasses.asdict(options), task="squad", input=file.sha256)


def _schema(options: FeatureOptions) -> FeatureSchema:
    answer = list(_ANSWER) if options.is_training else []
    return FeatureSchema(options.max_seq_length, {name: tf.int32 for name in ("unique_ids", *answer)}, _TOKEN_PADDING)


def _blocks(
    tokenizer: FullTokenizer, file: SquadFile, options: FeatureOptions, num_workers: int,
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
        yield from feature_blocks(paragraphs(), tokenizer, options, num_workers)
    logging.info("%s: %s", file.path, notes)


def _records(
    tokenizer: FullTokenizer, file: SquadFile, options: FeatureOptions, num_workers: int
) -> Iterator[dict]:
    """The training features of a file as arguments of FeatureSchema.serialize."""
    is_empty = True
    for columns in _columns(_blocks(tokenizer, file, options, num_workers), tokenizer, options):
        for row in zip(*columns.values()):
            yield dict(zip(columns, row))
            is_empty = False
    if is_empty:
        raise ValueError(f"{file.path} has no question to train on: all were left out (see the log)")


def _columns(
    blocks: Iterable[FeatureBlock], tokenizer: FullTokenizer, options: FeatureOptions
) -> Iterator[dict[str, np.ndarray]]:
    """The padded features of each block by the names of the schema: [features, max_seq_length] or [features]."""
    unique_id = FIRST_UNIQUE_ID
    for block in blocks:
        answer = {name: block.scalars[field] for name, field in _ANSWER.items()} if options.is_training else {}
        yield dict(block.padded(options.max_seq_length, tokenizer.pad_id), **answer,
                   unique_ids=np.arange(unique_id, unique_id + len(block)))
        unique_id += len(block)
