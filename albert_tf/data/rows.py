"""Reads rows of TSV, CSV, JSON-lines and Parquet files, and texts of such files and of text files, one by one::

    text file                     a line is a text, and a blank line ends a document
    with the name of a column     a row is a text, or a document: its lines are the document's lines

For ends of lines and byte-order marks see albert_tf/text/lines.py; ends within a quoted field become newlines. Between
tabs, a quote is a plain character, as in GLUE and STS-B; with other separators, fields may be quoted. A JSON file may
also be a list of objects. An error names file and line; for Parquet, the line is the number of the row, from 1.
Files may be remote, and text files may be compressed (.gz, .bz2).
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import os
import re
import reprlib
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence, TypeVar

from absl import logging

from albert_tf.text.lines import check_compression, read_lines, uncompressed_name
from albert_tf.utils.files import (
    check_is_file,
    decode_utf8,
    open_binary,
    parse_json_list,
    parse_json_object,
    version,
)
from albert_tf.utils.imports import check_installed
from albert_tf.utils.progress import count_of

csv.field_size_limit(1 << 26)  # characters: a field may be a whole document

_TAB = "\t"
_DELIMITED = {".tsv": _TAB, ".csv": ","}  # separators
_QUOTED = re.compile('"[^"]*"')
_JSON = (".jsonl", ".json", ".ndjson")
PARQUET = ".parquet"
_MOST_BAD_ROWS = 10  # that an error names
_PARQUET_BATCH = 256  # rows that are in memory at a time: each can be a book
_PARQUET_BUFFER_BYTES = 1 << 20
# A Parquet file stores equal values once, so a small one can have any number of values, and any size in memory.
_FEW_VALUES = 1_000_000  # larger columns have at most a value for each byte of the file
_FEW_BYTES, _LARGEST_RATIO = 1 << 30, 1000  # gzip's largest ratio
_LARGEST_BATCH = 1 << 28  # bytes
_HOSTILE = "nearly all are equal. Write the rows that you need to another file"
_MOST_CHARACTERS = 1 << 30  # of a JSON list, which is read as a whole

# A column's index (negative: from the end of the row), or its name in the header or the JSON object.
Column = int | str
Content = TypeVar("Content")


class Row(NamedTuple):
    """The requested columns of one row, and the line of the file (from 1) on which it begins."""

    line: int
    fields: dict[str, str]


class BadRow(NamedTuple):
    """A row with a wrong number of columns, or without one of the names."""

    line: int
    problem: str


class BadRows:
    """The wrong rows of a file, of which one error names the first ten."""

    def __init__(self, path: str):
        self._path = path
        self._lines: dict[str, list[int]] = {}  # by the problem

    def __bool__(self) -> bool:
        return bool(self._lines)

    @contextlib.contextmanager
    def at(self, line: int) -> Iterator[None]:
        """Takes a ValueError that the block raises for a problem of the row."""
        try:
            yield
        except ValueError as error:
            self.add(BadRow(line, str(error)))

    def add(self, row: BadRow) -> None:
        """Adds a row. The tenth one raises the ValueError."""
        self._lines.setdefault(row.problem, []).append(row.line)
        if sum(map(len, self._lines.values())) == _MOST_BAD_ROWS:
            self.check("; later rows are not checked yet")

    def check(self, end: str = "") -> None:
        """Raises ValueError if there are any."""
        problems = [f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}: {problem}"
                    for problem, lines in self._lines.items()]
        if problems:
            raise ValueError(f"{self._path} {'; '.join(problems)}{end}")

    def removed_from(self, rows: Iterable[Row | BadRow]) -> Iterator[Row]:
        """The good rows; the others are added."""
        for row in rows:
            if isinstance(row, BadRow):
                self.add(row)
            else:
                yield row


def text_column_help(content: str) -> str:
    """The help of an option that names the column with the texts of a table. `content` is what a row is."""
    return ("Name of the column with the texts, if the input is a table: Parquet, JSON lines, CSV or TSV with a "
            f"header. Each row is a {content}. Default: the input is text.")


def read_rows(path: str, columns: Mapping[str, Column], has_header: bool = True, separator: str | None = None
              ) -> Iterator[Row | BadRow]:
    """Reads the rows of a file. Its extension gives its format: .tsv, .csv, .parquet, or JSON (.jsonl, .json, .ndjson).

    Empty lines are skipped, with a warning if rows follow. `columns` has the column of each field of Row.fields. For
    has_header (a .tsv or .csv file begins with names of columns) and the default of separator, see _separator_of.
    """
    ending = _ending(path)
    if ending in _DELIMITED:
        return _delimited_rows(path, columns, has_header, ending, separator)
    if not is_of_objects(path):
        endings = ", ".join([*_DELIMITED, *_JSON, PARQUET])
        raise ValueError(f"{path}: unknown file format; the file's extension must be one of {endings}")
    if separator:
        raise ValueError(f"{path} has no separator {separator!r}: it is for {' and '.join(_DELIMITED)} files")
    return _rows_of_objects(path, {field: str(column) for field, column in columns.items()})


def read_json_lines(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads the objects of a JSON-lines file or of a JSON list, each with the number of its first line (from 1)."""
    lines = existing_lines(path)
    first, start = next(((number, line) for number, line in enumerate(lines, start=1) if line.strip()), (1, ""))
    lines = itertools.chain(itertools.repeat("", first - 1), [start], lines)
    if start.lstrip().startswith("["):
        yield from parse_json_list(_joined(lines, path), path)
        return
    numbered = enumerate(lines, start=1)
    for number, line in _without_empty(((number, line.strip() and line) for number, line in numbered), path):
        yield number, parse_json_object(line, path, line=number)


def _joined(lines: Iterable[str], path: str) -> str:
    text = io.StringIO()  # a list of lines would be a multiple of a text with many line breaks
    for line in lines:
        text.write(line + "\n")
        if text.tell() > _MOST_CHARACTERS:
            raise ValueError(f"{path} is a JSON list with more than {_MOST_CHARACTERS:,} characters: write an object "
                             "on each line")
    return text.getvalue().removesuffix("\n")


def is_of_objects(path: str) -> bool:
    """Whether the rows of a file have names of columns in every row, by its extension: JSON lines or Parquet."""
    return _ending(path) in _JSON or is_parquet(path)


def is_parquet(path: str) -> bool:
    """Whether a file is one of Parquet, by the extension of its name."""
    return os.path.splitext(path)[1].lower() == PARQUET


def read_objects(path: str, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads the rows of a JSON-lines or Parquet file, each with its line number or the number of the row (from 1).

    Any extension but .parquet means JSON lines. Every row must have the columns; None for any.
    """
    if is_parquet(path):
        yield from read_parquet(path, columns and list(dict.fromkeys(columns)))
        return
    for line, values in read_json_lines(path):
        if problem := _missing(values, columns or ()):
            raise ValueError(f"{path} line {line}: {problem}")
        yield line, values


def read_texts(path: str, column: str | None = None) -> Iterator[str]:
    """The lines of a text file, or the texts of a column of a table. Line breaks in a column's text become spaces."""
    if column is None:
        check_is_text(path, None)
        return read_lines(path)
    return (" ".join(text.splitlines()) for text in _column(path, column))


def read_document_lines(path: str, column: str | None = None) -> Iterator[str]:
    """The lines of documents, with an empty line after each document.

    With a column, a row is a document, and its empty lines are skipped.
    """
    if column is None:
        return itertools.chain(read_texts(path), [""])
    return (line for text in _column(path, column)
            for line in itertools.chain(filter(str.strip, text.replace("\r", "\n").split("\n")), [""]))


def warn_of_empty_texts(path: str, lines: Sequence[int]) -> None:
    """Warns of rows with an empty text, if there are any. `lines` has their line numbers, from 1."""
    if lines:
        logging.warning("%s line %d: a text is empty (%s of this file)", path, lines[0], count_of(len(lines), "row"))


def as_text(value: Any) -> str:
    """A JSON value as the text of a field: a string unchanged, null as "", any other value as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def existing_lines(path: str) -> Iterator[str]:
    """The lines of a file (see read_lines), which must have at least one."""
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{path} is empty")
    return itertools.chain([first], lines)


def check_is_text(path: str, column: str | None) -> None:
    """Raises ValueError if a file is a table by its name, and no column is selected."""
    if column is None and (_ending(path) in _DELIMITED or is_of_objects(path)):
        raise ValueError(f"{path} is a table: set --text_column to the name of the column with the texts, or rename "
                         "the file if each of its lines is a text")


def _ending(path: str) -> str:
    check_compression(path)
    return os.path.splitext(uncompressed_name(path))[1].lower()


def _rows_of_objects(path: str, names: Mapping[str, str]) -> Iterator[Row | BadRow]:
    rows = read_parquet(path, list(dict.fromkeys(names.values()))) if is_parquet(path) else read_json_lines(path)
    for line, values in rows:
        problem = _missing(values, names.values())
        yield BadRow(line, problem) if problem else Row(
            line, {field: as_text(values[name]) for field, name in names.items()})


def _missing(values: Mapping[str, Any], columns: Iterable[str]) -> str | None:
    """What is wrong if an object lacks one of the columns."""
    missing = [column for column in columns if column not in values]
    return f"no {missing[0]!r} among {', '.join(map(repr, values)) or 'nothing'}" if missing else None


def _delimited_rows(path: str, columns: Mapping[str, Column], has_header: bool, ending: str, separator: str | None
                    ) -> Iterator[Row | BadRow]:
    lines = existing_lines(path)
    first = next(lines)
    separator = separator or _separator_of(first, ending, has_header)
    form: dict[str, Any] = dict(quoting=csv.QUOTE_NONE) if separator == _TAB else dict(strict=True)
    # The csv reader needs line ends, since a quoted field may span several lines.
    rows = _numbered(csv.reader((line + "\n" for line in itertools.chain([first], lines)), delimiter=separator, **form),
                     path)
    header = [name.strip() for name in next(rows)[1]] if has_header else None
    indices = {field: _index_of(column, header, path, separator) for field, column in columns.items()}
    # Up to the last requested column, or all columns if one is counted from the end.
    expected = max(max(-index, len(header or ())) if index < 0 else index + 1 for index in indices.values())
    most = len(header) if header and ending == ".csv" else None
    quoted: list[int] = []
    for line, values in _without_empty(rows, path):
        if len(values) < expected:
            yield BadRow(line, f"expected {expected} columns, got {len(values)}")
        elif most and len(values) > most:
            cure = "a text has a tab" if separator == _TAB else f"put quotes around a text with {separator!r} in it"
            yield BadRow(line, f"{len(values)} fields, but the header has {most}: {cure}")
        else:
            row = Row(line, {field: values[index] for field, index in indices.items()})
            if most and separator == _TAB and any(map(_is_quoted_twice, row.fields.values())):
                quoted.append(line)
            yield row
    if quoted:
        logging.warning("%s line %d: a text has quotes as in CSV (%s of this file), which stay as they are, since "
                        "quotes between tabs are plain characters: write the file with commas", path, quoted[0],
                        count_of(len(quoted), "row"))


def _separator_of(first: str, ending: str, has_header: bool) -> str:
    """The separator of a file with this first line: of .csv files, Excel's may be a semicolon, and STS-B's is a tab."""
    if ending == ".csv" and _TAB in _QUOTED.sub("", first):
        return _TAB
    return ";" if ending == ".csv" and has_header and "," not in first and ";" in first else _DELIMITED[ending]


def _is_quoted_twice(field: str) -> bool:
    """Whether a field is quoted as in CSV, with doubled quotes in it."""
    text = field[1:-1]  # a regular expression would take quadratic time
    return len(field) > 3 and field[0] == field[-1] == '"' and '""' in text and '"' not in text.replace('""', "")


def _numbered(reader: Iterator[list[str]], path: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a csv.reader, each with the number of its first line, from 1."""
    line = 1
    try:
        for values in reader:
            yield line, values
            line = reader.line_num + 1  # type: ignore[attr-defined]
    except csv.Error as error:
        raise ValueError(f"{path} line {line}: {error}") from error


def _without_empty(lines: Iterable[tuple[int, Content]], path: str) -> Iterator[tuple[int, Content]]:
    """Leaves out lines without content. Warns of them, unless they end the file, since answers have no row for them."""
    first_at_end, num_at_end, first_skipped, num_skipped = 0, 0, 0, 0
    for line, content in lines:
        if content:
            first_skipped, num_skipped = first_skipped or first_at_end, num_skipped + num_at_end
            num_at_end = 0
            yield line, content
        else:
            first_at_end, num_at_end = line if not num_at_end else first_at_end, num_at_end + 1
    if num_skipped:
        logging.warning("%s line %d is empty and skipped (%s of this file)", path, first_skipped,
                        count_of(num_skipped, "line"))


def _index_of(column: Column, header: list[str] | None, path: str, delimiter: str) -> int:
    if isinstance(column, int):
        return column
    if header is None:
        raise ValueError(f"{path} has no header, so column {column!r} must be a number, from 0")
    if column not in header:
        hint = f". Columns must be separated by {delimiter!r}" if len(header) == 1 else ""
        raise ValueError(f"{path}: no column {column!r} in the header, which is the first line: "
                         f"{', '.join(map(repr, header))}{hint}")
    if header.count(column) > 1:
        raise ValueError(f"{path}: the header, which is the first line, has the column {column!r} "
                         f"{header.count(column)} times: give each column its own name, or select one by its number")
    return header.index(column)


def _column(path: str, column: str) -> Iterator[str]:
    if is_of_objects(path):
        for number, values in read_objects(path, [column]):
            value = values[column]
            if not isinstance(value, (str, type(None))):
                raise ValueError(f"{path} line {number}: {column!r} must be a text. Received: {reprlib.repr(value)}")
            yield value or ""
        return
    bad = BadRows(path)
    for row in bad.removed_from(read_rows(path, dict(text=column))):
        if not bad:
            yield row.fields["text"]
    bad.check()


def read_parquet(path: str, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet file, each with its number (from 1), read one row group after another.

    Values are texts, numbers, booleans, None, and lists of these. Bytes that are UTF-8, dates, times and decimals
    become texts, as in a CSV file. Without `columns`, all are read, and those that cannot become text stay as they are.
    """
    check_is_file(path)
    check_installed(f"{path}: a Parquet file", "pyarrow")
    import pyarrow
    import pyarrow.parquet

    try:
        # By default, pyarrow would read all row groups ahead.
        with contextlib.closing(open_binary(path)) as file, pyarrow.parquet.ParquetFile(
                file, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES) as table:
            names = table.schema_arrow.names
            for column in columns or ():
                if column not in names:
                    raise ValueError(f"{path}: no column {column!r} among {', '.join(map(repr, names))}")
            number, read, size = 0, 0, version(path)[0]
            if (values := _largest_column(table.metadata, columns)) > max(size, _FEW_VALUES):
                raise ValueError(f"{path} has {values:,} values of a column in {size:,} bytes: {_HOSTILE}")
            for group in range(table.num_row_groups):
                for batch in table.iter_batches(_PARQUET_BATCH, row_groups=[group], columns=columns):
                    read += batch.nbytes
                    if batch.nbytes > _LARGEST_BATCH or read > _FEW_BYTES + _LARGEST_RATIO * size:
                        raise ValueError(f"{path} has texts of {read:,} bytes in {size:,} bytes: {_HOSTILE}")
                    arrays = [_to_readable(values, name, path, columns is None) for name, values
                              in zip(batch.schema.names, batch.columns)]
                    for row in pyarrow.RecordBatch.from_arrays(arrays, batch.schema.names).to_pylist():
                        number += 1
                        yield number, row
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def class_names(path: str, column: str) -> list[str] | None:
    """The names of the classes in a column of numbers or lists, if the library `datasets` stored them (in Parquet)."""
    if not is_parquet(path):
        return None
    import pyarrow.parquet

    with contextlib.closing(open_binary(path)) as file:
        stored = (pyarrow.parquet.read_schema(file).metadata or {}).get(b"huggingface", b"{}")
    value: Any = parse_json_object(decode_utf8(stored, path), path)
    for key in ("info", "features", column):
        value = value.get(key) if isinstance(value, dict) else None
    while isinstance(value, dict) and "names" not in value:
        value = value.get("feature")  # of the items of a list
    names = value.get("names") if isinstance(value, dict) else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _largest_column(metadata: Any, columns: Sequence[str] | None) -> int:
    """The largest number of values of one of these columns. A list has several values."""
    counts: dict[str, int] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(metadata.num_columns)):
            name = column.path_in_schema.partition(".")[0]
            if columns is None or name in columns:
                counts[column.path_in_schema] = counts.get(column.path_in_schema, 0) + column.num_values
    return max(counts.values(), default=0)


def _to_readable(values: Any, name: str, path: str, is_optional: bool) -> Any:
    """A column as texts or numbers, or lists of them; if it is optional and cannot become text, unchanged."""
    import pyarrow

    try:
        return values.cast(_readable_type(values.type))
    except pyarrow.ArrowException as error:
        if is_optional:
            return values
        raise ValueError(f"{path}: the column {name!r} has the type {values.type}, which cannot become text: {error}"
                         ) from None


def _readable_type(column_type: Any) -> Any:
    """The type itself for texts and numbers, or lists of them; else text."""
    from pyarrow import list_, string, types

    if types.is_dictionary(column_type):
        return _readable_type(column_type.value_type)
    if types.is_list(column_type) or types.is_large_list(column_type) or types.is_fixed_size_list(column_type):
        return list_(_readable_type(column_type.value_type))
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    return column_type if any(test(column_type) for test in tests) else string()
