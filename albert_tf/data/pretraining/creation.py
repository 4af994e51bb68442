"""Text to pre-training records, in three passes over files: tokenise once, make examples, shuffle them all.

    text --(workers)--> Corpus on disk --(workers: segments, masking, examples)--> buckets --(workers)--> TFRecords

Every example is a function of the seed, of its document and of how often the document was used before, so the number
of workers changes nothing; and no pass holds more than a few megabytes of the data.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import multiprocessing
import os
import signal
import sys
import tempfile
from typing import Callable, Iterable, Iterator

import numpy as np
from tqdm import tqdm

from albert_tf.data.pretraining import corpus as corpus_files
from albert_tf.data.pretraining.corpus import Corpus
from albert_tf.data.pretraining.examples import ExampleMaker
from albert_tf.data.pretraining.masking import MaskingOptions
from albert_tf.data.pretraining.segments import Segmenter, SegmentOptions
from albert_tf.data.pretraining.shuffle import BucketWriter, sorted_records
from albert_tf.data.records import record_writer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.text.word_boundaries import word_starts

# Tokens of the documents that one task of a worker takes, and bytes of records that one bucket shall hold.
_TASK_TOKENS = 200_000
_BUCKET_BYTES = 64 << 20
# A record takes about this much for a token of the corpus.
_BYTES_PER_TOKEN = 8


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


def create_pretraining_data(
    input_files: list[str], output_files: list[str], tokenizer: FullTokenizer, options: CreationOptions, num_workers: int
) -> collections.Counter:
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
    directory = os.path.dirname(output_files[0])
    local = directory if "://" not in directory else None
    if local:
        os.makedirs(local, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".create_pretraining_data.", dir=local or None) as work:
        with _pool(num_workers, tokenizer, work) as run:
            corpus = _tokenize(run, input_files, work)
            if options.segments.objective == "nsp" and len(corpus) < 2:
                raise ValueError("the next-sentence objective needs at least two documents: B comes from another one")
            statistics = _make_examples(run, corpus, options, len(output_files))
            if not statistics["examples"]:
                raise ValueError("no example came out: every document is one word")
            _write_outputs(run, output_files, _num_buckets(corpus, options, len(output_files)), _made_from(options))
    statistics["documents"] = len(corpus)
    return statistics


def summary(statistics: collections.Counter) -> str:
    """What was made, for a person."""
    examples, tokens = statistics["examples"], statistics["tokens"]
    return (f"{statistics['documents']:,} documents, {examples:,} examples, {tokens / examples:.1f} tokens on average, "
            f"{statistics['swapped'] / examples:.1%} swapped or of another document, {statistics['masked'] / tokens:.1%} of the tokens "
            f"masked, {statistics['short'] / examples:.1%} drawn short; left out: {statistics['left_out']:,} chunks of one word")


def _tokenize(run, input_files: list[str], work: str) -> Corpus:
    lines = corpus_files.line_batches(input_files)
    encoded = run(_tokenize_lines, ((batch,) for batch in lines))
    return corpus_files.write_corpus(tqdm(encoded, desc="tokenising", unit="MB", disable=_quiet()), work)


def _make_examples(run, corpus: Corpus, options: CreationOptions, num_outputs: int) -> collections.Counter:
    ranges = list(_document_ranges(corpus))
    tasks = ((dupe, documents, options, _num_buckets(corpus, options, num_outputs))
             for dupe, documents in itertools.product(range(options.dupe_factor), ranges))
    statistics = collections.Counter()
    results = run(_examples_of_documents, tasks)
    for counts in tqdm(results, desc="masking", total=options.dupe_factor * len(ranges), unit="task", disable=_quiet()):
        statistics.update(counts)
    return statistics


def _write_outputs(run, output_files: list[str], num_buckets: int, made_from: dict) -> None:
    each = num_buckets // len(output_files)
    tasks = ((path, range(i * each, (i + 1) * each), made_from) for i, path in enumerate(output_files))
    for _ in tqdm(run(_write_output, tasks), desc="writing", total=len(output_files), unit="file", disable=_quiet()):
        pass


def _document_ranges(corpus: Corpus) -> Iterator[range]:
    """Documents in runs of about _TASK_TOKENS."""
    token_ends = corpus.sentence_ends[corpus.document_ends - 1]
    task = token_ends // _TASK_TOKENS
    first_of_task = np.flatnonzero(np.diff(task, prepend=-1)).tolist()
    for first, last in zip(first_of_task, [*first_of_task[1:], len(corpus)]):
        yield range(first, last)


def _num_buckets(corpus: Corpus, options: CreationOptions, num_outputs: int) -> int:
    size = len(corpus.ids) * options.dupe_factor * _BYTES_PER_TOKEN
    return num_outputs * (1 + size // (_BUCKET_BYTES * num_outputs))


def _made_from(options: CreationOptions) -> dict:
    return dict(dataclasses.asdict(options.segments), **dataclasses.asdict(options.masking), dupe_factor=options.dupe_factor,
                random_seed=options.random_seed)


def _quiet() -> bool:
    return not sys.stderr.isatty()


# --- what runs in the workers -------------------------------------------------------------------------------------------

_worker: Worker | None = None


class Worker:
    """What a process keeps between its tasks."""

    def __init__(self, tokenizer: FullTokenizer, work: str):
        self.tokenizer, self.work = tokenizer, work
        self.starts_word = word_starts(tokenizer)
        self.corpus: Corpus | None = None

    def random_document(self, rng: np.random.Generator, index: int) -> tuple[np.ndarray, list[int]]:
        """A document other than `index`."""
        other = int(rng.integers(len(self.corpus) - 1))
        return self.corpus.document(other + (other >= index))


def _start_worker(tokenizer: FullTokenizer, work: str) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _worker = Worker(tokenizer, work)


def _tokenize_lines(lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return corpus_files.tokenize_lines(_worker.tokenizer, lines)


def _examples_of_documents(dupe: int, documents: range, options: CreationOptions, num_buckets: int) -> collections.Counter:
    if _worker.corpus is None:
        _worker.corpus = Corpus(_worker.work)
    statistics = collections.Counter()
    segmenter = Segmenter(options.segments, _worker.starts_word, _worker.random_document)
    maker = ExampleMaker(_worker.tokenizer, _worker.starts_word, options.segments.max_seq_length, options.masking)
    buckets = BucketWriter(_worker.work, num_buckets)
    for index in documents:
        rng = np.random.default_rng([options.random_seed, dupe, index])
        for pair in segmenter.pairs(index, *_worker.corpus.document(index), rng):
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


@contextlib.contextmanager
def _pool(num_workers: int, tokenizer: FullTokenizer, work: str) -> Iterator[Callable]:
    """Gives run(function, tasks): the results in order, with a few tasks under way at a time whatever their number."""
    method = "fork" if sys.platform == "linux" else "spawn"
    pool = concurrent.futures.ProcessPoolExecutor(
        num_workers, multiprocessing.get_context(method), _start_worker, (tokenizer, work))

    def run(function: Callable, tasks: Iterable[tuple]) -> Iterator:
        under_way = collections.deque()
        for task in tasks:
            under_way.append(pool.submit(function, *task))
            if len(under_way) > 2 * num_workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    try:
        yield run
    except concurrent.futures.process.BrokenProcessPool as error:
        raise OSError("a worker process was ended from outside, perhaps for want of memory") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
