"""Compiled programs of earlier runs: which ones a process finds, and which ones it leaves."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from pretraining_runs import Runs, values_of
from script_process import start

from albert_tf import devices
from albert_tf.training import compiled_programs

CONTENT = b"machine code" * 9


class Process:
    """What a process does with the programs of a directory. `folder` is its own; None if programs are not kept."""

    def __init__(self, directory, monkeypatch, tmp_path_factory):
        self._at_exit = []
        monkeypatch.setattr(compiled_programs, "folder_of_this_process", lambda: tmp_path_factory.mktemp("process"))
        monkeypatch.setattr(compiled_programs.atexit, "register", self._at_exit.append)
        compiled_programs._kind.cache_clear()
        folder = compiled_programs.kept_programs.__wrapped__(None if directory is None else str(directory))
        self.folder = folder and pathlib.Path(folder)

    def end(self, **programs):
        """Ends after it has compiled programs."""
        for name, content in programs.items():
            (self.folder / f"{name}.pb").write_bytes(content)
        for function in self._at_exit:
            function()

    @property
    def programs(self):
        return {path.stem: path.read_bytes() for path in self.folder.iterdir()}


@pytest.fixture
def process(tmp_path, monkeypatch, tmp_path_factory):
    """A function that starts a process, by default with programs in tmp_path / "programs"."""
    monkeypatch.setattr(devices, "cpu_kind", lambda: ("a processor",))
    return lambda directory=tmp_path / "programs": Process(directory, monkeypatch, tmp_path_factory)


def kept(folder):
    return sorted((folder / "programs").glob("*/*"))


def test_programs_of_processes_that_run_at_once_are_found_by_the_next(process, tmp_path):
    first, second = process(), process()
    (first.folder / "d.pb.tmp").write_bytes(b"half")
    first.end(a=CONTENT, b=b"b")
    second.end(a=CONTENT[::-1], c=b"c")  # XLA's files of the same program differ
    assert process().programs == dict(a=CONTENT, b=b"b", c=b"c")
    before = [path.stat().st_ino for path in kept(tmp_path)]
    process().end()
    assert [path.stat().st_ino for path in kept(tmp_path)] == before


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], b"M" + CONTENT[1:]])
def test_a_damaged_program_is_compiled_and_kept_again(damaged, process, tmp_path):
    process().end(a=CONTENT, b=b"b")
    path, = (path for path in kept(tmp_path) if path.name.endswith(".a.pb"))
    path.write_bytes(damaged)
    path.with_name("notes.pb").write_bytes(b"of somebody else")
    second = process()
    assert second.programs == dict(b=b"b") and not path.exists()
    second.end(a=CONTENT)
    assert process().programs == dict(a=CONTENT, b=b"b") and path.with_name("notes.pb").exists()


def test_programs_that_were_used_longest_ago_are_removed(process, tmp_path, monkeypatch):
    monkeypatch.setattr(compiled_programs, "_MOST_BYTES", 25)
    process().end(a=b"a" * 10, b=b"b" * 10)
    for age, path in enumerate(kept(tmp_path)):
        os.utime(path, (age, age))
    second = process()
    (second.folder / "a.pb").read_bytes()
    os.utime(second.folder / "a.pb", (1, 0))  # as a file system sets it that has no option noatime
    second.end(c=b"c" * 10)
    assert process().programs.keys() == {"a", "c"}


def test_another_processor_or_other_flags_find_no_programs(process, monkeypatch):
    process().end(a=CONTENT)
    for change in (lambda: monkeypatch.setattr(devices, "cpu_kind", lambda: ("another processor",)),
                   lambda: monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")):
        with monkeypatch.context():
            change()
            assert process().programs == {}


def test_a_folder_that_cannot_be_written_or_that_others_can_write_is_not_used(process, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    assert process(tmp_path / "file").folder is None and process("").folder is None
    process().end(a=CONTENT)
    kept(tmp_path)[0].parent.chmod(0o777)
    assert process().folder is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert process(None).folder and (tmp_path / "home/albert_tf/programs").is_dir()
    monkeypatch.setattr(devices, "cpu_kind", lambda: ())
    assert process(None).folder is None


@pytest.mark.both_stacks
def test_a_run_with_kept_programs_equals_one_without(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TF_XLA_FLAGS", compiled_programs._FLAGS.format("/tmp/albert_tf.0a"))  # of a parent
    runs, programs = Runs(tmp_path), lambda: {path: path.stat().st_ino for path in tmp_path.glob("albert_tf/*/*/*.pb")}

    def begin(name, **flags):
        return start("run_pretraining", dict(runs.flags, num_train_steps=3, output_dir=tmp_path / name, **flags))

    def end(process):
        printed = process.communicate()
        assert process.returncode == 0, printed

    with begin("without", compilation_cache_dir="") as without, begin("cold") as cold:
        end(without)
        end(cold)
    first = programs()
    assert bool(first) == tf.__version__.startswith("2.21.")
    whole = dict(first)
    if first:
        path, _ = whole.popitem()
        path.write_bytes(path.read_bytes()[:-1])
    with begin("warm") as warm:
        end(warm)
    assert whole.items() <= programs().items() and len(programs()) == len(first)
    expected = values_of(tmp_path / "without" / "model.ckpt-3")
    for name in ("cold", "warm"):
        for key, value in values_of(tmp_path / name / "model.ckpt-3").items():
            np.testing.assert_array_equal(value, expected[key], key)
