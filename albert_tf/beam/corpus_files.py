"""A corpus in several files: ranges of the text for workers, a file of tokens for each batch of lines, and their table.

The table has the position of each batch in the corpus.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import os
from typing import Callable, Iterable, Iterator, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.rows import check_is_text, read_document_lines
from albert_tf.pretraining import corpus
from albert_tf.pretraining.corpus import COLUMNS, BatchCounts, Column, Position, TokenizedBatch
from albert_tf.text.lines import is_compressed, read_lines
from albert_tf.utils.outputs import local_copy, write_array, write_bytes

RANGE_BYTES = 4 << 20  # of a range, and about as many as a worker tokenises in one call
_TABLE = "table.npy"
_OPEN_FILES = 64  # batches with open files at a time


class TextRange(NamedTuple):
    """The lines of a file that begin at bytes `start` to `stop` - 1; with text_column, a whole table."""

    file: int
    path: str
    start: int
    stop: int | None  # None: the end of the file
    text_column: str | None = None


class BatchKey(NamedTuple):
    """The key of a batch of lines: batch `number` of the range that begins at `start` in file number `file`."""

    file: int
    start: int
    number: int
    next_start: int  # `start` of the next batch of the file; -1 for the last batch
    next_number: int

    @property
    def name(self) -> str:
        """A name for a file of the batch. The names of all batches are in the order of the text."""
        return f"{self.file:06d}-{self.start:015d}-{self.number:06d}"


def text_ranges(paths: list[str], text_column: str | None = None) -> list[TextRange]:
    """The ranges of all files. A compressed file or a table is a single range, since it is read from its start."""
    ranges = []
    for file, path in enumerate(paths):
        check_is_text(path, text_column)
        size = 0 if text_column or is_compressed(path) else tf.io.gfile.stat(path).length
        starts = range(0, max(size, 1), RANGE_BYTES)
        ranges += [TextRange(file, path, start, stop, text_column) for start, stop in zip(starts, [*starts[1:], None])]
    return ranges


def read_batches(text_range: TextRange) -> Iterator[tuple[BatchKey, list[str]]]:
    """The lines of a range in batches, at least one, with an empty line after the last line of a file."""
    file, path, start, stop, text_column = text_range
    is_whole = stop is None and not start
    lines: Iterable[str] = read_document_lines(path, text_column) if is_whole else read_lines(path, start, stop)
    # With twice the size of a range, all lines of a range are in one batch.
    batches = corpus.in_batches(lines if stop or is_whole else itertools.chain(lines, [""]), 2 * RANGE_BYTES)
    batch, number = next(batches), 0
    for following in batches:
        yield BatchKey(file, start, number, start, number + 1), batch
        batch, number = following, number + 1
    yield BatchKey(file, start, number, -1 if stop is None else stop, 0), batch


def check_complete(keys: list[BatchKey], num_files: int) -> None:
    """Raises OSError unless every batch occurs exactly once in the ordered keys; a runner may lose or repeat some."""
    file, start, number = 0, 0, 0
    for key in keys:
        if (key.file, key.start, key.number) != (file, start, number):
            break
        file, start, number = (file, *key[3:]) if key.next_start >= 0 else (file + 1, 0, 0)
    else:
        if file == num_files:
            return
    raise OSError(f"the runner lost or repeated elements: a batch of text file {file + 1} of {num_files}, byte {start}")


def write_batch(folder: str, key: BatchKey, batch: TokenizedBatch) -> tuple[BatchKey, BatchCounts]:
    """Writes the columns of a batch, and returns its entry in the table. Written again, the bytes are the same."""
    write_bytes(_batch_path(folder, key), b"".join(column.tobytes() for column in batch))
    return key, batch.counts


def write_table(folder: str, entries: list[tuple[BatchKey, BatchCounts]]) -> None:
    """Writes the table of all batches, in the order of the text."""
    write_array(os.path.join(folder, _TABLE), np.array([[*key, *counts] for key, counts in entries], np.int64))


class BatchTable:
    """The table of all batches of a folder, which write_batch and write_table have written."""

    def __init__(self, folder: str):
        table = np.load(local_copy(os.path.join(folder, _TABLE)), allow_pickle=False).tolist()
        width = len(BatchKey._fields)
        self._folder = folder
        self._keys = [BatchKey(*row[:width]) for row in table]
        self._counts = [BatchCounts(*row[width:]) for row in table]
        self._positions = list(itertools.accumulate(self._counts, Position.after, initial=Position()))

    def documents(self, batch: int) -> range:
        """The documents that end in a batch."""
        return range(self._positions[batch].documents, self._positions[batch + 1].documents)

    def corpus(self) -> corpus.Corpus:
        """The corpus. Its files are read only when they are needed; remote files are then copied to this machine."""
        opened = functools.lru_cache(maxsize=_OPEN_FILES)(self._open)
        starts = np.array(self._positions)  # [batches + 1, 4]
        tokens, sentences, documents = starts[:, 0], starts[:, 1], starts[:, 2]
        return corpus.Corpus(_JoinedColumn(opened, "ids", tokens, np.zeros_like(tokens)),
                             _JoinedColumn(opened, "sentence_ends", sentences, tokens),
                             _JoinedColumn(opened, "document_ends", documents, starts[:, [1, 0]]))

    def _open(self, batch: int) -> dict[str, Column]:
        """The columns of a batch, without a document end that closes no document."""
        counts = self._counts[batch]
        skipped = dict(document_ends=self._positions[batch].skipped_ends(counts))
        file = open(local_copy(_batch_path(self._folder, self._keys[batch])), "rb", buffering=0)
        columns: dict[str, Column] = {}
        start = 0
        for name, length in zip(COLUMNS, (counts.tokens, counts.sentences, counts.document_ends)):
            start += corpus.row_bytes(name) * skipped.get(name, 0)
            length -= skipped.get(name, 0)
            columns[name] = corpus.FileColumn(file, name, start, length)
            start += corpus.row_bytes(name) * length
        return columns


class _JoinedColumn:
    """A column of the corpus with rows in the files of several batches.

    firsts, [batches + 1], has the first row of each batch in the corpus, and the number of all rows; bases, [batches +
    1] or [batches + 1, columns], the offsets to add to the values of each batch.
    """

    def __init__(self, opened: Callable[[int], dict[str, Column]], name: str, firsts: np.ndarray, bases: np.ndarray):
        self._opened, self._name, self._firsts, self._bases = opened, name, firsts.tolist(), bases

    def __len__(self) -> int:
        return self._firsts[-1]

    def __getitem__(self, piece: slice) -> np.ndarray:
        dtype, row_shape = COLUMNS[self._name]
        rows: np.ndarray = np.empty((max(piece.stop - piece.start, 0), *row_shape), dtype)
        first = piece.start
        batch = bisect.bisect_right(self._firsts, first) - 1
        while first < piece.stop:
            begin, stop = self._firsts[batch], min(self._firsts[batch + 1], piece.stop)
            if first < stop:
                values = self._opened(batch)[self._name][first - begin : stop - begin]
                np.add(values, self._bases[batch], out=rows[first - piece.start : stop - piece.start], dtype=dtype)
            first, batch = stop, batch + 1
        return rows


def _batch_path(folder: str, key: BatchKey) -> str:
    return os.path.join(folder, "batches", key.name)
