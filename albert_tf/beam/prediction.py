"""Predicts for each line of texts on Apache Beam: workers load a SavedModel and write shards in the order of the lines.

    ranges of text --(ReadLines)--> blocks of lines --(RunInference)--> predictions --(WriteBlock)--> files
        --(WriteShard)--> outputs

As in creation.py, a file appears under its name when it is complete, and keys are functions of elements.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import os
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Sequence, Tuple

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

from albert_tf.beam.outcome import Outcome
from albert_tf.beam.running import run
from albert_tf.beam.text_ranges import (
    BatchPlace,
    TextRange,
    check_complete,
    numbered,
    read_texts_of,
    text_ranges,
)
from albert_tf.data.worker_pool import chunks
from albert_tf.utils.files import absolute, listed
from albert_tf.utils.outputs import local_copy, output_set, write_bytes

# The number of lines of a block, which are sorted by length and divided into the model's batches.
LINES_PER_BLOCK = 2048

# The predictions of several lines by name, with rows in the order of the lines.
Arrays = Dict[str, np.ndarray]


class Block(NamedTuple):
    """Consecutive lines of a file, and their place in the text."""

    place: BatchPlace
    path: str
    lines: list[str]

    def line_name(self, index: int) -> str:
        """The place of a line, for an error message."""
        start = f"byte {self.place.start} on, " if self.place.start else ""
        return f"{self.path}, {start}line {self.place.number * LINES_PER_BLOCK + index + 1}"


class BlockFile(NamedTuple):
    """The file with the predictions of a block."""

    place: BatchPlace
    path: str
    num_lines: int


@dataclasses.dataclass(frozen=True)
class LineJob:
    """The settings of a job, which all stages have.

    Args:
      input_files: UTF-8 text files.
      output_files: paths of the shards.
      work: folder of the SavedModel and all other files of the pipeline. All workers must be able to read and write it.
      predict: function of the loaded SavedModel and a Block that returns the predictions of the block's lines.
      write_shard: function of a path and the predictions of all blocks in order, which writes a shard.
      text_column: name of the column with the texts if the input files are tables.
    """

    input_files: list[str]
    output_files: list[str]
    work: str
    predict: Callable[[Any, Block], Arrays]
    write_shard: Callable[[str, list[Arrays]], None]
    text_column: str | None = None

    def shard_file(self, shard: int) -> str:
        """The temporary path of a shard, which is renamed to the output at the end."""
        return os.path.join(self.work, f"shard-{shard:06d}", os.path.basename(self.output_files[shard]))

    def block_file(self, place: BatchPlace) -> str:
        """The path of a block's predictions, an .npz file."""
        return os.path.join(self.work, "blocks", place.name)

    @property
    def model_folder(self) -> str:
        """The folder of the SavedModel."""
        return os.path.join(self.work, "model")

    @property
    def outcome(self) -> Outcome:
        """The result, `blocks`: the place and the number of lines of each block."""
        return Outcome(self.work)


def predict_lines(
    input_files: list[str], output_files: list[str], save_model: Callable[[str], None],
    predict: Callable[[Any, Block], Arrays], write_shard: Callable[[str, list[Arrays]], None], made_from: dict,
    options: PipelineOptions, companions: Callable[[str], Sequence[str]] = lambda path: (),
    text_column: str | None = None,
) -> int:
    """Predicts for each line of texts, and returns the number of lines.

    Args:
      input_files: UTF-8 text files.
      output_files: paths of the shards. Each has consecutive lines, about the same number of bytes of text.
      save_model: function that writes the SavedModel to a folder.
      predict, write_shard: see LineJob. Beam pickles them.
      made_from: the made_from entry of the manifests.
      options: the pipeline's options.
      companions: function of the path of a shard that returns the paths of further files that write_shard writes.
      text_column: see LineJob.

    Raises:
      ValueError: there is no line, a line is not UTF-8 or `predict` refuses it, there is less text than shards, or an
        output would replace a file that is not an earlier output.
      OSError: the pipeline failed.
    """
    output_files = [absolute(path) for path in output_files]
    with output_set({path: [path, *companions(path)] for path in output_files}) as outputs:
        outputs.made_from = made_from
        job = LineJob([absolute(path) for path in input_files], output_files, outputs.folder(output_files[0]), predict,
                      write_shard, text_column)
        ranges = _ranges(job)
        save_model(job.model_folder)
        run(options, functools.partial(build, job, ranges))
        blocks = [(BatchPlace(*place), num_lines) for place, num_lines in job.outcome.result()["blocks"]]
        check_complete([place for place, _ in sorted(blocks)], len(input_files))
        num_lines = sum(num_lines for _, num_lines in blocks)
        if not num_lines:
            raise ValueError(f"there are no lines in {listed(input_files)}")
        for shard, path in enumerate(output_files):
            source = job.shard_file(shard)
            for written, file in zip((source, *companions(source)), (path, *companions(path))):
                tf.io.gfile.rename(written, outputs.temporary(file), overwrite=True)
    return num_lines


def _ranges(job: LineJob) -> list[TextRange]:
    """The ranges of the text, at least as many as there are shards."""
    num_shards = len(job.output_files)
    size = sum(tf.io.gfile.stat(path).length for path in job.input_files)
    ranges = text_ranges(job.input_files, max(1, size // num_shards), job.text_column)
    if len(ranges) < num_shards:
        raise ValueError(f"--num_shards must be at most {len(ranges)}, the number of parts into which the text can be "
                         f"divided. Received: {num_shards}")
    return ranges


# --- the pipeline ----------------------------------------------------------------------------------------------------


def build(job: LineJob, ranges: list[TextRange], pipeline: beam.Pipeline) -> None:
    """Adds the stages to a pipeline."""
    numbered_ranges = [(number, (number * len(job.output_files) // len(ranges), text_range))
                       for number, text_range in enumerate(ranges)]
    (pipeline
     | "ranges of the text" >> beam.Create(numbered_ranges).with_output_types(Tuple[int, Any])
     | "by range" >> beam.GroupByKey()
     | "read lines" >> beam.ParDo(ReadLines(job))
     | "predict" >> RunInference(KeyedModelHandler(LineModel(job)))
     | "write blocks" >> beam.ParDo(WriteBlock(job)) | "by shard" >> beam.GroupByKey()
     | "write shards" >> beam.ParDo(WriteShard(job)) | "all shards" >> beam.GroupByKey()
     | "sum up" >> beam.ParDo(WriteResult(job)))


class _Stage(beam.DoFn):
    def __init__(self, job: LineJob):
        self._job = job


@beam.typehints.with_output_types(Tuple[Any, Any])
class ReadLines(_Stage):
    """Ranges of text -> blocks of lines."""

    def process(self, element: tuple[int, Iterable[tuple[int, TextRange]]]):
        """Range number, (shard number, range) -> (shard number, place), Block."""
        for shard, text_range in element[1]:
            try:
                for place, block in numbered(text_range, _blocks(text_range)):
                    yield (shard, place), Block(place, text_range.path, block)
            except ValueError as error:
                self._job.outcome.note_mistake(text_range.name, str(error))


class LineModel(ModelHandler):
    """The SavedModel, for RunInference."""

    def __init__(self, job: LineJob):
        super().__init__(max_batch_size=1)  # a block already has the lines of several batches
        self._job = job

    def load_model(self) -> Any:
        """The SavedModel."""
        return tf.saved_model.load(self._job.model_folder)

    def run_inference(self, batch: Sequence[Block], model: Any, inference_args=None) -> Iterable[tuple[int, Arrays]]:
        """Returns the number of lines and the predictions of each block."""
        return [self._prediction(model, block) for block in batch]

    def _prediction(self, model: Any, block: Block) -> tuple[int, Arrays]:
        try:
            return len(block.lines), self._job.predict(model, block)
        except ValueError as error:
            self._job.outcome.note_mistake(block.place.name, str(error))
            return 0, {}


@beam.typehints.with_output_types(Tuple[int, Any])
class WriteBlock(_Stage):
    """The predictions of a block -> a file."""

    def process(self, element: tuple[tuple[int, BatchPlace], tuple[int, Arrays]]):
        """(Shard number, place), (number of lines, predictions) -> shard number, BlockFile."""
        (shard, place), (num_lines, arrays) = element
        # Any, since the type checker would confuse an array with the argument allow_pickle, which only NumPy 2 has.
        named_arrays: dict[str, Any] = dict(arrays)
        path = self._job.block_file(place)
        content = io.BytesIO()
        np.savez(content, **named_arrays)
        write_bytes(path, content.getvalue())
        yield shard, BlockFile(place, path, num_lines)


@beam.typehints.with_output_types(Tuple[int, Any])
class WriteShard(_Stage):
    """The files of a shard's blocks -> the shard."""

    def process(self, element: tuple[int, Iterable[BlockFile]]):
        """Shard number, BlockFiles -> 0, BlockFile."""
        shard, blocks = element[0], sorted(element[1])
        self._job.write_shard(self._job.shard_file(shard), [_arrays(block) for block in blocks if block.num_lines])
        yield from ((0, block) for block in blocks)


class WriteResult(_Stage):
    """All blocks -> the result."""

    def process(self, element: tuple[int, Iterable[BlockFile]]):
        """0, BlockFiles -> nothing."""
        blocks = [[list(block.place), block.num_lines] for block in sorted(element[1])]
        self._job.outcome.write_result(blocks=blocks)


def _blocks(text_range: TextRange) -> Iterator[list[str]]:
    """The lines of a range in blocks. The last block is empty, so that there is always at least one."""
    yield from chunks(read_texts_of(text_range), LINES_PER_BLOCK)
    yield []


def _arrays(block: BlockFile) -> Arrays:
    with np.load(local_copy(block.path), allow_pickle=False) as arrays:
        return dict(arrays)
