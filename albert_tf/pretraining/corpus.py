"""A corpus as token ids on disk. It is tokenised once, in parallel, and then each worker reads the parts that it needs.

Text has one sentence per line and a blank line between documents; in a table, a row is a document.
"""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO, Iterable, Iterator, NamedTuple, Protocol

import numpy as np

from albert_tf.data.rows import read_document_lines
from albert_tf.text.lines import split_lines
from albert_tf.text.tokenization import FullTokenizer

_BATCH_BYTES = 1 << 20  # of text per call to a tokenising worker
_DOCUMENT_END = _NO_END = -1
_BLOCK = 1 << 20  # ends of documents that are in memory at a time
# The data type and the row shape of each column.
COLUMNS: dict[str, tuple[type, tuple[int, ...]]] = dict(
    ids=(np.int32, ()),  # [tokens], all sentences one after the other
    sentence_ends=(np.int64, ()),  # [sentences], the end of each sentence in ids
    document_ends=(np.int64, (2,)),  # [documents, 2], the end of each document in sentence_ends and in ids
)


class TokenizedBatch(NamedTuple):
    """The tokens of consecutive lines. Sentences and tokens are counted from the start of the batch.

    A document's end at 0 closes a document that an earlier batch has begun, if there is one.
    """

    ids: np.ndarray  # int32 [tokens]
    sentence_ends: np.ndarray  # int64 [sentences], the end of each sentence in ids
    document_ends: np.ndarray  # int64 [ends, 2], the distinct ends of documents in sentence_ends and in ids

    @property
    def counts(self) -> BatchCounts:
        """The size of the batch."""
        ends = self.document_ends[[0, -1], 0].tolist() if len(self.document_ends) else [_NO_END, _NO_END]
        return BatchCounts(len(self.ids), len(self.sentence_ends), len(self.document_ends), *ends)


class BatchCounts(NamedTuple):
    """The size of a TokenizedBatch."""

    tokens: int
    sentences: int
    document_ends: int
    first_end: int  # of its first document, in sentences; -1 if no document ends in it
    last_end: int  # the same of its last document


class Position(NamedTuple):
    """How much of a corpus precedes a batch."""

    tokens: int = 0
    sentences: int = 0
    documents: int = 0
    open_document: int = 0  # the first sentence of the document that is not closed; equal to sentences if none is open

    def skipped_ends(self, counts: BatchCounts) -> int:
        """How many of a batch's document ends (0 or 1) close no document, such as a second blank line."""
        return int(counts.first_end == 0 and self.open_document == self.sentences)

    def after(self, counts: BatchCounts) -> Position:
        """The position after a batch."""
        has_end = counts.last_end != _NO_END
        return Position(self.tokens + counts.tokens, self.sentences + counts.sentences,
                        self.documents + counts.document_ends - self.skipped_ends(counts),
                        self.sentences + counts.last_end if has_end else self.open_document)


class Column(Protocol):
    """An array that can be read by ranges of rows."""

    def __len__(self) -> int: ...

    def __getitem__(self, piece: slice) -> np.ndarray: ...


class Part(NamedTuple):
    """Sentences `first` to `last` - 1 of one document, numbered over the whole corpus."""

    document: int
    first: int
    last: int


class Corpus:
    """Documents, which consist of sentences, which consist of token ids. The columns (see COLUMNS) stay in files."""

    def __init__(self, ids: Column, sentence_ends: Column, document_ends: Column):
        self._ids, self._sentence_ends, self._document_ends = ids, sentence_ends, document_ends
        self.num_sentences, self.num_tokens = len(sentence_ends), len(ids)  # in all documents

    def __len__(self) -> int:
        return len(self._document_ends)

    def parts(self, documents: range, longest: int) -> list[Part]:
        """Each of the documents as one part, or as several parts if it has more than `longest` sentences."""
        starts = self._ends(documents.start - 1, documents.stop)[:, 0].tolist()
        return [Part(document, start, min(start + longest, last))
                for document, first, last in zip(documents, starts, starts[1:])
                for start in range(first, last, longest)]

    def tasks(self, tokens: int, longest: int, documents: range | None = None) -> Iterator[list[Part]]:
        """Divides documents (all by default) into tasks: several small ones of about `tokens` tokens, or one part."""
        documents = range(len(self)) if documents is None else documents
        for first in range(documents.start, documents.stop, _BLOCK):
            last = min(first + _BLOCK, documents.stop)
            # Two documents are in one task if both begin and both end between the same multiples of `tokens`.
            ends = self._ends(first - 1, last)[:, 1] // tokens
            starts = (np.flatnonzero(np.diff(ends[:-1] + ends[1:], prepend=-1)) + first).tolist()
            for start, stop in zip(starts, [*starts[1:], last]):
                parts = self.parts(range(start, stop), longest)
                yield from [parts] if stop - start > 1 else [[part] for part in parts]

    def sentences(self, part: Part) -> tuple[np.ndarray, list[int]]:
        """The ids of a part, int32, and [0, end of sentence 1, end of sentence 2, ...] within these ids."""
        start, ends = self._token_ends(part.first, part.last)
        return self._ids[start : start + ends[-1]], [0, *ends.tolist()]

    def random_sentences(self, rng: np.random.Generator, index: int, length: int) -> np.ndarray:
        """Consecutive sentences with at least `length` tokens, drawn at random from a document other than `index`.

        They have fewer tokens if the document ends before. A corpus of one document uses that document.
        """
        if len(self) > 1:
            other = int(rng.integers(len(self) - 1))
            index = other + (other >= index)
        (first, _), (last, _) = self._ends(index - 1, index + 1).tolist()
        first = int(rng.integers(first, last))
        start, ends = self._token_ends(first, min(first + length, last))  # each sentence has at least one token
        return self._ids[start : start + ends[min(int(np.searchsorted(ends, length)), len(ends) - 1)]]

    def _token_ends(self, first: int, last: int) -> tuple[int, np.ndarray]:
        """The start of sentence `first` in ids, and the ends of sentences `first` to `last` - 1 relative to it."""
        ends = self._sentence_ends[max(first - 1, 0) : last]
        start, ends = (int(ends[0]), ends[1:]) if first else (0, ends)
        return start, ends - start

    def _ends(self, first: int, last: int) -> np.ndarray:
        """The ends of documents `first` to `last` - 1, int64 [documents, 2]; document -1 ends at 0."""
        ends = self._document_ends[max(first, 0) : last]
        return ends if first >= 0 else np.concatenate([[[0, 0]], ends])


def row_bytes(name: str) -> int:
    """The size in bytes of a row of a column."""
    dtype, row_shape = COLUMNS[name]
    return np.dtype(dtype).itemsize * int(np.prod(row_shape))


def open_corpus(folder: str) -> Corpus:
    """Opens the corpus that write_corpus wrote to a folder. (Pages of a memory map would count as memory.)"""
    return Corpus(*(FileColumn(open(os.path.join(folder, name), "rb", buffering=0), name) for name in COLUMNS))


class FileColumn:
    """A column in a local file, from byte `start` on: `length` rows, or all to the end of the file."""

    def __init__(self, file: BinaryIO, name: str, start: int = 0, length: int | None = None):
        self._file, self._start = file, start
        (self._dtype, self._row_shape), self._row_bytes = COLUMNS[name], row_bytes(name)
        self._length = (os.fstat(file.fileno()).st_size - start) // self._row_bytes if length is None else length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, piece: slice) -> np.ndarray:
        values: np.ndarray = np.empty((max(piece.stop - piece.start, 0), *self._row_shape), self._dtype)
        self._file.seek(self._start + piece.start * self._row_bytes)
        if self._file.readinto(values.reshape(-1).view(np.uint8).data) != values.nbytes:  # type: ignore[attr-defined]
            raise OSError(f"{self._file.name} has become shorter since it was opened")
        return values


def line_batches(paths: list[str], text_column: str | None = None) -> Iterator[list[str]]:
    """The lines of read_document_lines for all files, in batches of about a megabyte."""
    return in_batches((line for path in paths for line in read_document_lines(path, text_column)), _BATCH_BYTES)


def in_batches(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Stripped lines in batches of at least `size` characters, but for the last one."""
    batch, batch_size = [], 0
    for line in lines:
        batch.append(line.strip())
        batch_size += len(line)
        if batch_size >= size:
            yield batch
            batch, batch_size = [], 0
    yield batch


def tokenize_lines(tokenizer: FullTokenizer, lines: list[str], language: str | None = None) -> TokenizedBatch:
    """Tokenizes stripped lines, split into sentences by the rules of a language. An empty line ends a document."""
    if language:
        lines = list(split_lines(lines, language))
    encoded = tokenizer.encode_batch(lines)
    lengths = np.array([len(ids) if line else _DOCUMENT_END for line, ids in zip(lines, encoded)], np.int64)
    return batch_of(np.concatenate([np.empty(0, np.int32), *encoded]).astype(np.int32), lengths[lengths != 0])


def batch_of(ids: np.ndarray, lengths: np.ndarray) -> TokenizedBatch:
    """A batch of ids, int32 [tokens], and the number of tokens of each sentence, int64, or -1 for a document's end."""
    is_sentence = lengths != _DOCUMENT_END
    ends = np.cumsum(np.concatenate([[0], lengths[is_sentence]]))  # 0, and the end of each sentence
    document_ends = np.unique(np.cumsum(is_sentence)[~is_sentence])  # several blank lines are one end
    return TokenizedBatch(ids, ends[1:], np.stack([document_ends, ends[document_ends]], axis=1))


def write_corpus(batches: Iterable[TokenizedBatch], folder: str, name: str) -> Corpus:
    """Writes a corpus to a folder, batch by batch. If there are no tokens, a ValueError has the `name` of the text."""
    position = Position()
    with contextlib.ExitStack() as files:
        ids_file, ends_file, documents_file = (
            files.enter_context(open(os.path.join(folder, name), "wb")) for name in COLUMNS)
        for batch in batches:
            ids_file.write(batch.ids.tobytes())
            ends_file.write((batch.sentence_ends + position.tokens).tobytes())
            document_ends = batch.document_ends[position.skipped_ends(batch.counts) :]
            documents_file.write((document_ends + [position.sentences, position.tokens]).tobytes())
            position = position.after(batch.counts)
    check_has_text(position.tokens, name)
    return open_corpus(folder)


def check_has_text(num_tokens: int, name: str) -> None:
    """Raises ValueError if a corpus has no tokens."""
    if not num_tokens:
        raise ValueError(f"there is no text in {name}")
