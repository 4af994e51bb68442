"""A corpus as token ids on disk: tokenised once, in parallel, and then read by every worker without being loaded.

Text is one sentence a line, with a blank line between documents (release: create_pretraining_data.py).
"""

from __future__ import annotations

import os
from typing import Iterable, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.text.tokenization import FullTokenizer

# Bytes of text that one call to a tokenising worker takes.
_BATCH_BYTES = 1 << 20
_DOCUMENT_END = -1


class Corpus:
    """Documents of sentences of token ids, memory-mapped from a folder that `tokenize_corpus` filled.

    Attributes:
      ids: int32 [tokens], all sentences one after the other.
      sentence_ends: int64 [sentences], where each ends in ids.
      document_ends: int64 [documents], where each ends in sentence_ends.
    """

    def __init__(self, folder: str):
        self.ids, self.sentence_ends, self.document_ends = (
            np.memmap(os.path.join(folder, name), dtype, "r") for name, dtype in _FILES)

    def __len__(self) -> int:
        return len(self.document_ends)

    def document(self, index: int) -> tuple[np.ndarray, list[int]]:
        """The ids of a document, and where its sentences end in them, with a 0 in front."""
        first = self.document_ends[index - 1] if index else 0
        ends = self.sentence_ends[first : self.document_ends[index]]
        start = int(self.sentence_ends[first - 1]) if first else 0
        return np.asarray(self.ids[start : ends[-1]]), [0, *(ends - start).tolist()]


_FILES = (("ids", np.int32), ("sentence_ends", np.int64), ("document_ends", np.int64))


def read_lines(path: str) -> Iterator[str]:
    """The lines of a UTF-8 file, split at newline only and without any carriage return.

    Raises:
      ValueError: a line is not UTF-8; file and line are named.
    """
    with tf.io.gfile.GFile(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield line.decode("utf-8").replace("\r", "").rstrip("\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path} line {number}: not UTF-8 ({error.reason})") from error


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
    """The ids of all lines, int32, and the length of each line, or -1 where a document ends. Empty ones are left out."""
    encoded = tokenizer.encode_batch(lines)
    lengths = np.array([len(ids) if line else _DOCUMENT_END for line, ids in zip(lines, encoded)], np.int64)
    return np.concatenate(encoded).astype(np.int32), lengths[lengths != 0]


def write_corpus(batches: Iterable[tuple[np.ndarray, np.ndarray]], folder: str) -> Corpus:
    """Writes what tokenize_lines gave, batch after batch, to a folder.

    Raises:
      ValueError: there is no token in it.
    """
    sentence_end = sentences = document_start = 0
    with open(os.path.join(folder, "ids"), "wb") as ids_file, open(os.path.join(folder, "sentence_ends"), "wb") as ends_file, \
            open(os.path.join(folder, "document_ends"), "wb") as documents_file:
        for ids, lengths in batches:
            ids.tofile(ids_file)
            is_sentence = lengths != _DOCUMENT_END
            ends = sentence_end + np.cumsum(lengths[is_sentence])
            ends.astype(np.int64).tofile(ends_file)
            document_ends = sentences + np.cumsum(is_sentence)[~is_sentence]
            # Two blank lines, or one at the start, end no document.
            document_ends = np.unique(document_ends[document_ends > document_start])
            document_ends.astype(np.int64).tofile(documents_file)
            sentences += int(is_sentence.sum())
            sentence_end = int(ends[-1]) if len(ends) else sentence_end
            document_start = int(document_ends[-1]) if len(document_ends) else document_start
    if not sentence_end:
        raise ValueError("there is no text in the input files")
    return Corpus(folder)
