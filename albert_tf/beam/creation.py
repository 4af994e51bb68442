"""Text to pre-training records on Apache Beam: every output has the bytes that the local engine writes.

    ranges of text --(TokenizeRanges)--> batches --(WriteTable)--> documents --(CutTasks)--> parts of the corpus
        --(MakeRecords)--> records by bucket --(WriteBucket)--> sorted buckets --(WriteShard)--> outputs

The content of the files that a stage writes depends on its input only, and a file appears under its name when it is
complete. So a worker that dies, and a stage that runs twice, change nothing. Examples are made by the local engine's
modules: corpus.py and creation.py in albert_tf/pretraining.

The stages form one chain. Side inputs, tagged outputs and outputs at the end of a bundle are not used: Beam's Dask
runner lacks them or computes them repeatedly. Every stage gets its elements grouped by a key that is a function of the
element. beam.Reshuffle draws random keys; if a runner computes a stage twice, an element can get another key and be
lost.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import functools
import json
import logging
import os
import pathlib
import shutil
import types
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, NoReturn, Tuple

import apache_beam as beam
import tensorflow as tf
from absl import logging as absl_logging
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners import create_runner

from albert_tf.beam import corpus_files
from albert_tf.beam.corpus_files import BatchKey, BatchTable, TextRange
from albert_tf.data.records import CountingWriter
from albert_tf.pretraining import creation
from albert_tf.pretraining.corpus import BatchCounts, Corpus, Part, check_has_text, tokenize_lines
from albert_tf.pretraining.creation import bucket_of, pack_record, unpack_records
from albert_tf.pretraining.examples import CreationOptions, RecordMaker
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import absolute, listed, names_in, read_bytes, read_json_object
from albert_tf.utils.manifests import output_set
from albert_tf.utils.outputs import output, write_text

# Not Beam's "DirectRunner", which is Prism, a program that Beam downloads.
_LOCAL_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# The job server of this runner has options that this process does not know.
_JOB_SERVER_RUNNER = "PortableRunner"
# These modules log what users need: a job's address and state. --verbosity=1 shows the log lines of all modules.
_LOGGED = ("apache_beam.runners.dataflow", "apache_beam.runners.portability.portable_runner")
_REPOSITORY = pathlib.Path(__file__).parents[2]


def pipeline_options(text: str, num_workers: int) -> PipelineOptions:
    """Parses the options of a pipeline, "name=value,name=value"; names may begin with dashes, and have no value.

    The local runner, which is the default, has num_workers processes.
    """
    if absl_logging.get_verbosity() < absl_logging.DEBUG:
        logging.getLogger("apache_beam").setLevel(logging.ERROR)
        for name in _LOGGED:
            logging.getLogger(name).setLevel(logging.INFO)
    named: list[tuple[str, str | None]] = []
    for option in text.split(","):
        name, equals, value = option.partition("=")
        name = name.strip().lstrip("-")
        if name or equals:
            named.append((name, value.strip() if equals else None))
    if not any(name == "runner" for name, _ in named):
        named = [("runner", _LOCAL_RUNNER), ("direct_num_workers", str(num_workers)),
                 ("direct_running_mode", "in_memory" if num_workers == 1 else "multi_processing"),
                 ("default_sdk_harness_log_level", "WARNING"), *named]
    options = PipelineOptions([f"--{name}" if value is None else f"--{name}={value}" for name, value in named])
    with _naming_the_flag():
        _check(options, [name for name, _ in named])
    return options


def _check(options: PipelineOptions, names: list[str]) -> None:
    runner = options.view_as(StandardOptions).runner
    create_runner(runner)  # imports the runner's module, which can define more options

    def check_names(parser: argparse.ArgumentParser) -> None:
        unknown = [name for name in names if f"--{name}" not in parser._option_string_actions]
        if unknown and runner != _JOB_SERVER_RUNNER:
            raise ValueError(f"unknown option {unknown[0]!r}")
        parser.error = refuse  # type: ignore[method-assign]  # instead of printing the usage

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    options.get_all_options(add_extra_args_fn=check_names)
    if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise ValueError("direct_running_mode=multi_threading loses elements in Beam's local runner; use "
                         "multi_processing")


@contextlib.contextmanager
def _naming_the_flag() -> Iterator[None]:
    """Turns the errors of wrong options and of missing runners into a ValueError."""
    try:
        yield
    except (ValueError, ImportError, AttributeError) as error:
        raise ValueError(f"--beam_pipeline_options: {error}") from error


def run(options: PipelineOptions, build: Callable[[beam.Pipeline], object]) -> None:
    """Builds a pipeline and waits for its end. OSError has the last line of the runner's message."""
    # So that the local runner's worker processes can import this package.
    path = [str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    with _naming_the_flag():
        pipeline = beam.Pipeline(options=options)
    build(pipeline)
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise OSError(f"the pipeline failed on {options.view_as(StandardOptions).runner}: {lines[-1].strip()}"
                      ) from error


Statistics = collections.Counter


@dataclasses.dataclass(frozen=True)
class Job:
    """The settings of a job, which all stages have. Workers report through files in its work folder."""

    input_files: list[str]
    shard_files: list[str]  # temporary paths of the shards, which are renamed to the outputs at the end
    work: str  # folder of all other files of the pipeline
    tokenizer: FullTokenizer
    options: CreationOptions
    text_column: str | None = None

    @property
    def result_file(self) -> str:
        """Path of the result, JSON: `statistics`, and the `counts` of records by shard."""
        return os.path.join(self.work, "result.json")

    def record_user_error(self, name: str, message: str) -> None:
        """Stores the message of a user's error. Raising the error would make the runner retry, and hide the message."""
        write_text(os.path.join(self.work, "errors", name), message)

    def check_no_user_error(self) -> None:
        """Raises a ValueError with the first stored error, in the order of names, if there is one."""
        errors = os.path.join(self.work, "errors")
        if names := names_in(errors):
            raise ValueError(read_bytes(os.path.join(errors, min(names))).decode())

    # What earlier stages have written, read when it is first used:

    @functools.cached_property
    def table(self) -> BatchTable:
        """The table of all batches."""
        return BatchTable(self.work)

    @functools.cached_property
    def corpus(self) -> Corpus:
        """The tokens of all batches."""
        return self.table.corpus()

    @functools.cached_property
    def num_buckets(self) -> int:
        """See creation.num_buckets."""
        return creation.num_buckets(self.corpus, self.options, len(self.shard_files))

    @functools.cached_property
    def maker(self) -> RecordMaker:
        """Makes the records of parts of the corpus."""
        return RecordMaker(self.corpus, self.tokenizer, self.options)


class RecordFile(NamedTuple):
    """A written bucket or shard: number, path, number of records, size in bytes, and the statistics of its records."""

    number: int
    path: str
    num_records: int
    size: int
    statistics: Statistics


def create_pretraining_data(
    input_files: list[str], outputs: Mapping[str, list[str]], tokenizer: FullTokenizer, options: CreationOptions,
    pipeline_options: PipelineOptions, text_column: str | None = None,
    origin: Mapping[str, Any] = types.MappingProxyType({})
) -> Statistics:
    """pretraining.creation.create_pretraining_data on a Beam runner. All workers must have access to the paths."""
    creation.check_names(outputs)
    outputs = {absolute(path): list(map(absolute, shards)) for path, shards in outputs.items()}
    with output_set(outputs) as written:
        shard_files = list(written.temporary.values())
        job = Job([absolute(path) for path in input_files], shard_files, os.path.dirname(shard_files[0]), tokenizer,
                  options, text_column)
        run(pipeline_options, functools.partial(build, job))
        job.check_no_user_error()
        if not tf.io.gfile.exists(job.result_file):
            raise OSError("the runner lost or repeated elements: the pipeline ended without a result")
        result = read_json_object(job.result_file)
        statistics = Statistics(result["statistics"])
        creation.check_statistics(statistics)
        written.counts.update(zip(written.temporary, result["counts"]))
        creation.check_counts(written.counts)
        written.made_from = {**creation.made_from(options, tokenizer), **origin}
    return statistics


def build(job: Job, pipeline: beam.Pipeline) -> None:
    """Adds the stages to a pipeline."""
    ranges = list(enumerate(corpus_files.text_ranges(job.input_files, text_column=job.text_column)))
    (pipeline
     | "ranges of the text" >> beam.Create(ranges).with_output_types(Tuple[int, Any]) | "by range" >> beam.GroupByKey()
     | "tokenize" >> beam.ParDo(TokenizeRanges(job)) | "all batches" >> beam.GroupByKey()
     | "write the table" >> beam.ParDo(WriteTable(job)) | "by batch" >> beam.GroupByKey()
     | "cut tasks" >> beam.ParDo(CutTasks(job)) | "by task" >> beam.GroupByKey()
     | "make records" >> beam.ParDo(MakeRecords(job)) | "by bucket" >> beam.GroupByKey()
     | "write buckets" >> beam.ParDo(WriteBucket(job)) | "by shard" >> beam.GroupByKey()
     | "write shards" >> beam.ParDo(WriteShard(job)) | "all shards" >> beam.GroupByKey()
     | "check and sum up" >> beam.ParDo(WriteResult(job)))


class _Stage(beam.DoFn):
    """A stage. Its input is a key with all values of that key; its output is pairs of key and value."""

    def __init__(self, job: Job):
        self._job = job


@beam.typehints.with_output_types(Tuple[int, Any])
class TokenizeRanges(_Stage):
    """Ranges of text -> the entries of their batches, with a single key. Writes the columns of each batch to a file."""

    def process(self, element: tuple[int, Iterable[TextRange]]) -> Iterator[tuple[int, tuple[BatchKey, BatchCounts]]]:
        """Range number, the range -> 0, entry."""
        for text_range in element[1]:
            try:
                for key, lines in corpus_files.read_batches(text_range):
                    batch = tokenize_lines(self._job.tokenizer, lines, self._job.options.split_lines)
                    yield 0, corpus_files.write_batch(self._job.work, key, batch)
            except ValueError as error:
                first_key = BatchKey(text_range.file, text_range.start, 0, 0, 0)
                self._job.record_user_error(first_key.name, str(error))


@beam.typehints.with_output_types(Tuple[int, Any])
class WriteTable(_Stage):
    """All entries -> the numbers of batches, after the table was written; nothing if the text has an error."""

    def process(self, element: tuple[int, Iterable[tuple[BatchKey, BatchCounts]]]) -> Iterator[tuple[int, int]]:
        """0, entries -> batch number, batch number."""
        entries = sorted(element[1])
        try:
            self._job.check_no_user_error()
            corpus_files.check_complete([key for key, _ in entries], len(self._job.input_files))
            corpus_files.write_table(self._job.work, entries)
            check_has_text(self._job.corpus.num_tokens, listed(self._job.input_files))
            creation.check_corpus(self._job.corpus, self._job.options)
        except ValueError as error:
            self._job.record_user_error("text", str(error))
            return
        yield from ((batch, batch) for batch in range(len(entries)))


@beam.typehints.with_output_types(Tuple[Tuple[int, int, int], Any])
class CutTasks(_Stage):
    """Batches -> tasks: parts of the documents that end in a batch, for each dupe."""

    def process(self, element: tuple[int, Iterable[int]]) -> Iterator[tuple[tuple[int, int, int], list[Part]]]:
        """Batch number -> (batch number, dupe, task number), parts."""
        options = self._job.options
        for batch in element[1]:
            documents = self._job.table.documents(batch)
            tasks = self._job.corpus.tasks(creation.TASK_TOKENS, creation.longest_part(options), documents)
            for number, parts in enumerate(tasks):
                for dupe in range(options.dupe_factor):
                    yield (batch, dupe, number), parts


@beam.typehints.with_output_types(Tuple[int, Any])
class MakeRecords(_Stage):
    """Tasks -> records by bucket. A task's statistics are in its first chunk, so both are lost or repeated together."""

    def process(
        self, element: tuple[tuple[int, int, int], Iterable[list[Part]]]
    ) -> Iterator[tuple[int, tuple[bytes, Statistics]]]:
        """(batch number, dupe, task number), parts -> bucket number, (packed records, statistics)."""
        (_, dupe, _), tasks = element
        statistics: Statistics[str] = Statistics()
        buckets: dict[int, bytearray] = collections.defaultdict(bytearray)
        for part in (part for parts in tasks for part in parts):
            for key, record in self._job.maker.records(dupe, part, statistics):
                buckets[bucket_of(key, self._job.num_buckets)] += pack_record(key, record)
        for bucket, records in sorted(buckets.items()) or [(0, bytearray())]:
            yield bucket, (bytes(records), statistics)
            statistics = Statistics()  # the first chunk has them


@beam.typehints.with_output_types(Tuple[int, Any])
class WriteBucket(_Stage):
    """Chunks of a bucket -> a file of its records, sorted by key."""

    def process(self, element: tuple[int, Iterable[tuple[bytes, Statistics]]]) -> Iterator[tuple[int, RecordFile]]:
        """Bucket number, chunks -> shard number, RecordFile."""
        bucket, chunks = element
        statistics: Statistics[str] = Statistics()
        records: list[tuple[int, bytes]] = []
        for packed, counts in chunks:
            statistics.update(counts)
            records.extend(unpack_records(packed))
        records.sort()
        path = os.path.join(self._job.work, "buckets", f"{bucket:06d}")
        with output(path) as temporary, tf.io.TFRecordWriter(temporary) as file:
            writer = CountingWriter(file)
            for _, record in records:
                writer.write(record)
        size = tf.io.gfile.stat(path).length
        shard = bucket * len(self._job.shard_files) // self._job.num_buckets
        yield shard, RecordFile(bucket, path, writer.count, size, statistics)


@beam.typehints.with_output_types(Tuple[int, Any])
class WriteShard(_Stage):
    """Buckets of a shard -> the shard, which is the concatenation of their record files."""

    def process(self, element: tuple[int, Iterable[RecordFile]]) -> Iterator[tuple[int, RecordFile]]:
        """Shard number, buckets -> 0, RecordFile."""
        shard, buckets = element[0], sorted(element[1], key=lambda bucket: bucket.number)
        path = self._job.shard_files[shard]
        with output(path) as temporary, tf.io.gfile.GFile(temporary, "wb") as file:
            for bucket in buckets:
                with tf.io.gfile.GFile(bucket.path, "rb") as source:
                    shutil.copyfileobj(source, file)
        size = tf.io.gfile.stat(path).length
        if size != sum(bucket.size for bucket in buckets):
            raise OSError(f"{path} has {size:,} bytes, which is not the size of its buckets")
        count = sum(bucket.num_records for bucket in buckets)
        yield 0, RecordFile(shard, path, count, size, sum((bucket.statistics for bucket in buckets), Statistics()))


class WriteResult(_Stage):
    """All shards -> the result: the counts of what was written, which are compared with the expected counts."""

    def process(self, element: tuple[int, Iterable[RecordFile]]) -> None:
        """0, shards -> nothing."""
        shards = list(element[1])
        counts = [0] * len(self._job.shard_files)
        for shard in shards:
            counts[shard.number] += shard.num_records
        statistics = sum((shard.statistics for shard in shards), Statistics())
        num_sentences = self._job.options.dupe_factor * self._job.corpus.num_sentences
        for name, count in dict(sentences=num_sentences, examples=sum(counts)).items():
            if statistics[name] != count:
                raise OSError(f"the runner lost or repeated elements: {statistics[name]:,} {name} of {count:,}")
        del statistics["sentences"]
        statistics["documents"] = len(self._job.corpus)
        write_text(self._job.result_file, json.dumps(dict(statistics=statistics, counts=counts)))
