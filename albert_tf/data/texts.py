"""Texts from text files, or from a column of tables: Parquet, JSON lines, CSV and TSV, local or remote, streamed.

    text file                     a line is a text, and a blank line ends a document
    with the name of a column     a row is a text, or a document: its lines are the document's lines
"""

from __future__ import annotations

import itertools
from typing import Iterator

from albert_tf.data.parquet import is_parquet
from albert_tf.data.rows import ShortRow, is_of_objects, read_objects, read_rows
from albert_tf.text.lines import read_lines


def read_texts(path: str, column: str | None = None) -> Iterator[str]:
    """The lines of a text file, or the texts of a column. Line breaks in a column's text become spaces.

    Args:
      path: a text file, or with `column` a .parquet, .jsonl, .json, .csv or .tsv file.
      column: name of the column; None for a text file.

    Raises:
      ValueError: the file does not exist or cannot be read, it has no such column, or a value is no text; file and line
        (of Parquet the number of the row) are named.
    """
    if column is None:
        return _lines(path)
    return (" ".join(text.splitlines()) for text in _column(path, column))


def read_document_lines(path: str, column: str | None = None) -> Iterator[str]:
    """The lines of documents, with an empty line after each document.

    Args:
      path, column: see read_texts. A row is a document, whose lines are split at newlines; its empty lines are skipped.

    Raises:
      ValueError: see read_texts.
    """
    if column is None:
        return itertools.chain(_lines(path), [""])
    return (line for text in _column(path, column)
            for line in itertools.chain(filter(str.strip, text.replace("\r", "").split("\n")), [""]))


def _lines(path: str) -> Iterator[str]:
    if is_parquet(path):
        raise ValueError(f"{path} is a table: set --text_column to the name of the column with the texts")
    return read_lines(path)


def _column(path: str, column: str) -> Iterator[str]:
    if is_of_objects(path):
        for number, values in read_objects(path, [column]):
            value = values[column]
            if not isinstance(value, (str, type(None))):
                raise ValueError(f"{path} line {number}: {column!r} must be a text. Received: {value!r}"[:300])
            yield value or ""
        return
    for row in read_rows(path, dict(text=column)):
        if isinstance(row, ShortRow):
            raise ValueError(f"{path} line {row.line}: expected {row.expected} columns, got {row.got}")
        yield row.fields["text"]
