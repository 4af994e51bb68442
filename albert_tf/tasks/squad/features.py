"""Converts SQuAD questions to features (release: squad_utils.convert_examples_to_features).

A row is [CLS] question [SEP] window of the paragraph [SEP]. A paragraph is tokenised and aligned once for all of its
questions. Several processes can share the work. Their results are blocks: a few flat arrays, which can be sent between
processes and written to records without a Python object per token. A SquadFeature is a view of one feature.

The table of a training file is cached as records, such as squad_train_1a2b3c.tfrecord. For prediction, tables are made
in memory, with the offsets by which answers are extracted.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import Callable, Iterable, Iterator, NamedTuple

import numpy as np
from absl import logging

from albert_tf.data.feature_table import TOKENS, FeatureCache, FeatureSchema, FeatureTable, without_padding
from albert_tf.data.worker_pool import worker_pool
from albert_tf.tasks.squad.alignment import AlignedParagraph, align_paragraphs
from albert_tf.tasks.squad.reading import ReadingNotes, SquadExample, SquadFile, read_paragraphs
from albert_tf.text.packing import SPECIAL_TOKENS, SpecialTokens, Window, windows
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.progress import count_of, progress

FIRST_UNIQUE_ID = 1000000000
NO_ANSWER = (-1, -1)  # the span, in pieces of the paragraph, of a question that has no answer
_CHUNK = 256  # questions of a worker's task


@dataclasses.dataclass(frozen=True)
class FeatureOptions:
    """How features are made."""

    max_seq_length: int  # tokens of a row
    doc_stride: int  # pieces from the start of a window to the start of the next
    max_query_length: int  # the largest number of pieces of a question; longer questions are truncated
    is_training: bool = False
    release_compatible: bool = False  # whether to leave out the questions of paragraphs that the release cannot align

    def __post_init__(self) -> None:
        if self.max_query_length < 1 or self.doc_stride < 1:
            raise ValueError("max_query_length and doc_stride must be at least 1. "
                             f"Received: {self.max_query_length}, {self.doc_stride}")
        if self.max_seq_length <= self.max_query_length + SPECIAL_TOKENS:
            raise ValueError(f"max_seq_length={self.max_seq_length} leaves no tokens for a paragraph after a question "
                             f"of max_query_length={self.max_query_length} and {SPECIAL_TOKENS} special tokens: set a "
                             "larger --max_seq_length or a smaller --max_query_length")
        shortest_window = self.max_seq_length - self.max_query_length - SPECIAL_TOKENS
        if self.doc_stride > shortest_window:
            raise ValueError(f"doc_stride={self.doc_stride} is more than the {shortest_window} pieces of a window "
                             f"besides the longest question (max_seq_length={self.max_seq_length}, max_query_length="
                             f"{self.max_query_length}): windows would not overlap, and answers across two of them "
                             f"would be lost. Use a doc_stride of at most {shortest_window}")


def default_doc_stride(max_seq_length: int, max_query_length: int, most: int = 128) -> int:
    """`most` pieces (128 in the release), or a window's pieces if they are fewer, so that windows leave no gap."""
    return max(1, min(most, max_seq_length - max_query_length - SPECIAL_TOKENS))


def convert_examples_to_features(
    examples: Iterable[SquadExample], tokenizer: FullTokenizer, max_seq_length: int, doc_stride: int,
    max_query_length: int, is_training: bool, release_compatible: bool = False,
) -> Iterator[SquadFeature]:
    """The features of questions, in order. A question has one feature per window of its paragraph.

    Args:
      examples: the result of read_squad_examples. Consecutive questions of a paragraph share its tokenisation.
      tokenizer: the model's tokenizer.
      max_seq_length, doc_stride, max_query_length, is_training, release_compatible: see FeatureOptions.

    Raises:
      ValueError: see FeatureOptions.
    """
    options = FeatureOptions(max_seq_length, doc_stride, max_query_length, is_training, release_compatible)
    paragraphs = (list(group) for _, group in itertools.groupby(examples, key=lambda example: example.paragraph_text))
    return features_of_blocks(feature_blocks(paragraphs, tokenizer, options), tokenizer, options)


def features_of_blocks(
    blocks: Iterable[FeatureBlock], tokenizer: FullTokenizer, options: FeatureOptions
) -> Iterator[SquadFeature]:
    """The features of blocks one by one, with consecutive ids."""
    unique_ids, is_training = itertools.count(FIRST_UNIQUE_ID), options.is_training
    for block in blocks:
        tokens = np.cumsum(block.scalars["length"])[:-1]
        pieces = np.cumsum(block.scalars["length"] - block.scalars["doc_offset"] - 1)[:-1]
        arrays = [np.split(block.token_ids, tokens),
                  *(np.split(values, pieces) for values in (block.starts, block.ends, block.is_max_context))]
        rows = zip(block.qas_ids, block.scalars.tolist(), *arrays)
        for qas_id, scalars, token_ids, starts, ends, is_max_context in rows:
            example_index, doc_span_index, _, doc_offset, start, end, is_impossible = scalars
            yield SquadFeature(
                next(unique_ids), qas_id, None if is_training else example_index, doc_span_index, token_ids, doc_offset,
                starts, ends, is_max_context, start if is_training else None, end if is_training else None,
                is_training and bool(is_impossible), tokenizer, options.max_seq_length)


def feature_blocks(
    paragraphs: Iterable[list[SquadExample]], tokenizer: FullTokenizer, options: FeatureOptions, num_workers: int = 1,
) -> Iterator[FeatureBlock]:
    """The features of all paragraphs' questions, in order, in blocks. Each paragraph is a list of its questions."""
    left_out = 0
    with worker_pool(num_workers, _Worker, tokenizer, options) as run:
        for block, unplaced in run(_features_of_chunk, _chunks(paragraphs)):
            left_out += unplaced
            yield block
    if left_out:
        logging.warning("%s left out: the answer or paragraph could not be aligned, or the paragraph is empty",
                        count_of(left_out, "question"))


def _chunks(paragraphs: Iterable[list[SquadExample]]) -> Iterator[tuple[list[list[SquadExample]], int]]:
    """Groups of paragraphs with at least _CHUNK questions in total, and the index of each group's first question."""
    chunk, first, count = [], 0, 0
    for examples in paragraphs:
        chunk.append(examples)
        count += len(examples)
        if count >= _CHUNK:
            yield chunk, first
            chunk, first, count = [], first + count, 0
    if chunk:
        yield chunk, first



class _Worker(NamedTuple):
    """The state of a worker."""

    tokenizer: FullTokenizer
    options: FeatureOptions


def _features_of_chunk(
    worker: _Worker, paragraphs: list[list[SquadExample]], example_index: int,
) -> tuple[FeatureBlock, int]:
    """The features of a group of paragraphs, and how many questions were left out."""
    tokenizer, options = worker
    if not tokenizer.special_tokens.are_berts:
        raise ValueError(f"rows of questions are [CLS] question [SEP] paragraph [SEP], and {tokenizer.vocabulary_file} "
                         "makes others: its model cannot answer questions")
    aligned = align_paragraphs(tokenizer, [examples[0].paragraph_text for examples in paragraphs])
    queries = iter(tokenizer.encode_batch([example.question_text for examples in paragraphs for example in examples]))
    rows, left_out = [], 0
    for examples, paragraph in zip(paragraphs, aligned):
        is_dropped = options.release_compatible and not paragraph.is_matched
        for example in examples:
            query = next(queries)[: options.max_query_length]
            answer = _answer_span(example, paragraph) if options.is_training else NO_ANSWER
            if is_dropped or answer is None:
                left_out += 1
            else:
                length = options.max_seq_length - len(query) - SPECIAL_TOKENS
                for index, window in enumerate(windows(len(paragraph.ids), length, options.doc_stride)):
                    row = _row(example_index, index, query, paragraph, window, answer, tokenizer.special_tokens)
                    rows.append((example.qas_id, *row))
            example_index += 1
    return FeatureBlock.of(rows), left_out


def _row(
    example_index: int, doc_span_index: int, query: np.ndarray, paragraph: AlignedParagraph, window: Window,
    answer: tuple[int, int], special_tokens: SpecialTokens,
) -> tuple:
    """The scalars and arrays of a feature: see FeatureBlock. `answer` is its first and last piece of the paragraph."""
    doc_offset, here = len(query) + 2, slice(window.first, window.first + window.length)
    has_answer = window.first <= answer[0] and answer[1] < here.stop
    start, end = (doc_offset - window.first + piece if has_answer else 0 for piece in answer)
    scalars = example_index, doc_span_index, doc_offset + window.length + 1, doc_offset, start, end, not has_answer
    token_ids = special_tokens.around(query, paragraph.ids[here])
    return scalars, token_ids, paragraph.starts[here], paragraph.ends[here], window.is_max_context


def _answer_span(example: SquadExample, paragraph: AlignedParagraph) -> tuple[int, int] | None:
    """The first and last piece of the answer; NO_ANSWER if there is none; None if the question must be left out."""
    if not len(paragraph.ids):
        return None
    if example.is_impossible:
        return NO_ANSWER
    answer, start = example.answer
    span = paragraph.pieces_of(start, start + len(answer) - 1)
    return span if span[0] <= span[1] else None


# The index of the question, and of the window in its paragraph; the number of tokens without padding; the index of the
# paragraph's first token; in training the answer's first and last token, 0 if the window does not have the answer, and
# 1 if the window does not have it.
_SCALARS = np.dtype([(name, np.int32) for name in (
    "example_index", "doc_span_index", "length", "doc_offset", "start_position", "end_position", "is_impossible")])


@dataclasses.dataclass(frozen=True)
class FeatureBlock:
    """Several features as flat arrays."""

    qas_ids: list[str]
    scalars: np.ndarray  # a record [features] with the fields of _SCALARS
    token_ids: np.ndarray  # int32 [tokens of all features]
    starts: np.ndarray  # int32 [pieces of all windows]; see AlignedParagraph
    ends: np.ndarray  # int32 [pieces of all windows]
    is_max_context: np.ndarray  # bool [pieces of all windows]; see Window

    def __len__(self) -> int:
        return len(self.qas_ids)

    @classmethod
    def of(cls, rows: list[tuple]) -> FeatureBlock:
        """The block of several features, each a tuple of its values in the order of the fields."""
        arrays = zip(*(row[2:] for row in rows)) if rows else [[np.zeros(0, np.int32)]] * 4
        return cls([row[0] for row in rows], np.array([row[1] for row in rows], _SCALARS), *map(np.concatenate, arrays))

    def padded(self, max_seq_length: int, pad_id: int) -> dict[str, np.ndarray]:
        """input_ids, input_mask, segment_ids and p_mask, int32 [features, max_seq_length]."""
        position = np.arange(max_seq_length, dtype=np.int32)
        lengths, doc_offset = self.scalars["length"][:, None], self.scalars["doc_offset"][:, None]
        is_token = position < lengths
        input_ids = np.full(is_token.shape, pad_id, np.int32)
        input_ids[is_token] = self.token_ids
        after_query = position >= doc_offset
        p_mask = ~(after_query & (position < lengths - 1))
        p_mask[:, 0] = False  # [CLS] means no answer
        masks = dict(input_mask=is_token, segment_ids=after_query & is_token, p_mask=p_mask)
        return dict({name: mask.astype(np.int32) for name, mask in masks.items()}, input_ids=input_ids)


@dataclasses.dataclass
class SquadFeature:
    """A question and a window of its paragraph, with the release's field names."""

    unique_id: int
    qas_id: str
    example_index: int | None  # of the question; None in training, as in the release
    doc_span_index: int  # of the window in its paragraph
    token_ids: np.ndarray
    doc_offset: int
    starts: np.ndarray  # [pieces of the window], as ends and is_max_context; see AlignedParagraph and Window
    ends: np.ndarray
    is_max_context: np.ndarray
    start_position: int | None  # of the answer, in tokens; 0 if the window does not have it; None in prediction
    end_position: int | None
    is_impossible: bool  # in training, whether the window does not have the answer
    tokenizer: FullTokenizer = dataclasses.field(repr=False)
    max_seq_length: int

    @property
    def paragraph_len(self) -> int:
        """The number of tokens without padding."""
        return len(self.token_ids)

    @property
    def tok_start_to_orig_index(self) -> list[int]:
        """The offset of the first original character of each piece of the window."""
        return self.starts.tolist()

    @property
    def tok_end_to_orig_index(self) -> list[int]:
        """The offset of the last original character of each piece of the window."""
        return self.ends.tolist()

    @property
    def token_is_max_context(self) -> dict[int, bool]:
        """is_max_context by the index of the token."""
        return dict(enumerate(self.is_max_context.tolist(), start=self.doc_offset))

    @property
    def tokens(self) -> list[str]:
        """The pieces of input_ids, including padding."""
        return self.tokenizer.convert_ids_to_tokens(self.input_ids)

    @property
    def input_ids(self) -> list[int]:
        """The padded token ids, [max_seq_length]."""
        return self.token_ids.tolist() + [self.tokenizer.pad_id] * self._padding

    @property
    def input_mask(self) -> list[int]:
        """1 for tokens and 0 for padding, [max_seq_length]."""
        return [1] * self.paragraph_len + [0] * self._padding

    @property
    def segment_ids(self) -> list[int]:
        """1 for the paragraph and its [SEP], 0 for other tokens, [max_seq_length]."""
        return [0] * self.doc_offset + [1] * (self.paragraph_len - self.doc_offset) + [0] * self._padding

    @property
    def p_mask(self) -> list[int]:
        """1 for tokens where no answer may start or end: question, [SEP] and padding. [CLS] (no answer) has 0."""
        return [0] + [1] * (self.doc_offset - 1) + [0] * len(self.starts) + [1] * (1 + self._padding)

    @property
    def _padding(self) -> int:
        return self.max_seq_length - self.paragraph_len


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
    schema, columns = _schema(options), _columns(blocks, tokenizer, options)
    parts = [without_padding(part, schema) for part in columns if len(part["unique_ids"])]
    return (FeatureTable.joined(parts, schema) if parts else None,
            question_windows(examples, blocks, tokenizer, options))


def question_windows(
    examples: Iterable[SquadExample], blocks: Iterable[FeatureBlock], tokenizer: FullTokenizer, options: FeatureOptions
) -> list[QuestionWindows]:
    """All questions with their windows, which are in the blocks."""
    windows: dict[int | None, list[SquadFeature]] = collections.defaultdict(list)
    for feature in features_of_blocks(blocks, tokenizer, options):
        windows[feature.example_index].append(feature)
    return [QuestionWindows(example.qas_id, example.paragraph_text, windows[index])
            for index, example in enumerate(examples)]


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
        for paragraph in read_paragraphs(file, options.is_training, notes):
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
    count = 0
    for columns in _columns(_blocks(tokenizer, file, options, num_workers), tokenizer, options):
        count += len(columns["unique_ids"])
        yield from (dict(zip(columns, row)) for row in zip(*columns.values()))
    if not count:
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
