"""Features of tagged words (reading.py reads the files).

A row of features is [CLS] pieces [SEP]. Each word is tokenized separately. A sentence that is too long for a row is
split into overlapping windows, and each piece is labelled only in the window where it has the most context. Besides
input_ids, input_mask and segment_ids, a row has

  first_pieces  1 for the first piece of a word, which has the word's tag; 0 for other tokens
  tag_ids       the id of the word's tag, from 1; 0 for other tokens, and for an unknown tag
"""

from __future__ import annotations

import dataclasses
from typing import Iterator, Mapping, Sequence

import numpy as np

from albert_tf.data.feature_table import TOKENS, FeatureCache, FeatureSchema, FeatureTable, digest
from albert_tf.data.worker_pool import chunks
from albert_tf.tasks.tagging.reading import Sentence, TaggedText
from albert_tf.text.packing import SpecialTokens, stride_or_half, windows
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils import bounds
from albert_tf.utils.imports import tensorflow as tf

SPECIAL_TOKENS = 2
_CHUNK = 1000  # sentences that are tokenized in one call


@dataclasses.dataclass(frozen=True)
class TaggingFeatureOptions:
    """How features are made."""

    max_seq_length: int
    doc_stride: int = 0  # pieces from the start of a window to the start of the next; 0 for half a window

    def __post_init__(self) -> None:
        bounds.SEQ_LENGTH.at_least(SPECIAL_TOKENS + 1).check("max_seq_length", self.max_seq_length)
        if not 0 <= self.doc_stride <= self.window_length:
            raise ValueError(f"doc_stride must be from 0 to {self.window_length}, the pieces of a window. "
                             f"Received: {self.doc_stride}")

    @property
    def window_length(self) -> int:
        """The largest number of pieces of a window."""
        return self.max_seq_length - SPECIAL_TOKENS

    @property
    def stride(self) -> int:
        """doc_stride, or half a window if doc_stride is 0."""
        return stride_or_half(self.doc_stride, self.window_length)


def convert_sentences_to_features(
    sentences: Sequence[Sentence], label_names: Sequence[str], tokenizer: FullTokenizer, options: TaggingFeatureOptions
) -> Iterator[dict[str, list[int] | int]]:
    """The rows of each sentence, in order, with `sentence`, its index. For the other features see above."""
    tag_ids = {name: number for number, name in enumerate(label_names, start=1)}
    for chunk in chunks(enumerate(sentences), _CHUNK):
        words = sorted({word for _, sentence in chunk for word in sentence.words})
        # A word that is empty after normalisation becomes an unknown piece, so that it has a tag.
        encoded = tokenizer.encode_batch(words)
        pieces_of = {word: ids.tolist() or [tokenizer.unk_id] for word, ids in zip(words, encoded)}
        for number, sentence in chunk:
            for row in _rows(sentence, pieces_of, tag_ids, tokenizer.special_tokens, options):
                yield dict(row, sentence=number)


def feature_table(
    cache: FeatureCache, text: TaggedText, split: str, label_names: Sequence[str], options: TaggingFeatureOptions
) -> FeatureTable:
    """The features of a file. The split is part of the name of the cached file."""
    content = repr([(sentence.words, sentence.tags) for sentence in text.sentences])
    made_from = dict(sentences=digest(content.encode("utf-8", "surrogatepass")), label_names=list(label_names),
                     **dataclasses.asdict(options))
    schema = FeatureSchema(options.max_seq_length, dict(sentence=tf.int32),
                           token_padding=dict(TOKENS, first_pieces=0, tag_ids=0))
    return cache.table(f"tagging_{split}", made_from, schema, lambda: convert_sentences_to_features(
        text.sentences, label_names, cache.tokenizer, options))


def _rows(
    sentence: Sentence, pieces_of: Mapping[str, list[int]], tag_ids: Mapping[str, int], special_tokens: SpecialTokens,
    options: TaggingFeatureOptions,
) -> Iterator[dict[str, list[int]]]:
    word_ids = [pieces_of[word] for word in sentence.words]
    ids = np.array([piece for pieces in word_ids for piece in pieces], np.int32)
    is_first = np.array([index == 0 for pieces in word_ids for index in range(len(pieces))])
    tags = np.repeat([tag_ids.get(tag, 0) for tag in sentence.tags or [""] * len(word_ids)],
                     list(map(len, word_ids)))
    for window in windows(len(ids), options.window_length, options.stride):
        here = slice(window.first, window.first + window.length)
        first_pieces = window.is_max_context & is_first[here]
        row, (first, _, last, _) = special_tokens.around(ids[here]), special_tokens
        yield dict(input_ids=row.tolist(), input_mask=[1] * len(row), segment_ids=[0] * len(row),
                   first_pieces=[0 for _ in first] + first_pieces.astype(int).tolist() + [0 for _ in last],
                   tag_ids=[0 for _ in first] + np.where(first_pieces, tags[here], 0).tolist() + [0 for _ in last])
