"""Files of tagged words. A line has one word and its tag; a blank line ends a sentence.

    Redondo   B-location
    Beach     I-location

Columns are separated by tabs, or by spaces in a line without tabs. CoNLL-2003 has more columns, and a line that begins
with -DOCSTART- starts a document. Lines that begin with # before the words of a sentence are comments, unless they look
like words: see _without_comments.

If the first column numbers the words of each sentence, as in CoNLL-U and GermEval, the second one has the words, and
comments, multiword tokens (1-2) and empty nodes (1.1) are skipped. In .conllu files, and with CoNLL-U's ten columns of
which the last one has no tags, the tag is the universal part of speech (UPOS).

In JSON lines and Parquet, a row is a sentence: the columns tokens and ner_tags have lists of words and of tags. Tags
may be numbers of names, which the library `datasets` stores in Parquet.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import reprlib
import unicodedata
from typing import Any, NamedTuple, Sequence, cast

from absl import logging

from albert_tf.data.rows import class_names, existing_lines, is_of_objects, read_objects
from albert_tf.text.lines import uncompressed_name
from albert_tf.utils.outputs import write_text
from albert_tf.utils.progress import count_of

_DOCUMENT_START = "-DOCSTART-"
_UNSPECIFIED = "_"  # of CoNLL-U
_RANGE_OR_EMPTY = re.compile(r"\d+[-.]\d+")  # multiword tokens and empty nodes


class Columns(NamedTuple):
    """The column indices of word and tag, from 0; negative indices count from the end of the line."""

    word: int = 0
    tag: int = -1


class NamedColumns(NamedTuple):
    """The columns of JSON lines or Parquet with the words and the tags of a sentence."""

    words: str = "tokens"
    tags: str = "ner_tags"


FIRST_AND_LAST, SECOND_AND_LAST, FORM_AND_UPOS = Columns(), Columns(1), Columns(1, 3)
_CONLLU_COLUMNS = 10


class Sentence(NamedTuple):
    """A sentence of a file."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None  # None if the file has no tags
    lines: tuple[int, ...]  # the number of each word's line, from 1; in JSON and Parquet of its row


@dataclasses.dataclass(frozen=True)
class TaggedText:
    """The content of a file of tagged words. It has at least one sentence.

    The lines of JSON lines and Parquet are its rows as JSON, with the words alone.
    """

    path: str
    columns: Columns | NamedColumns
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
            cure = "each line must have a word and its tag"
            if isinstance(self.columns, NamedColumns):
                cure = f"there is no column {self.columns.tags!r}. Set --columns to the names of the columns"
            raise ValueError(f"{self.path} has no tags: {cure}")

    def write_with_tags(self, path: str, tags: Sequence[Sequence[str]]) -> None:
        """Writes a copy of the file with other tags, or with tags added if it has none; Parquet as JSON lines."""
        lines = list(self.lines)
        for sentence, sentence_tags in zip(self.sentences, tags):
            if isinstance(self.columns, NamedColumns):
                lines[sentence.lines[0] - 1] = _row(self.columns, sentence.words, sentence_tags)
                continue
            for line, tag in zip(sentence.lines, sentence_tags):
                lines[line - 1] = _with_tag(lines[line - 1], tag, self.columns)
        write_text(path, "".join(f"{line}\n" for line in lines))


def read_tagged_text(path: str, columns: Columns | NamedColumns | None = None,
                     tag_names: Sequence[str] | None = None) -> TaggedText:
    """Reads a file of tagged words: text, or JSON lines or Parquet by its extension.

    Args:
      columns: the columns of word and tag. A line with a single column is a word without a tag. Default: see the
        description of this module. A file with numbered words in which all tags are "_" has no tags.
      tag_names: the names of tags that are numbers, from 0. Default: those that Parquet has.

    Raises:
      ValueError: there are no words, or a line or row is malformed; the message names file and line.
    """
    has_names = is_of_objects(path)
    if columns and isinstance(columns, NamedColumns) != has_names:
        kind = "names, such as tokens,ner_tags" if has_names else "numbers, such as 0,-1"
        raise ValueError(f"--columns must be two {kind}, for {path}. Received: {','.join(map(str, columns))}")
    if has_names:
        content = _read_objects(path, cast(NamedColumns, columns or NamedColumns()), tag_names)
    else:
        content = _read_lines(path, cast("Columns | None", columns))
    lines, columns, sentences, is_numbered = content
    words = [word for sentence in sentences for word in sentence]
    if not words:
        raise ValueError(f"{path} has no words")
    has_tags = words[0].tag is not None
    if is_numbered and {word.tag for word in words} == {_UNSPECIFIED}:
        has_tags = False
    elif other := next((word for word in words if (word.tag is not None) != has_tags), None):
        raise ValueError(f"{path} line {other.line}: this word has {'no' if has_tags else 'a'} tag, but the word of "
                         f"line {words[0].line} has {'one' if has_tags else 'none'}")
    columns_of = [tuple(zip(*sentence)) for sentence in sentences if sentence]
    return TaggedText(path, columns, lines, tuple(
        Sentence(words, tags if has_tags else None, numbers) for numbers, words, tags in columns_of))


_Block = list[tuple[int, list[str]]]  # the numbers of lines, from 1, and their columns
# lines, columns, sentences, is_numbered
_Content = tuple[tuple[str, ...], Columns | NamedColumns, "list[list[_Word]]", bool]


def _read_lines(path: str, columns: Columns | None) -> _Content:
    lines = tuple(existing_lines(path))
    numbered = ((number, _fields(line) if line.strip() else []) for number, line in enumerate(lines, start=1))
    blocks = [list(block) for has_words, block in itertools.groupby(
        numbered, lambda row: bool(row[1]) and row[1][0] != _DOCUMENT_START) if has_words]
    is_conllu = uncompressed_name(path).endswith(".conllu")
    is_numbered = is_conllu or _are_numbered(blocks)
    if is_numbered:
        blocks = [[row for row in block if row[1][0].isdigit()] for block in blocks]
        rows = [fields for block in blocks for _, fields in block]
        has_misc = all(len(fields) == _CONLLU_COLUMNS for fields in rows) and any(
            fields[-1] == _UNSPECIFIED for fields in rows)  # CoNLL-U under another name
        columns = columns or (FORM_AND_UPOS if is_conllu or has_misc else SECOND_AND_LAST)
    else:
        columns = columns or FIRST_AND_LAST
        blocks = _without_comments(path, blocks, columns)
    return lines, columns, [[_word(path, *row, columns) for row in block] for block in blocks], is_numbered


def _are_numbered(blocks: Sequence[_Block]) -> bool:
    """Whether the first of at least three columns counts the words of each sentence from 1."""
    counted = 0
    for block in blocks:
        rows = [fields for _, fields in block if not fields[0].startswith("#")]
        numbers = [fields[0] for fields in rows if not _RANGE_OR_EMPTY.fullmatch(fields[0])]
        if numbers != list(map(str, range(1, len(numbers) + 1))) or any(len(fields) < 3 for fields in rows):
            return False
        counted += len(numbers)
    return counted > 0


def _without_comments(path: str, blocks: Sequence[_Block], columns: Columns) -> list[_Block]:
    """The words of sentences without the comments before them.

    A line that begins with # is a word if it has as many columns as another line and, if white space follows the #,
    also the tag of another line.
    """
    def tag(fields: list[str]) -> str | None:
        return fields[columns.tag] if len(fields) > 1 and -len(fields) <= columns.tag < len(fields) else None

    heads = [list(itertools.takewhile(lambda row: row[1][0].startswith("#"), block)) for block in blocks]
    words = [fields for head, block in zip(heads, blocks) for _, fields in block[len(head):]]
    sizes, tags = set(map(len, words)), set(map(tag, words))
    comments = [row for head in heads for row in head if words and not (
        len(row[1]) in sizes and (row[1][0][1:2].strip() or tag(row[1]) in tags))]
    if comments:
        logging.info("%s: %s left out, first line %d", path, count_of(len(comments), "comment"), comments[0][0])
    numbers = {number for number, _ in comments}
    return [[row for row in block if row[0] not in numbers] for block in blocks]


def _read_objects(path: str, columns: NamedColumns, tag_names: Sequence[str] | None) -> _Content:
    rows: list[tuple[int, dict[str, Any]]] = list(read_objects(path))
    names, lines, sentences = tag_names or class_names(path, columns.tags), [], []
    for number, (line, values) in enumerate(rows, start=1):
        location = f"{path} line {line}"
        words, tags = values.get(columns.words), values.get(columns.tags)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{location}: {columns.words!r} must be a list of words. Received: {reprlib.repr(words)}. "
                             "Set --columns to the names of the columns of words and tags, such as tokens,ner_tags")
        if tags is not None and (not isinstance(tags, list) or len(tags) != len(words)):
            raise ValueError(f"{location}: {columns.tags!r} must be a list of {len(words)} tags. Received: "
                             f"{reprlib.repr(tags)}")
        sentences.append([_Word(number, word, None if tags is None else _tag(tags[i], names, location))
                          for i, word in enumerate(words)])
        lines.append(_row(columns, words, []))
    return tuple(lines), columns, sentences, False


def _tag(tag: Any, names: Sequence[str] | None, location: str) -> str:
    """The text of a tag, which may be the number of one of the names."""
    if type(tag) is int and names and 0 <= tag < len(names):
        tag = names[tag]
    if not isinstance(tag, str) or not tag:
        raise ValueError(f"{location}: the tag {tag!r} has no name: set --tag_names to the names of tags 0, 1, ..., "
                         "such as O,B-PER,I-PER")
    return unicodedata.normalize("NFC", tag)  # tags are compared


def _row(columns: NamedColumns, words: Sequence[str], tags: Sequence[str]) -> str:
    """The JSON of a row."""
    return json.dumps({columns.words: list(words), **({columns.tags: list(tags)} if tags else {})}, ensure_ascii=False)


class _Word(NamedTuple):
    line: int
    word: str
    tag: str | None


def _word(path: str, number: int, fields: list[str], columns: Columns) -> _Word:
    """The word of a line, which has at least one field."""
    if len(fields) == 1:
        return _Word(number, fields[0], None)
    needed = max(column + 1 if column >= 0 else -column for column in columns)
    if len(fields) < needed:
        raise ValueError(f"{path} line {number}: expected at least {needed} columns, got {len(fields)}")
    word, tag = (fields[column].strip(" ") for column in columns)
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
