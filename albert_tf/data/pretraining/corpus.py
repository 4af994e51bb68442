"""A corpus as token ids on disk: tokenised once, in parallel, and then read by every worker piece by piece.

Text is one sentence a line, with a blank line between documents (release: create_pretraining_data.py).
"""

from __future__ import annotations

import contextlib
import os
from typing import Iterable, Iterator, NamedTuple

import numpy as np

from albert_tf.text.lines import read_lines
from albert_tf.text.tokenization import FullTokenizer

# Bytes of text that one call to a tokenising worker takes.
_BATCH_BYTES = 1 << 20
_DOCUMENT_END = -1
# Documents whose ends are looked at together.
_BLOCK = 1 << 20


_COLUMNS = dict(
    ids=np.int32,  # [tokens], all sentences one after the other
    sentence_ends=np.int64,  # [sentences], where each ends in ids
    document_ends=np.int64,  # [2 * documents], where each ends in sentence_ends, and in ids
)


class Part(NamedTuple):
    """A stretch of one document: sentences from `first` to before `last`, counted over the whole corpus."""

    document: int
    first: int
    last: int


class Corpus:
    """Documents of sentences of token ids, in a folder that `write_corpus` filled. Nothing of it stays in memory."""

    def __init__(self, folder: str):
        self._ids, self._sentence_ends, self._document_ends = (
            _Column(os.path.join(folder, name), dtype) for name, dtype in _COLUMNS.items())

    def __len__(self) -> int:
        return len(self._document_ends) // 2

    @property
    def num_sentences(self) -> int:
        """Sentences of all documents."""
        return len(self._sentence_ends)

    @property
    def num_tokens(self) -> int:
        """Tokens of all documents."""
        return len(self._ids)

    def parts(self, documents: range, longest: int) -> list[Part]:
        """Each of some documents as one part, or as several of `longest` sentences where it has more."""
        starts = self._ends(documents.start - 1, documents.stop)[:, 0].tolist()
        return [Part(document, start, min(start + longest, last))
                for document, first, last in zip(documents, starts, starts[1:])
                for start in range(first, last, longest)]

    def tasks(self, tokens: int, longest: int) -> Iterator[list[Part]]:
        """The parts of all documents: those of small ones together, about `tokens` of them, and others one by one."""
        for first in range(0, len(self), _BLOCK):
            documents = range(first, min(first + _BLOCK, len(self)))
            # Two documents go together when both begin and both end between the same multiples of `tokens`.
            ends = self._ends(first - 1, documents.stop)[:, 1] // tokens
            starts = (np.flatnonzero(np.diff(ends[:-1] + ends[1:], prepend=-1)) + first).tolist()
            for start, stop in zip(starts, [*starts[1:], documents.stop]):
                parts = self.parts(range(start, stop), longest)
                yield from [parts] if stop - start > 1 else [[part] for part in parts]

    def sentences(self, part: Part) -> tuple[np.ndarray, list[int]]:
        """The ids of a part, int32, and where its sentences end in them, with a 0 in front."""
        start, ends = self._token_ends(part.first, part.last)
        return self._ids[start : start + ends[-1]], [0, *ends.tolist()]

    def random_sentences(self, rng: np.random.Generator, index: int, length: int) -> np.ndarray:
        """Sentences of another document than `index`, from a random one on until they have `length` tokens.

        A corpus of one document has no other one: it is taken from itself.
        """
        if len(self) > 1:
            other = int(rng.integers(len(self) - 1))
            index = other + (other >= index)
        (first, _), (last, _) = self._ends(index - 1, index + 1).tolist()
        first = int(rng.integers(first, last))
        start, ends = self._token_ends(first, min(first + length, last))  # no sentence is without a token
        return self._ids[start : start + ends[min(int(np.searchsorted(ends, length)), len(ends) - 1)]]

    def _token_ends(self, first: int, last: int) -> tuple[int, np.ndarray]:
        """Where sentence `first` begins in ids, and where each from there to before `last` ends, counted from there."""
        ends = self._sentence_ends[max(first - 1, 0) : last]
        start, ends = (int(ends[0]), ends[1:]) if first else (0, ends)
        return start, ends - start

    def _ends(self, first: int, last: int) -> np.ndarray:
        """Where documents from `first` to before `last` end, int64 [documents, 2]; document -1 ends at 0."""
        ends = self._document_ends[2 * max(first, 0) : 2 * last].reshape(-1, 2)
        return ends if first >= 0 else np.concatenate([[[0, 0]], ends])


class _Column:
    """An array in a file, of which slices are read. A memory map would count as memory what it has seen."""

    def __init__(self, path: str, dtype):
        self._file, self._dtype = open(path, "rb", buffering=0), np.dtype(dtype)

    def __len__(self) -> int:
        return os.fstat(self._file.fileno()).st_size // self._dtype.itemsize

    def __getitem__(self, piece: slice) -> np.ndarray:
        values = np.empty(max(piece.stop - piece.start, 0), self._dtype)
        self._file.seek(piece.start * self._dtype.itemsize)
        if self._file.readinto(values.view(np.uint8).data) != values.nbytes:
            raise OSError(f"{self._file.name} is shorter than it was")
        return values


def line_batches(paths: list[str]) -> Iterator[list[str]]:
    """The lines of all files in batches of about a megabyte; an empty line ends a document, and so does a file."""
    batch, size = [], 0
    for path in paths:
        for line in read_lines(path):
            batch.append(line.strip())
            size += len(line)
            if size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        batch.append("")
    yield batch


def tokenize_lines(tokenizer: FullTokenizer, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all lines, int32, and the length of each, or -1 where a document ends. Lines without ids go."""
    encoded = tokenizer.encode_batch(lines)
    lengths = np.array([len(ids) if line else _DOCUMENT_END for line, ids in zip(lines, encoded)], np.int64)
    return np.concatenate(encoded).astype(np.int32), lengths[lengths != 0]


def write_corpus(
    batches: Iterable[tuple[np.ndarray, np.ndarray]], folder: str, name: str = "the input files"
) -> Corpus:
    """Writes what tokenize_lines gave, batch after batch, to a folder.

    Args:
      batches: ids and lengths.
      folder: gets the files of the corpus.
      name: of the text, for the error.

    Raises:
      ValueError: there is no token in it.
    """
    num_tokens = num_sentences = document_start = 0
    with contextlib.ExitStack() as files:
        ids_file, ends_file, documents_file = (
            files.enter_context(open(os.path.join(folder, name), "wb")) for name in _COLUMNS)
        for ids, lengths in batches:
            is_sentence = lengths != _DOCUMENT_END
            ends = num_tokens + np.cumsum(np.concatenate([[0], lengths[is_sentence]]))  # of what was before, and each
            document_ends = np.cumsum(is_sentence)[~is_sentence]
            # Two blank lines, or one at the start, end no document.
            document_ends = np.unique(document_ends[document_ends + num_sentences > document_start])
            ids_file.write(ids.tobytes())
            ends_file.write(ends[1:].tobytes())
            documents_file.write(np.stack([num_sentences + document_ends, ends[document_ends]], axis=1).tobytes())
            document_start = num_sentences + int(document_ends[-1]) if len(document_ends) else document_start
            num_sentences += len(ends) - 1
            num_tokens = int(ends[-1])
    if not num_tokens:
        raise ValueError(f"there is no text in {name}")
    return Corpus(folder)
