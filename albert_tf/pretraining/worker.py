"""The functions that creation.py's worker processes run: lines to token ids, and parts of the corpus to records.

Records are shuffled as a whole, although they do not fit into memory: each has a random key, and is written to the
bucket file that has the keys of a range. Then each bucket is sorted in memory, one after the other. The order depends
on the keys only, not on the number of workers.

No module that is imported here may import TensorFlow, since every worker would load it.
"""

from __future__ import annotations

import collections
import dataclasses
import glob
import os
import struct
from typing import Iterator

import numpy as np

from albert_tf.pretraining import corpus as corpus_files
from albert_tf.pretraining.corpus import Corpus, Part, TokenizedBatch, open_corpus
from albert_tf.pretraining.examples import ExampleMaker, MaskingOptions, Segmenter, SegmentOptions
from albert_tf.text.lines import check_splitting
from albert_tf.text.tokenization import FullTokenizer, word_starts
from albert_tf.utils import bounds


@dataclasses.dataclass(frozen=True)
class CreationOptions:
    """How create_pretraining_data makes examples.

    Raises:
      ValueError: a value is out of range, max_predictions_per_seq is larger than max_seq_length, or lines cannot be
        split.
    """

    segments: SegmentOptions
    masking: MaskingOptions
    dupe_factor: int  # number of passes over the corpus, each with new random segments and masks
    random_seed: int
    split_lines: str | None = None  # the text's language, such as "en", to split each line into sentences by its rules

    def __post_init__(self):
        bounds.DUPE_FACTOR.check("dupe_factor", self.dupe_factor)
        bounds.SEED.check("random_seed", self.random_seed)
        if self.masking.max_predictions_per_seq > self.segments.max_seq_length:
            raise ValueError("max_predictions_per_seq must be at most max_seq_length "
                             f"{self.segments.max_seq_length}. Received: {self.masking.max_predictions_per_seq}")
        if self.split_lines is not None:
            check_splitting(self.split_lines)


class RecordMaker:
    """Makes the records of parts of a corpus; of the whole corpus, since a random segment B comes from any document.

    starts_word, bool [vocab_size], is whether the piece of each id starts a word.
    """

    def __init__(self, corpus: Corpus, tokenizer: FullTokenizer, starts_word: np.ndarray, options: CreationOptions):
        self._corpus, self._random_seed = corpus, options.random_seed
        self._segmenter = Segmenter(options.segments, starts_word, corpus.random_sentences)
        self._maker = ExampleMaker(tokenizer, starts_word, options.segments.max_seq_length, options.masking)

    def records(self, dupe: int, part: Part, statistics: collections.Counter[str]) -> Iterator[tuple[int, bytes]]:
        """The sorting key and the serialized record of each example of a part. Adds to the statistics.

        They depend on the seed, the part and the number `dupe` of the pass over the corpus only. The statistics are
        the counts of create_pretraining_data, and sentences.
        """
        rng = np.random.default_rng([self._random_seed, dupe, part.first])
        ids, ends = self._corpus.sentences(part)
        statistics.update(sentences=part.last - part.first, text_tokens=len(ids), unused_tokens=len(ids))
        for pair in self._segmenter.pairs(part.document, ids, ends, rng):
            if pair is None:
                statistics["left_out"] += 1
            else:
                statistics["unused_tokens"] -= pair.document_tokens
                record = self._maker.make(pair, rng, statistics)
                yield int(rng.integers(1 << 63, dtype=np.uint64)), record


class Worker:
    """The state that a process keeps between its tasks. `work` is the folder of the corpus and the buckets."""

    def __init__(self, tokenizer: FullTokenizer, work: str, split_lines: str | None = None):
        self.tokenizer, self.work, self.split_lines = tokenizer, work, split_lines
        self.starts_word = word_starts(tokenizer)
        self.corpus: Corpus | None = None


def tokenize_batch(worker: Worker, lines: list[str]) -> tuple[TokenizedBatch, int]:
    """Tokenizes lines. Returns the tokens and the number of bytes of text."""
    tokenized = corpus_files.tokenize_lines(worker.tokenizer, lines, worker.split_lines)
    return tokenized, len("\n".join(lines).encode())


def examples_of_parts(worker: Worker, dupe: int, parts: list[Part], options: CreationOptions, num_buckets: int
                      ) -> collections.Counter[str]:
    """Writes the records of parts to the buckets. Returns the counts of create_pretraining_data, and sentences."""
    if worker.corpus is None:
        worker.corpus = open_corpus(worker.work)
    statistics: collections.Counter[str] = collections.Counter()
    maker = RecordMaker(worker.corpus, worker.tokenizer, worker.starts_word, options)
    buckets = BucketWriter(worker.work, num_buckets)
    for part in parts:
        for key, record in maker.records(dupe, part, statistics):
            buckets.write(key, record)
    buckets.flush()
    return statistics


_HEADER = struct.Struct("<QI")  # key, length of the record
_KEY_BITS = 63
# A writer appends to the buckets when it has about this many bytes in memory.
_BUFFER_BYTES = 16 << 20


def bucket_of(key: int, num_buckets: int) -> int:
    """The bucket of a key. Each of the `num_buckets` buckets has a range of keys of the same size."""
    return key * num_buckets >> _KEY_BITS


def packed(key: int, record: bytes) -> bytes:
    """Encodes a key, a random integer from 0 to 2**63 - 1, and a serialized record for a bucket file."""
    return _HEADER.pack(key, len(record)) + record


def unpacked(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The keys and records of a bucket's content."""
    position = 0
    while position < len(content):
        key, length = _HEADER.unpack_from(content, position)
        position += _HEADER.size
        yield key, content[position : position + length]
        position += length


class BucketWriter:
    """Appends records to the bucket files of a folder, under names that no other process uses."""

    def __init__(self, folder: str, num_buckets: int):
        self._folder, self._num_buckets = folder, num_buckets
        self._buffers: dict[int, bytearray] = {}
        self._buffered = 0

    def write(self, key: int, record: bytes) -> None:
        """Adds a record, whose key is as in `packed`."""
        buffer = self._buffers.setdefault(bucket_of(key, self._num_buckets), bytearray())
        buffer += packed(key, record)
        self._buffered += len(record)
        if self._buffered >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Appends the records in memory to the bucket files."""
        for bucket, buffer in self._buffers.items():
            with open(os.path.join(self._folder, f"{bucket:06d}.{os.getpid()}"), "ab") as file:
                file.write(buffer)
        self._buffers.clear()
        self._buffered = 0


def sorted_records(folder: str, buckets: range) -> Iterator[bytes]:
    """The records of several buckets in the order of their keys. A bucket's files are removed once they are read."""
    for bucket in buckets:
        records: list[tuple[int, bytes]] = []
        for path in glob.glob(os.path.join(glob.escape(folder), f"{bucket:06d}.*")):
            with open(path, "rb") as file:
                content = file.read()
            os.remove(path)
            records.extend(unpacked(content))
        records.sort()
        for _, record in records:
            yield record
