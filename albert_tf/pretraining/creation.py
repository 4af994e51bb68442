"""Converts text to pre-training records in three passes over files: tokenise, make examples, shuffle.

    text --(workers)--> Corpus on disk --(workers: segments, masking, examples)--> buckets --> TFRecords

An example depends on the seed, on its position in the corpus and on the number of the pass over the corpus (see
dupe_factor) only, so the number of workers does not change the records. No pass has more in memory than one bucket
(about 32 MB) or one part of a document for each worker; with release_compatible a part is a whole document.

Records are shuffled as a whole, although they do not fit into memory: each has a random key, and is written to the
bucket of its range of keys. Then each bucket is sorted in memory. The order depends on the keys only.

The Beam engine (albert_tf/beam/creation.py) has the same checks, outputs and sizes of tasks and buckets. No module
that is imported here may import TensorFlow, since every worker would load it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import glob
import os
import struct
import sys
import types
from typing import Any, Iterator, Mapping, Sequence

from albert_tf.data.records import CountingWriter
from albert_tf.data.worker_pool import Run, worker_pool
from albert_tf.pretraining import corpus as corpus_files
from albert_tf.pretraining.corpus import Corpus, Part, TokenizedBatch, open_corpus
from albert_tf.pretraining.examples import CreationOptions, RecordMaker
from albert_tf.text.lines import is_compressed
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key
from albert_tf.utils.files import absolute, errors_naming, is_remote, listed, scratch_folder
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.manifests import OutputSet, manifest_path, output_set
from albert_tf.utils.progress import count_of, progress

TASK_TOKENS = 200_000  # of a worker's task that has several small documents
# Sentences (about as many tokens as TASK_TOKENS) after which a document is split, so that several workers share it and
# none has all of it in memory.
LONGEST_PART = 8192
_MOST_UNUSED = 0.2  # share of the tokens that may be in no example without a warning
_BUCKET_BYTES = 32 << 20  # of records, by a generous estimate
_BUFFER_BYTES = 16 << 20  # of records that a writer has in memory before it appends them to the buckets
_HEADER = struct.Struct("<QI")  # key, length of the record
_KEY_BITS = 63


def create_pretraining_data(
    input_files: list[str], outputs: Mapping[str, list[str]], tokenizer: FullTokenizer, options: CreationOptions,
    num_workers: int, text_column: str | None = None, origin: Mapping[str, Any] = types.MappingProxyType({})
) -> collections.Counter:
    """Writes pre-training records, shuffled over all output files.

    Args:
      input_files: UTF-8 text files with one sentence per line (any number of sentences with options.split_lines) and a
        blank line between documents. Files with names in .gz or .bz2 are decompressed.
      outputs: the shards of each output, TFRecord files (see output_set). They appear when all are complete.
      text_column: name of the column with the documents of a table (see read_document_lines); None for text.
      origin: further entries of made_from in the manifests.

    Returns:
      the counts of documents, examples, tokens, masked (tokens), swapped (examples), short (examples), left_out
      (chunks of one word), text_tokens (the tokens of the text, counted once in each pass) and unused_tokens (those
      that are in no example of their pass).
    """
    check_names(outputs)
    first = next(iter(outputs.values()))[0]
    with output_set(outputs) as written, scratch_folder(  # beside the output, where space is expected
            None if is_remote(first) else os.path.dirname(written.temporary[first])) as work:
        with errors_naming(first, work), worker_pool(num_workers, Worker, tokenizer, work, options) as run:
            corpus = _tokenize(run, input_files, text_column, work)
            check_corpus(corpus, options)
            buckets = num_buckets(corpus, options, len(written.temporary))
            statistics = _make_examples(run, corpus, options, buckets)
        check_statistics(statistics)
        write_shards(written, list(written.temporary), work, buckets)
        written.made_from = {**made_from(options, tokenizer), **origin}
    statistics["documents"] = len(corpus)
    return statistics


def check_names(outputs: Mapping[str, list[str]]) -> None:
    """Raises ValueError if two outputs have a file in common, or a manifest (x and x.tfrecord)."""
    files = collections.Counter(file for path, shards in outputs.items() for file in map(
        absolute, (*shards, manifest_path(path))))
    for file, count in files.items():
        if count > 1:
            raise ValueError(f"two of the output files would both be written to {file}: give each another name")


def summary(statistics: collections.Counter) -> str:
    """The statistics as a readable text."""
    examples, tokens = statistics["examples"], statistics["tokens"]
    return (f"{count_of(statistics['documents'], 'document')}, {count_of(examples, 'example')}, "
            f"{tokens / examples:.1f} tokens on average, "
            f"{statistics['swapped'] / examples:.1%} swapped or of another document, "
            f"{count_of(statistics['masked'], 'token')} masked ({statistics['masked'] / tokens:.1%}), "
            f"{statistics['short'] / examples:.1%} drawn short; "
            f"left out: {count_of(statistics['left_out'], 'chunk')} of one word, and "
            f"{statistics['unused_tokens'] / statistics['text_tokens']:.1%} of the text's tokens in all")


def warning(statistics: collections.Counter, options: CreationOptions) -> str | None:
    """A warning if more than a fifth of the text's tokens are in no example, and what to do; None otherwise."""
    share = statistics["unused_tokens"] / statistics["text_tokens"]
    if share <= _MOST_UNUSED:
        return None
    advice = "shorten the lines" if options.split_lines else "set --split_lines to the text's language (such as en)"
    return (f"{share:.1%} of the text's tokens are in no example: a line that is longer than --max_seq_length="
            f"{options.segments.max_seq_length} is truncated. Write one sentence on each line, {advice}, or set a "
            "larger --max_seq_length")


def _tokenize(run: Run, input_files: list[str], text_column: str | None, work: str) -> Corpus:
    # The size of the text of a table or a compressed file is unknown before it is read.
    is_unknown = text_column or any(map(is_compressed, input_files))
    size = None if is_unknown else sum(tf.io.gfile.stat(path).length for path in input_files)
    tasks = ((lines,) for lines in corpus_files.line_batches(input_files, text_column))
    with progress("tokenising", size, "B") as done:

        def encoded() -> Iterator[TokenizedBatch]:
            for batch, num_bytes in run(tokenize_batch, tasks):
                yield batch
                done(num_bytes)

        return corpus_files.write_corpus(encoded(), work, listed(input_files))


def _make_examples(run: Run, corpus: Corpus, options: CreationOptions, num_buckets: int) -> collections.Counter:
    tasks = ((dupe, parts, num_buckets) for dupe in range(options.dupe_factor)
             for parts in corpus.tasks(TASK_TOKENS, longest_part(options)))
    statistics: collections.Counter[str] = collections.Counter()
    with progress("making examples", options.dupe_factor * corpus.num_sentences, " sentences") as done:
        for counts in run(examples_of_parts, tasks):
            done(counts.pop("sentences"))
            statistics.update(counts)
    return statistics


def write_shards(written: OutputSet, shards: Sequence[str], work: str, num_buckets: int) -> None:
    """Writes the records of the buckets in a folder to the shards. Raises ValueError if a shard has no records."""
    each = num_buckets // len(shards)
    with progress("writing", len(shards), " files") as done:
        for i, path in enumerate(shards):
            with tf.io.TFRecordWriter(written.temporary[path]) as file:
                writer = CountingWriter(file)
                for record in sorted_records(work, range(i * each, (i + 1) * each)):
                    writer.write(record)
            written.counts[path] = writer.count
            done(1)
    check_counts(written.counts)


def check_counts(counts: Mapping[str, int]) -> None:
    """Raises ValueError if a shard has no records. `counts` has the number of records by path."""
    for number, (path, count) in enumerate(counts.items(), start=1):
        if not count:
            raise ValueError(f"shard {number} of {len(counts)}, {path}, has no records, since the text gives only "
                             f"{count_of(sum(counts.values()), 'example')}: set --num_shards to a smaller number, or "
                             "name fewer output files")


def longest_part(options: CreationOptions) -> int:
    """Sentences after which a document is split: never if release_compatible, which draws one length per document."""
    return sys.maxsize if options.segments.release_compatible else LONGEST_PART


def num_buckets(corpus: Corpus, options: CreationOptions, num_outputs: int) -> int:
    """The number of buckets, a multiple of num_outputs. Padding counts, since short documents make padded records."""
    examples = 2 * options.dupe_factor * (corpus.num_tokens // options.segments.max_seq_length + len(corpus))
    size = examples * (6 * options.segments.max_seq_length + 10 * options.masking.record_predictions)
    return num_outputs * (1 + size // (_BUCKET_BYTES * num_outputs))


def check_corpus(corpus: Corpus, options: CreationOptions) -> None:
    """Raises ValueError if a corpus is too small for the objective."""
    if options.segments.objective == "nsp" and len(corpus) < 2:
        raise ValueError("the next-sentence objective needs at least two documents, since segment B is from another "
                         "one: separate documents by a blank line")


def check_statistics(statistics: collections.Counter[str]) -> None:
    """Raises ValueError if no example was made."""
    if not statistics["examples"]:
        raise ValueError("no examples were made: every document has one word only")


def made_from(options: CreationOptions, tokenizer: FullTokenizer) -> dict:
    """The made_from entry in the manifest of each output."""
    splitting = {} if options.split_lines is None else dict(split_lines=options.split_lines)
    return dict(dataclasses.asdict(options.segments), **dataclasses.asdict(options.masking), **splitting,
                dupe_factor=options.dupe_factor, random_seed=options.random_seed, vocab_size=tokenizer.vocab_size,
                **tokenizer_key(tokenizer))


@dataclasses.dataclass
class Worker:
    """The state that a process keeps between its tasks."""

    tokenizer: FullTokenizer
    work: str  # the folder of the corpus and the buckets
    options: CreationOptions

    @functools.cached_property
    def maker(self) -> RecordMaker:
        """Makes the records of parts of the corpus, which must be complete."""
        return RecordMaker(open_corpus(self.work), self.tokenizer, self.options)


def tokenize_batch(worker: Worker, lines: list[str]) -> tuple[TokenizedBatch, int]:
    """Tokenizes lines. Returns the tokens and the number of bytes of text."""
    tokenized = corpus_files.tokenize_lines(worker.tokenizer, lines, worker.options.split_lines)
    return tokenized, len("\n".join(lines).encode())


def examples_of_parts(worker: Worker, dupe: int, parts: list[Part], num_buckets: int) -> collections.Counter[str]:
    """Writes the records of parts to the buckets. Returns the counts of create_pretraining_data, and sentences."""
    statistics: collections.Counter[str] = collections.Counter()
    buckets = BucketWriter(worker.work, num_buckets)
    for part in parts:
        for key, record in worker.maker.records(dupe, part, statistics):
            buckets.write(key, record)
    buckets.flush()
    return statistics


def bucket_of(key: int, num_buckets: int) -> int:
    """The bucket of a key. Each of the `num_buckets` buckets has a range of keys of the same size."""
    return key * num_buckets >> _KEY_BITS


def pack_record(key: int, record: bytes) -> bytes:
    """Encodes a key, a random integer from 0 to 2**63 - 1, and a serialized record for a bucket file."""
    return _HEADER.pack(key, len(record)) + record


def unpack_records(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The keys and records of a bucket's content."""
    position = 0
    while position < len(content):
        key, length = _HEADER.unpack_from(content, position)
        position += _HEADER.size
        yield key, content[position : position + length]
        position += length


class BucketWriter:
    """Appends records to this process's bucket files in a folder."""

    def __init__(self, folder: str, num_buckets: int):
        self._folder, self._num_buckets = folder, num_buckets
        self._buffers: dict[int, bytearray] = {}
        self._buffered = 0

    def write(self, key: int, record: bytes) -> None:
        """Adds a record. For its key see `pack_record`."""
        buffer = self._buffers.setdefault(bucket_of(key, self._num_buckets), bytearray())
        buffer += pack_record(key, record)
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
            records.extend(unpack_records(content))
        records.sort()
        for _, record in records:
            yield record
