"""Files of tagged words, and their features. A line has one word and its tag; a blank line ends a sentence.

    Redondo   B-location
    Beach     I-location

Columns are separated by tabs, or by spaces in a line without tabs. CoNLL-2003 has more columns, and a line that begins
with -DOCSTART- starts a document. In a .conllu file, comments (#), multiword tokens (1-2) and empty nodes (1.1) are
skipped, and the tag is the universal part of speech (UPOS) unless other columns are chosen.

A row of features is [CLS] pieces [SEP]. Each word is tokenized separately. A sentence that is too long for a row is
split into overlapping windows, and each piece is labelled only in the window where it has the most context. Besides
input_ids, input_mask and segment_ids, a row has

  first_pieces  1 for the first piece of a word, which has the word's tag; 0 for other tokens
  tag_ids       the id of the word's tag, from 1; 0 for other tokens, and for an unknown tag
"""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from albert_tf.data.feature_table import TOKENS, FeatureCache, FeatureSchema, FeatureTable, digest
from albert_tf.data.rows import existing_lines
from albert_tf.data.worker_pool import chunks
from albert_tf.text.lines import uncompressed_name
from albert_tf.text.packing import SpecialTokens, stride_or_half, windows
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils import bounds
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import write_text

_DOCUMENT_START = "-DOCSTART-"
_UNSPECIFIED = "_"  # of CoNLL-U


class Columns(NamedTuple):
    """The column indices of word and tag, from 0; negative indices count from the end of the line."""

    word: int = 0
    tag: int = -1


FIRST_AND_LAST, FORM_AND_UPOS = Columns(), Columns(1, 3)


class Sentence(NamedTuple):
    """A sentence of a file."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None  # None if the file has no tags
    lines: tuple[int, ...]  # the number of each word's line, from 1


@dataclasses.dataclass(frozen=True)
class TaggedText:
    """The content of a file of tagged words. It has at least one sentence."""

    path: str
    columns: Columns
    lines: tuple[str, ...]
    sentences: tuple[Sentence, ...]

    @property
    def has_tags(self) -> bool:
        """Whether the words have tags. Either all words of a file have one, or none."""
        return self.sentences[0].tags is not None

    @property
    def num_words(self) -> int:
        """The number of words in all sentences."""
        return sum(len(sentence.words) for sentence in self.sentences)

    @property
    def tags(self) -> list[tuple[str, ...]]:
        """The tags of each sentence; an empty list if the file has no tags."""
        return [sentence.tags for sentence in self.sentences if sentence.tags is not None]

    def check_has_tags(self) -> None:
        """Raises ValueError if the file has no tags."""
        if not self.has_tags:
            raise ValueError(f"{self.path} has no tags: each line must have a word and its tag")

    def write_with_tags(self, path: str, tags: Sequence[Sequence[str]]) -> None:
        """Writes a copy of the file with other tags, or with tags added if it has none."""
        lines = list(self.lines)
        for sentence, sentence_tags in zip(self.sentences, tags):
            for line, tag in zip(sentence.lines, sentence_tags):
                lines[line - 1] = _with_tag(lines[line - 1], tag, self.columns)
        write_text(path, "".join(f"{line}\n" for line in lines))


def read_tagged_text(path: str, columns: Columns | None = None) -> TaggedText:
    """Reads a file of tagged words.

    Args:
      columns: the columns of word and tag. A line with a single column is a word without a tag. Default: form and UPOS
        in a .conllu file, or the first and the last column in other files. A .conllu file in which all tags are "_" has
        no tags.
    """
    lines = tuple(existing_lines(path))
    is_conllu = uncompressed_name(path).endswith(".conllu")
    columns = columns or (FORM_AND_UPOS if is_conllu else FIRST_AND_LAST)
    sentences: list[list[_Word]] = [[]]
    for number, line in enumerate(lines, start=1):
        fields = _fields(line)
        if not line.strip() or fields[0] == _DOCUMENT_START:
            sentences.append([])
        elif not is_conllu or fields[0].isdigit():
            sentences[-1].append(_word(path, number, fields, columns))
    words = [word for sentence in sentences for word in sentence]
    if not words:
        raise ValueError(f"{path} has no words")
    has_tags = words[0].tag is not None
    if is_conllu and {word.tag for word in words} == {_UNSPECIFIED}:
        has_tags = False
    elif other := next((word for word in words if (word.tag is not None) != has_tags), None):
        raise ValueError(f"{path} line {other.line}: this word has {'no' if has_tags else 'a'} tag, but the word of "
                         f"line {words[0].line} has {'one' if has_tags else 'none'}")
    columns_of = [tuple(zip(*sentence)) for sentence in sentences if sentence]
    return TaggedText(path, columns, lines, tuple(
        Sentence(words, tags if has_tags else None, numbers) for numbers, words, tags in columns_of))


class _Word(NamedTuple):
    line: int
    word: str
    tag: str | None


def _word(path: str, number: int, fields: list[str], columns: Columns) -> _Word:
    """The word of a line, which has at least one field."""
    if len(fields) == 1:
        return _Word(number, fields[0], None)
    needed = max(place + 1 if place >= 0 else -place for place in columns)
    if len(fields) < needed:
        raise ValueError(f"{path} line {number}: expected at least {needed} columns, got {len(fields)}")
    word, tag = (fields[place].strip(" ") for place in columns)
    tag = unicodedata.normalize("NFC", tag)  # tags are compared
    if not word or not tag:
        raise ValueError(f"{path} line {number}: the {'tag' if word else 'word'} is empty")
    return _Word(number, word, tag)


def _fields(line: str) -> list[str]:
    """The columns of a line. A no-break space and other white space than tabs and spaces are part of a word."""
    return line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]


def _with_tag(line: str, tag: str, columns: Columns) -> str:
    fields, separator = _fields(line), "\t" if "\t" in line else " "
    if len(fields) == 1:
        return f"{fields[0]}\t{tag}"
    fields[columns.tag] = tag
    return separator.join(fields)


def label_names(texts: Sequence[TaggedText]) -> tuple[str, ...]:
    """The distinct tags of all files, sorted."""
    return tuple(sorted({tag for text in texts for tags in text.tags for tag in tags}))


def share_of_words_with_capitals(text: TaggedText) -> float:
    """The share of words that lower-casing changes."""
    return sum(word != word.lower() for sentence in text.sentences for word in sentence.words) / text.num_words


# --- features ---------------------------------------------------------------------------------------------------------


SPECIAL_TOKENS = 2
_CHUNK = 1000  # sentences that are tokenized in one call


@dataclasses.dataclass(frozen=True)
class TaggingFeatureOptions:
    """How features are made.

    Args:
      doc_stride: pieces from the start of a window to the start of the next; 0 for half a window.
    """

    max_seq_length: int
    doc_stride: int = 0

    def __post_init__(self):
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
    special_tokens = SpecialTokens(tokenizer)
    for chunk in chunks(enumerate(sentences), _CHUNK):
        words = sorted({word for _, sentence in chunk for word in sentence.words})
        # A word that is empty after normalisation becomes an unknown piece, so that it has a tag.
        encoded = tokenizer.encode_batch(words)
        pieces_of = {word: ids.tolist() or [tokenizer.unk_id] for word, ids in zip(words, encoded)}
        for number, sentence in chunk:
            for row in _rows(sentence, pieces_of, tag_ids, special_tokens, options):
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
    is_first = np.array([place == 0 for pieces in word_ids for place in range(len(pieces))])
    tags = np.repeat([tag_ids.get(tag, 0) for tag in sentence.tags or [""] * len(word_ids)],
                     list(map(len, word_ids)))
    for window in windows(len(ids), options.window_length, options.stride):
        here = slice(window.first, window.first + window.length)
        first_pieces = window.is_max_context & is_first[here]
        row = special_tokens.around(ids[here])
        yield dict(input_ids=row.tolist(), input_mask=[1] * len(row), segment_ids=[0] * len(row),
                   first_pieces=_between_special_tokens(first_pieces.astype(int)),
                   tag_ids=_between_special_tokens(np.where(first_pieces, tags[here], 0)))


def _between_special_tokens(values: np.ndarray) -> list[int]:
    return [0, *values.tolist(), 0]
