"""Text to pre-training records, in three passes over files: tokenise once, make examples, shuffle them all.

    text --(workers)--> Corpus on disk --(workers: segments, masking, examples)--> buckets --(workers)--> TFRecords

Every example is a function of the seed, of its place in the corpus and of how often the corpus was used before, so the
number of workers changes nothing; and no pass holds more than a few megabytes of the data.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import sys
import tempfile
from typing import Iterator

import numpy as np
import tensorflow as tf

from albert_tf.data.pretraining import corpus as corpus_files
from albert_tf.data.pretraining.corpus import Corpus, Part
from albert_tf.data.pretraining.examples import ExampleMaker
from albert_tf.data.pretraining.masking import MaskingOptions
from albert_tf.data.pretraining.segments import Segmenter, SegmentOptions
from albert_tf.data.pretraining.shuffle import BucketWriter, sorted_records
from albert_tf.data.records import all_or_none, record_writer
from albert_tf.data.worker_pool import Run, worker_pool
from albert_tf.progress import progress
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.text.word_boundaries import word_starts

# Tokens of small documents that one task of a worker takes. Sentences after which a document is cut, so that workers
# can share it and none has to hold it: about as many tokens.
_TASK_TOKENS = 200_000
_LONGEST_PART = 8192
# Bytes of records that one bucket holds at most, by a generous estimate.
_BUCKET_BYTES = 32 << 20


@dataclasses.dataclass(frozen=True)
class CreationOptions:
    """What create_pretraining_data makes.

    Args:
      segments: how documents are cut.
      masking: what is masked.
      dupe_factor: how often the corpus is used, each time cut and masked anew.
      random_seed: all chance comes from it.
    """

    segments: SegmentOptions
    masking: MaskingOptions
    dupe_factor: int
    random_seed: int


def create_pretraining_data(input_files: list[str], output_files: list[str], tokenizer: FullTokenizer,
                            options: CreationOptions, num_workers: int) -> collections.Counter:
    """Writes pre-training records, shuffled over all output files.

    Args:
      input_files: UTF-8 text, one sentence a line, a blank line between documents.
      output_files: TFRecord files to write; each appears when it is whole, with its manifest.
      tokenizer: of the model's vocabulary.
      options: what to make.
      num_workers: processes.

    Returns:
      counts: documents, examples, tokens, masked, swapped, short, left_out (chunks of one word).

    Raises:
      ValueError: there is no text, a line is not UTF-8, or the corpus is too small for the objective.
      OSError: a file cannot be written.
    """
    if len(set(output_files)) < len(output_files):
        raise ValueError("an output file is named twice")
    with _working_directory(output_files[0]) as work:
        with worker_pool(num_workers, _start_worker, tokenizer, work) as run:
            corpus = _tokenize(run, input_files, work)
            if options.segments.objective == "nsp" and len(corpus) < 2:
                raise ValueError("the next-sentence objective needs at least two documents: B comes from another one")
            num_buckets = _num_buckets(corpus, options, len(output_files))
            statistics = _make_examples(run, corpus, options, num_buckets)
        if not statistics["examples"]:
            raise ValueError("no example came out: every document is one word")
        with all_or_none(output_files), worker_pool(num_workers, _start_worker, tokenizer, work) as run:
            _write_outputs(run, output_files, num_buckets, _made_from(options))
    statistics["documents"] = len(corpus)
    return statistics


def summary(statistics: collections.Counter) -> str:
    """What was made, for a person."""
    examples, tokens = statistics["examples"], statistics["tokens"]
    return (f"{statistics['documents']:,} documents, {examples:,} examples, {tokens / examples:.1f} tokens on average, "
            f"{statistics['swapped'] / examples:.1%} swapped or of another document, "
            f"{statistics['masked']:,} tokens masked ({statistics['masked'] / tokens:.1%}), "
            f"{statistics['short'] / examples:.1%} drawn short; "
            f"left out: {statistics['left_out']:,} chunks of one word")


@contextlib.contextmanager
def _working_directory(output_file: str) -> Iterator[str]:
    """A folder beside the output, where there is room for it, or in the system's place where the output is remote."""
    directory = os.path.dirname(output_file) or os.curdir
    if "://" in directory:
        directory = None
    else:
        os.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".create_pretraining_data.", dir=directory) as work:
        try:
            yield work
        except OSError as error:
            if error.errno and not error.filename:
                error.filename = os.path.dirname(work)  # a full disk does not say which one
            raise


def _tokenize(run: Run, input_files: list[str], work: str) -> Corpus:
    size = sum(tf.io.gfile.stat(path).length for path in input_files)
    tasks = ((lines,) for lines in corpus_files.line_batches(input_files))
    with progress("tokenising", size, "B") as done:

        def encoded():
            for ids, lengths, num_bytes in run(_tokenize_lines, tasks):
                yield ids, lengths
                done(num_bytes)

        return corpus_files.write_corpus(encoded(), work)


def _make_examples(run: Run, corpus: Corpus, options: CreationOptions, num_buckets: int) -> collections.Counter:
    # The release draws a short length for a whole document.
    longest = sys.maxsize if options.segments.release_compatible else _LONGEST_PART
    tasks = ((dupe, parts, options, num_buckets)
             for dupe in range(options.dupe_factor) for parts in corpus.tasks(_TASK_TOKENS, longest))
    statistics = collections.Counter()
    with progress("making examples", options.dupe_factor * corpus.num_sentences, " sentences") as done:
        for counts in run(_examples_of_parts, tasks):
            done(counts.pop("sentences"))
            statistics.update(counts)
    return statistics


def _write_outputs(run: Run, output_files: list[str], num_buckets: int, made_from: dict) -> None:
    each = num_buckets // len(output_files)
    tasks = ((path, range(i * each, (i + 1) * each), made_from) for i, path in enumerate(output_files))
    with progress("writing", len(output_files), " files") as done:
        for _ in run(_write_output, tasks):
            done(1)


def _num_buckets(corpus: Corpus, options: CreationOptions, num_outputs: int) -> int:
    """A multiple of the number of outputs. Short documents make many records that are mostly padding."""
    examples = 2 * options.dupe_factor * (corpus.num_tokens // options.segments.max_seq_length + len(corpus))
    size = examples * (6 * options.segments.max_seq_length + 10 * options.masking.record_predictions)
    return num_outputs * (1 + size // (_BUCKET_BYTES * num_outputs))


def _made_from(options: CreationOptions) -> dict:
    return dict(dataclasses.asdict(options.segments), **dataclasses.asdict(options.masking),
                dupe_factor=options.dupe_factor, random_seed=options.random_seed)


# --- what runs in the workers ----------------------------------------------------------------------------------------

_worker: Worker | None = None


class Worker:
    """What a process keeps between its tasks."""

    def __init__(self, tokenizer: FullTokenizer, work: str):
        self.tokenizer, self.work = tokenizer, work
        self.starts_word = word_starts(tokenizer)
        self.corpus: Corpus | None = None


def _start_worker(tokenizer: FullTokenizer, work: str) -> None:
    global _worker
    _worker = Worker(tokenizer, work)


def _tokenize_lines(lines: list[str]) -> tuple[np.ndarray, np.ndarray, int]:
    """What corpus.tokenize_lines gives, and how many bytes of text it was."""
    return *corpus_files.tokenize_lines(_worker.tokenizer, lines), len("\n".join(lines).encode())


def _examples_of_parts(dupe: int, parts: list[Part], options: CreationOptions, num_buckets: int) -> collections.Counter:
    if _worker.corpus is None:
        _worker.corpus = Corpus(_worker.work)
    statistics = collections.Counter()
    segmenter = Segmenter(options.segments, _worker.starts_word, _worker.corpus.random_sentences)
    maker = ExampleMaker(_worker.tokenizer, _worker.starts_word, options.segments.max_seq_length, options.masking)
    buckets = BucketWriter(_worker.work, num_buckets)
    for part in parts:
        rng = np.random.default_rng([options.random_seed, dupe, part.first])
        statistics["sentences"] += part.last - part.first
        for pair in segmenter.pairs(part.document, *_worker.corpus.sentences(part), rng):
            if pair is None:
                statistics["left_out"] += 1
            else:
                record = maker.make(pair, rng, statistics)
                buckets.write(int(rng.integers(1 << 63, dtype=np.uint64)), record)
    buckets.flush()
    return statistics


def _write_output(path: str, buckets: range, made_from: dict) -> None:
    with record_writer(path, made_from) as writer:
        for record in sorted_records(_worker.work, buckets):
            writer.write(record)
