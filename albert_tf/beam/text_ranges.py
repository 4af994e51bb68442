"""Divides text files into ranges for workers, and orders the batches of lines that are read from them."""

from __future__ import annotations

import itertools
from typing import Iterable, Iterator, NamedTuple

import tensorflow as tf

from albert_tf.data.rows import read_document_lines
from albert_tf.pretraining.corpus import in_batches
from albert_tf.text.lines import is_compressed, read_lines

RANGE_BYTES = 4 << 20  # of a range, and about as many as a worker tokenises in one call


class TextRange(NamedTuple):
    """A range of a file's bytes: the lines that begin at bytes `start` to `stop` - 1, or to the file's end (None).

    With text_column, it is the whole of a table.
    """

    file: int
    path: str
    start: int
    stop: int | None
    text_column: str | None = None

    @property
    def name(self) -> str:
        """The name of its first batch (see BatchPlace.name)."""
        return BatchPlace(self.file, self.start, 0, 0, 0).name


class BatchPlace(NamedTuple):
    """The position of a batch of lines: batch `number` of the range that begins at `start` in file number `file`.

    next_start and next_number are the same for the next batch of the file; next_start is -1 for the last batch.
    """

    file: int
    start: int
    number: int
    next_start: int
    next_number: int

    @property
    def name(self) -> str:
        """A name for a file of the batch. The names of all batches are in the order of the text."""
        return f"{self.file:06d}-{self.start:015d}-{self.number:06d}"


def text_ranges(paths: list[str], text_column: str | None = None) -> list[TextRange]:
    """The ranges of all files. A compressed file or a table is a single range, since it is read from its start."""
    ranges = []
    for file, path in enumerate(paths):
        size = 0 if text_column or is_compressed(path) else tf.io.gfile.stat(path).length
        starts = range(0, max(size, 1), RANGE_BYTES)
        ranges += [TextRange(file, path, start, stop, text_column) for start, stop in zip(starts, [*starts[1:], None])]
    return ranges


def read_batches(text_range: TextRange) -> Iterator[tuple[BatchPlace, list[str]]]:
    """The lines of a range in batches, at least one, with an empty line after the last line of a file."""
    file, path, start, stop, text_column = text_range
    is_whole = stop is None and not start
    lines: Iterable[str] = read_document_lines(path, text_column) if is_whole else read_lines(path, start, stop)
    # With twice the size of a range, all lines of a range are in one batch.
    batches = in_batches(lines if stop or is_whole else itertools.chain(lines, [""]), 2 * RANGE_BYTES)
    batch, number = next(batches), 0
    for following in batches:
        yield BatchPlace(file, start, number, start, number + 1), batch
        batch, number = following, number + 1
    yield BatchPlace(file, start, number, -1 if stop is None else stop, 0), batch


def check_complete(places: list[BatchPlace], num_files: int) -> None:
    """Raises OSError unless every batch occurs exactly once in the ordered places; a runner may lose or repeat some."""
    file, start, number = 0, 0, 0
    for place in places:
        if (place.file, place.start, place.number) != (file, start, number):
            break
        file, start, number = (file, *place[3:]) if place.next_start >= 0 else (file + 1, 0, 0)
    else:
        if file == num_files:
            return
    raise OSError(f"the runner lost or repeated elements: a batch of text file {file + 1} of {num_files}, byte {start}")
