"""A corpus in several files, one per batch of lines, and a table with the position of each batch in the corpus."""

from __future__ import annotations

import bisect
import functools
import itertools
import os
from typing import Callable, NamedTuple

import numpy as np

from albert_tf.beam.text_ranges import BatchPlace
from albert_tf.pretraining.corpus import (
    COLUMNS,
    BatchCounts,
    Column,
    Corpus,
    FileColumn,
    Position,
    TokenizedBatch,
    row_bytes,
)
from albert_tf.utils.arrays import write_array
from albert_tf.utils.outputs import local_copy, write_bytes

_OPEN_FILES = 64  # batches whose files are open at a time


class BatchEntry(NamedTuple):
    """A batch's row of the table."""

    place: BatchPlace
    counts: BatchCounts


def write_batch(folder: str, place: BatchPlace, batch: TokenizedBatch) -> BatchEntry:
    """Writes the columns of a batch. If a batch is written again, the bytes are the same."""
    write_bytes(_batch_path(folder, place), b"".join(column.tobytes() for column in batch))
    return BatchEntry(place, batch.counts)


def write_table(folder: str, entries: list[BatchEntry]) -> None:
    """Writes the table of all batches, in the order of the text."""
    write_array(_table_path(folder), np.array([[*entry.place, *entry.counts] for entry in entries], np.int64))


class BatchTable:
    """The table of all batches of a folder, which write_batch and write_table have written."""

    def __init__(self, folder: str):
        table = np.load(local_copy(_table_path(folder)), allow_pickle=False).tolist()
        width = len(BatchPlace._fields)
        self._folder = folder
        self._places = [BatchPlace(*row[:width]) for row in table]
        self._counts = [BatchCounts(*row[width:]) for row in table]
        self._positions = list(itertools.accumulate(self._counts, Position.after, initial=Position()))

    def documents(self, batch: int) -> range:
        """The documents that end in a batch."""
        return range(self._positions[batch].documents, self._positions[batch + 1].documents)

    def __len__(self) -> int:
        return len(self._places)

    def corpus(self) -> Corpus:
        """The corpus. Its files are read only when they are needed; remote files are then copied to this machine."""
        opened = functools.lru_cache(maxsize=_OPEN_FILES)(self._open)
        starts = np.array(self._positions)  # [batches + 1, 4]
        tokens, sentences, documents = starts[:, 0], starts[:, 1], starts[:, 2]
        return Corpus(_JoinedColumn(opened, "ids", tokens, np.zeros_like(tokens)),
                      _JoinedColumn(opened, "sentence_ends", sentences, tokens),
                      _JoinedColumn(opened, "document_ends", documents, starts[:, [1, 0]]))

    def _open(self, batch: int) -> dict[str, Column]:
        """The columns of a batch, without a document end that closes no document."""
        counts = self._counts[batch]
        skipped = dict(document_ends=self._positions[batch].skipped_ends(counts))
        file = open(local_copy(_batch_path(self._folder, self._places[batch])), "rb", buffering=0)
        columns: dict[str, Column] = {}
        start = 0
        for name, length in zip(COLUMNS, (counts.tokens, counts.sentences, counts.document_ends)):
            start += row_bytes(name) * skipped.get(name, 0)
            length -= skipped.get(name, 0)
            columns[name] = FileColumn(file, name, start, length)
            start += row_bytes(name) * length
        return columns


class _JoinedColumn:
    """A column of the corpus, whose rows are in the files of several batches.

    `opened` returns the columns of a batch by its number. `firsts` has the first row of each batch in the corpus, and
    the number of all rows, [batches + 1]; `bases` the offsets that are added to its values, [batches + 1] or [batches +
    1, columns].
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


def _batch_path(folder: str, place: BatchPlace) -> str:
    return os.path.join(folder, "batches", place.name)


def _table_path(folder: str) -> str:
    return os.path.join(folder, "table.npy")
