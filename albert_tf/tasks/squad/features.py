"""Converts SQuAD questions to features (release: squad_utils.convert_examples_to_features).

A row is [CLS] question [SEP] window of the paragraph [SEP]. A paragraph is tokenised and aligned once for all of its
questions. Several processes can share the work.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Iterable, Iterator, NamedTuple

from absl import logging

from albert_tf.data.worker_pool import worker_pool
from albert_tf.tasks.squad.alignment import AlignedParagraph, align_paragraphs
from albert_tf.tasks.squad.feature_block import NO_ANSWER, BlockBuilder, FeatureBlock, SquadFeature
from albert_tf.tasks.squad.reading import SquadExample
from albert_tf.text.packing import SPECIAL_TOKENS
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.text.windows import windows
from albert_tf.utils.counts import count_of

FIRST_UNIQUE_ID = 1000000000
# The number of questions of a worker's task.
_CHUNK = 256


@dataclasses.dataclass(frozen=True)
class FeatureOptions:
    """How features are made.

    Args:
      max_seq_length: tokens of a row.
      doc_stride: pieces from the start of a window to the start of the next.
      max_query_length: the largest number of pieces of a question; longer questions are truncated.
      is_training: whether examples have answers.
      release_compatible: whether to leave out the questions of paragraphs that the release cannot align.

    Raises:
      ValueError: a length is not positive, the longest question leaves no tokens for the paragraph, or doc_stride is
        larger than the window that the longest question leaves, so that windows would not overlap.
    """

    max_seq_length: int
    doc_stride: int
    max_query_length: int
    is_training: bool
    release_compatible: bool = False

    def __post_init__(self):
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


def default_doc_stride(max_seq_length: int, max_query_length: int) -> int:
    """The release's default, 128 pieces, or the length of a window if that is less, so that windows leave no gap."""
    return max(1, min(128, max_seq_length - max_query_length - SPECIAL_TOKENS))


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
    return _features(paragraphs, tokenizer, options)


def _features(paragraphs, tokenizer: FullTokenizer, options: FeatureOptions) -> Iterator[SquadFeature]:
    unique_id = FIRST_UNIQUE_ID
    for block in feature_blocks(paragraphs, tokenizer, options):
        for feature in block.features(tokenizer, options.max_seq_length, unique_id, options.is_training):
            yield feature
        unique_id += len(block)


def feature_blocks(
    paragraphs: Iterable[list[SquadExample]], tokenizer: FullTokenizer, options: FeatureOptions, num_workers: int = 1,
) -> Iterator[FeatureBlock]:
    """The features of all paragraphs' questions, in order, in blocks.

    Args:
      paragraphs: the result of reading.read_paragraphs.
      tokenizer, options: see convert_examples_to_features.
      num_workers: number of processes that make features.
    """
    return (block for _, block in paragraphs_with_features(paragraphs, tokenizer, options, num_workers))


def paragraphs_with_features(
    paragraphs: Iterable[list[SquadExample]], tokenizer: FullTokenizer, options: FeatureOptions, num_workers: int = 1,
) -> Iterator[tuple[list[list[SquadExample]], FeatureBlock]]:
    """The same as feature_blocks, each block with its paragraphs."""
    left_out = 0
    chunks, tasks = itertools.tee(_chunks(paragraphs))
    with worker_pool(num_workers, _Worker, tokenizer, options) as run:
        for (block, unplaced), (chunk, _) in zip(run(_features_of_chunk, tasks), chunks):
            left_out += unplaced
            yield chunk, block
    if left_out:
        logging.warning("%s left out, whose answer or paragraph could not be aligned, or whose paragraph is empty",
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


# --- what runs in the workers ----------------------------------------------------------------------------------------

class _Worker(NamedTuple):
    """The state of a worker."""

    tokenizer: FullTokenizer
    options: FeatureOptions


def _features_of_chunk(
    worker: _Worker, paragraphs: list[list[SquadExample]], example_index: int,
) -> tuple[FeatureBlock, int]:
    """The features of a group of paragraphs, and how many questions were left out."""
    tokenizer, options = worker
    aligned = align_paragraphs(tokenizer, [examples[0].paragraph_text for examples in paragraphs])
    queries = iter(tokenizer.encode_batch([example.question_text for examples in paragraphs for example in examples]))
    builder, left_out = BlockBuilder(tokenizer), 0
    for examples, paragraph in zip(paragraphs, aligned):
        is_dropped = options.release_compatible and not paragraph.is_matched
        for example in examples:
            query = next(queries)[: options.max_query_length]
            span = _answer_span(example, paragraph) if options.is_training else NO_ANSWER
            if is_dropped or span is None:
                left_out += 1
            else:
                builder.add(example.qas_id, example_index, query, paragraph, span,
                            windows(len(paragraph.ids), options.max_seq_length - len(query) - SPECIAL_TOKENS,
                                    options.doc_stride))
            example_index += 1
    return builder.block(), left_out


def _answer_span(example: SquadExample, paragraph: AlignedParagraph) -> tuple[int, int] | None:
    """The first and last piece of the answer; NO_ANSWER if there is none; None if the question must be left out."""
    if not len(paragraph.ids):
        return None
    if example.is_impossible:
        return NO_ANSWER
    answer, start = example.answer
    span = paragraph.pieces_of(start, start + len(answer) - 1)
    return span if span[0] <= span[1] else None
