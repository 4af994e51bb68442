"""SQuAD features as cached records, and for prediction beside them, as JSON lines, where tokens stand in the text.

    squad_1a2b3c.tfrecord          what the model reads
    squad_1a2b3c.left.jsonl        what answers are cut out by: a line for each feature, with a manifest

The release keeps the second part as a pickle (predict_feature_left_file).
"""

from __future__ import annotations

import json
from typing import Iterator, NamedTuple

import tensorflow as tf
from absl import logging

from albert_tf.data.feature_cache import cache_path, cached_table, fingerprint, tokenizer_key
from albert_tf.data.feature_table import TOKENS, FeatureSchema, FeatureTable
from albert_tf.data.records import check_records, manifest_path
from albert_tf.data.squad.feature_block import FeatureBlock
from albert_tf.data.squad.features import FIRST_UNIQUE_ID, FeatureOptions, feature_blocks
from albert_tf.data.squad.reading import ReadingNotes, read_paragraphs
from albert_tf.files import write_text, written_whole
from albert_tf.progress import progress
from albert_tf.text.tokenization import FullTokenizer

_TOKEN_PADDING = dict(TOKENS, p_mask=1)
_ANSWER = ("start_positions", "end_positions", "is_impossible")


class WindowPlaces(NamedTuple):
    """Where a feature's tokens stand in the original paragraph. A SquadFeature has all of it, and will do as well.

    Args:
      qas_id: its question.
      doc_offset: the first token of the paragraph.
      starts, ends: [pieces of the window], first and last original character of each.
      is_max_context: [pieces of the window], whether a piece has more context here than in other windows.
    """

    qas_id: str
    doc_offset: int
    starts: list[int]
    ends: list[int]
    is_max_context: list[bool]


class FeatureSource(NamedTuple):
    """What features are made of.

    Args:
      input_file: the JSON.
      num_questions: its questions.
      tokenizer, options: see convert_examples_to_features.
      misplaced_answers: see read_squad_examples.
      num_workers: processes.
    """

    input_file: str
    num_questions: int
    tokenizer: FullTokenizer
    options: FeatureOptions
    misplaced_answers: str = "find"
    num_workers: int = 1

    @property
    def made_from(self) -> dict:
        options = self.options
        return dict(task="squad", input=fingerprint(self.input_file), **tokenizer_key(self.tokenizer),
                    max_seq_length=options.max_seq_length, doc_stride=options.doc_stride,
                    max_query_length=options.max_query_length, is_training=options.is_training,
                    release_compatible=options.release_compatible,
                    misplaced_answers=self.misplaced_answers if options.is_training else None)

    @property
    def schema(self) -> FeatureSchema:
        answer = _ANSWER if self.options.is_training else ()
        scalars = {name: tf.int32 for name in ("unique_ids", *answer)}
        return FeatureSchema(self.options.max_seq_length, scalars, _TOKEN_PADDING)

    def blocks(self) -> Iterator[FeatureBlock]:
        """The features; what happened to questions is logged at the end."""
        notes, done = ReadingNotes(), 0
        paragraphs = read_paragraphs(self.input_file, self.options.is_training, self.misplaced_answers, notes)
        with progress("features", self.num_questions, " questions") as update:
            for block in feature_blocks(paragraphs, self.tokenizer, self.options, self.num_workers):
                yield block
                update(notes.questions - done)
                done = notes.questions
        logging.info("%s: %s", self.input_file, notes)


def training_table(source: FeatureSource, directory: str, path: str | None = None) -> FeatureTable:
    """The features of a training file, from the cache or made.

    Args:
      source: what they are made of.
      directory: of the cache.
      path: of records of the user's choice (--train_feature_file).

    Raises:
      ValueError: the file is no SQuAD file, or records are of another kind.
    """
    path = path or cache_path(directory, "squad_train", source.made_from, source.schema)
    return cached_table(path, source.made_from, source.schema, lambda: _records(source))


def prediction_table(
    source: FeatureSource, directory: str, path: str | None = None, left_path: str | None = None
) -> tuple[FeatureTable | None, str]:
    """The features of a file to predict (None: it has only empty contexts), and the path of their left part.

    Args:
      source, directory, path: as for training_table (--predict_feature_file).
      left_path: of JSON lines of the user's choice (--predict_feature_left_file).

    Raises:
      ValueError: as training_table, or the two parts do not belong together.
    """
    made_from = source.made_from
    path = path or cache_path(directory, "squad_predict", made_from, source.schema)
    left_path = left_path or path.removesuffix(".tfrecord") + ".left.jsonl"
    if not _is_current(left_path, made_from):
        _write_left_part(source, left_path)
    count = _count(left_path)
    if not count:
        return None, left_path
    table = cached_table(path, made_from, source.schema, lambda: _records(source))
    if count != len(table):
        raise ValueError(f"{path} has {len(table):,} features, and {source.input_file} gives {count:,}: they were made "
                         "with other flags, or by the release, which wants --release_compatible")
    return table, left_path


def read_left_part(path: str) -> Iterator[WindowPlaces]:
    """What prediction_table wrote, line by line."""
    with tf.io.gfile.GFile(path) as file:
        for line in file:
            part = json.loads(line)
            yield WindowPlaces(part["qas_id"], part["doc_offset"], part["starts"], part["ends"],
                               [mark == "1" for mark in part["is_max_context"]])


def _records(source: FeatureSource) -> Iterator[dict]:
    """The features as FeatureSchema.serialize takes them."""
    unique_id = FIRST_UNIQUE_ID
    for block in source.blocks():
        padded = block.padded(source.options.max_seq_length, source.tokenizer.pad_id)
        columns = dict(padded, start_positions=block.start_position, end_positions=block.end_position,
                       is_impossible=block.is_impossible)
        for i in range(len(block)):
            yield dict({name: column[i] for name, column in columns.items()}, unique_ids=unique_id + i)
        unique_id += len(block)
    if unique_id == FIRST_UNIQUE_ID:
        raise ValueError(f"{source.input_file} has no question to train on: all were left out")


def _write_left_part(source: FeatureSource, path: str) -> None:
    count = 0
    with written_whole(path) as temporary:
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write("")  # without any feature there is a file too
            for block in source.blocks():
                for feature in block.features(source.tokenizer, source.options.max_seq_length, 0, is_training=False):
                    marks = "".join("1" if mark else "0" for mark in feature.is_max_context.tolist())
                    file.write(json.dumps(dict(
                        qas_id=feature.qas_id, doc_offset=feature.doc_offset, starts=feature.starts.tolist(),
                        ends=feature.ends.tolist(), is_max_context=marks)) + "\n")
                count += len(block)
        size = tf.io.gfile.stat(temporary).length
    write_text(manifest_path(path), json.dumps(dict(count=count, size=size, made_from=source.made_from)))


def _count(left_path: str) -> int:
    with tf.io.gfile.GFile(left_path) as file:
        return sum(1 for _ in file)


def _is_current(left_path: str, made_from: dict) -> bool:
    if not tf.io.gfile.exists(left_path):
        return False
    if not tf.io.gfile.stat(left_path).length:  # of empty contexts: made in no time
        return False
    try:
        return check_records([left_path])[0].made_from == made_from
    except ValueError as error:
        logging.warning("%s", error)
        return False
