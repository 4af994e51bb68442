"""Beam's workers write the same records as the local engine, byte for byte, also if workers fail."""

import bz2
import gzip
import importlib.util
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.pretraining import creation as local
from albert_tf.pretraining.examples import CreationOptions, MaskingOptions, SegmentOptions

pytest.importorskip("apache_beam")

from albert_tf.beam import corpus_files, creation
from albert_tf.beam.creation import pipeline_options

SENTENCES = ["The tram was late again.", "Two women talked about the price of coal.", "A dog slept under the bench.",
             "Nobody had a watch.", "At last a bell rang behind the houses.", "The dog woke up and left."]
DOCUMENTS = [SENTENCES[i:] + SENTENCES[:i] for i in range(6)] + [SENTENCES * 5]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Splits the text into dozens of ranges and tasks, its longest document into parts, and each shard into buckets."""
    monkeypatch.setattr(corpus_files, "RANGE_BYTES", 150)
    monkeypatch.setattr(local, "TASK_TOKENS", 100)
    monkeypatch.setattr(local, "LONGEST_PART", 8)
    monkeypatch.setattr(local, "_BUCKET_BYTES", 10_000)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n" + "\n\n\n".join("\n".join(document) for document in DOCUMENTS) + "\n\n")
    return path


def options(objective="sop", release_compatible=False, dupe_factor=2, split_lines=None):
    segments = SegmentOptions(32, 0.1, objective, release_compatible)
    return CreationOptions(segments, MaskingOptions(5), dupe_factor, 12345, split_lines)


@pytest.fixture
def make(tmp_path, text, sentence_pieces):
    """make(files, **options) makes records of files with Beam and the local engine.

    It returns for each engine the counts and the content of each file in its folder.
    """

    def make(*files, beam_options="", **values):
        files = [str(file) for file in files or [text]]
        outputs = {engine: {path: [path] for path in (f"{tmp_path}/{engine}/x-{i}.tfrecord" for i in range(3))}
                   for engine in ("local", "beam")}
        expected = local.create_pretraining_data(files, outputs["local"], sentence_pieces, options(**values),
                                                 num_workers=1)
        made = creation.create_pretraining_data(files, outputs["beam"], sentence_pieces, options(**values),
                                                pipeline_options(beam_options, num_workers=1))
        assert expected["examples"] > 0
        return (made, contents(tmp_path / "beam")), (expected, contents(tmp_path / "local"))

    return make


def contents(folder):
    """The content of every file in a folder, with manifests and unexpected files."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def create(tmp_path, text, sentence_pieces):
    """create(**options) makes records of text.txt on Beam."""

    def create(*outputs, **values):
        paths = [f"{tmp_path}/{name}" for name in outputs or ("out.tfrecord",)]
        return creation.create_pretraining_data([str(text)], {path: [path] for path in paths}, sentence_pieces,
                                                options(**values), pipeline_options("", num_workers=1))

    return create


@pytest.mark.parametrize("objective, release_compatible", [("sop", True), ("nsp", False), ("none", True)])
def test_every_file_is_the_one_that_the_local_engine_writes(make, text, objective, release_compatible):
    assert len(corpus_files.text_ranges([str(text)])) > 10
    by_beam, by_local = make(objective=objective, release_compatible=release_compatible)
    assert by_beam == by_local


def test_several_compressed_and_empty_files_and_long_lines_give_the_records_of_the_local_engine(make, text, tmp_path):
    """Every stage runs twice."""
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress("\n".join(SENTENCES * 20).encode()))
    (tmp_path / "more.bz2").write_bytes(bz2.compress("\n\n".join(SENTENCES).encode()))
    (tmp_path / "empty.txt").touch()
    (tmp_path / "long.txt").write_text(" ".join(SENTENCES * 3) + "\n" + "\n".join(SENTENCES))  # longer than a range
    names = ("more.txt.gz", "empty.txt", "text.txt", "long.txt", "more.bz2")
    by_beam, by_local = make(
        *(tmp_path / name for name in names), split_lines="en" if importlib.util.find_spec("sentencex") else None,
        beam_options="runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner,direct_runner_bundle_repeat=1")
    assert by_beam == by_local
    assert by_beam[0]["documents"] == 2 + len(DOCUMENTS) + len(SENTENCES)


@pytest.mark.long
def test_processes_of_the_local_runner_write_the_records_of_the_local_engine(make, text, monkeypatch):
    monkeypatch.undo()  # other processes have the sizes of the package
    text.write_text("\n\n".join(["\n".join(SENTENCES)] * 2000))
    by_beam, by_local = make(beam_options="direct_running_mode=multi_processing,direct_num_workers=2")
    assert by_beam == by_local


@pytest.fixture
def wrap(monkeypatch):
    """wrap(stage, process) replaces the process method of a stage by process(method, stage, element).

    The class stays what it is: Beam pickles it by its name.
    """

    def wrap(stage, process):
        stage = getattr(creation, stage)
        method = stage.process
        monkeypatch.setattr(stage, "process", lambda self, element: process(method, self, element))

    return wrap


@pytest.mark.parametrize("stage", ["TokenizeRanges", "WriteTable", "WriteBucket", "WriteShard", "WriteResult"])
def test_a_stage_that_fails_in_the_middle_is_run_again_and_changes_nothing(make, monkeypatch, wrap, stage):
    failures = []

    class FullDisk(tf.io.gfile.GFile):
        def write(self, content):
            super().write(content[: len(content) // 2])
            self.flush()
            no_space()

    def no_space(*_):
        raise OSError("no space left")

    def twice(method, stage, element):
        element = element[0], list(element[1])
        with monkeypatch.context() as patch:
            patch.setattr(tf.io.gfile, "GFile", FullDisk)
            patch.setattr("albert_tf.utils.outputs.open", FullDisk, raising=False)
            patch.setattr(np.lib.format, "write_array_header_1_0", no_space)
            patch.setattr(creation.CountingWriter, "write", lambda *_: FullDisk(os.devnull, "wb").write(b"ab"))
            try:
                next(iter(method(stage, element) or ()), None)  # what it gives is lost with its bundle
            except OSError as error:
                failures.append(error)
        yield from method(stage, element) or ()

    wrap(stage, twice)
    by_beam, by_local = make()
    assert by_beam == by_local
    assert failures


@pytest.mark.parametrize("stage", ["TokenizeRanges", "CutTasks", "MakeRecords", "WriteBucket", "WriteShard"])
@pytest.mark.parametrize("times", [0, pytest.param(2, marks=pytest.mark.long)])
def test_an_element_that_a_runner_loses_or_repeats_is_an_error(create, tmp_path, wrap, stage, times):
    changed = []

    def unreliable(method, stage, element):
        for output in method(stage, element):
            yield from [output] * (1 if changed else times)
            changed.append(output)

    wrap(stage, unreliable)
    with pytest.raises(OSError, match="the runner lost or repeated elements"):
        create()
    assert changed and [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.parametrize("content, values, message", [
    (b"\n\n \n", {}, "there is no text in .*text.txt"), (b"word\n\nword\n", {}, "no examples were made"),
    (b"fine\n" * 100 + b"not \xff fine\n" + b"fine\n" * 100 + b"nor \xff this\n", {}, "text.txt line 101: not UTF-8"),
    (b"one document\nof two sentences\n", dict(objective="nsp"), "at least two documents"),
    (SENTENCES[0].encode(), {}, "shard . of 8, .* has no records, since the text gives only . examples?")])
def test_a_mistake_is_the_local_engines_error_and_leaves_nothing(create, tmp_path, text, content, values, message):
    text.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        create(*(f"data[1]/{i}.tfrecord" for i in range(8)), **values)  # a folder whose name is a pattern
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["text.txt"]


def test_an_error_in_a_worker_leaves_the_earlier_output(create, tmp_path, text, monkeypatch):
    create()
    before = contents(tmp_path)
    monkeypatch.setattr(creation, "pack_record", None)
    with pytest.raises(OSError, match="the pipeline failed on .*NoneType"):
        create(dupe_factor=1)
    assert contents(tmp_path) == before


def test_partial_files_of_a_killed_run_are_removed_and_never_read(create, tmp_path):
    folder = tmp_path / ".out.tfrecord.tmp"
    (folder / "batches").mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(dict(statistics={}, counts=[1])))
    for path in (folder / "batches" / "000000-000000000000000-000000", folder / "out.tfrecord"):
        path.write_bytes(b"part")
    create()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.manifest.json", "out.tfrecord", "text.txt"]
    assert json.loads((tmp_path / "out.manifest.json").read_text())["files"]["out.tfrecord"]["count"] > 20
