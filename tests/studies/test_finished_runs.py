"""Scripts that run one after the other: the command line, runs that are skipped, and a run that fails."""

import concurrent.futures
import contextlib
import json
import os
import sys
import threading

import pytest

from albert_tf.commands import command_runs
from albert_tf.commands.command_runs import arguments
from studies import finished_runs
from studies.finished_runs import FINISHED, ScriptRuns


@pytest.fixture
def started(monkeypatch):
    """The commands that were started. A script with --fail=True has exit status 3."""
    commands = []

    def run(command, environment):
        commands.append(command)
        return 3 if "--fail=True" in command else 0

    monkeypatch.setattr(command_runs, "run_to_end", run)
    return commands


def test_a_flag_with_several_values_is_repeated_and_one_without_a_value_is_left_out():
    assert arguments(dict(a=1, b=["x", "y"], c=None, d=False)) == ["--a=1", "--b=x", "--b=y", "--d=False"]


def test_a_script_runs_with_this_python_and_its_flags(tmp_path, started, capsys):
    ScriptRuns(str(tmp_path)).run("fill_mask", text="a [MASK]")
    assert started == [[sys.executable, "-m", "albert_tf", "fill_mask", "--text=a [MASK]"]]
    assert "$ python -m albert_tf fill_mask '--text=a [MASK]'" in capsys.readouterr().out


def test_finished_runs_are_skipped_later_unless_their_flags_change(tmp_path, started):
    ScriptRuns(str(tmp_path)).run("fill_mask", top_k=1)
    runs = ScriptRuns(str(tmp_path))
    assert not runs.run("fill_mask", top_k=1)
    assert len(started) == 1
    assert runs.run("fill_mask", top_k=2)
    runs.run("score_sentences", top_k=1)
    assert len(started) == 3


def test_two_processes_with_one_folder_keep_each_others_runs(tmp_path, started):
    first, second = ScriptRuns(str(tmp_path)), ScriptRuns(str(tmp_path))
    first.run("fill_mask", top_k=1)
    second.run("fill_mask", top_k=2)
    first.run("fill_mask", top_k=2)
    ScriptRuns(str(tmp_path)).run("fill_mask", top_k=1)
    assert len(started) == 2


def test_runs_that_finish_at_the_same_time_keep_each_others_lines(tmp_path, started, monkeypatch):
    both, write_text = threading.Barrier(2), finished_runs.write_text

    def write_together(path, text):
        with contextlib.suppress(threading.BrokenBarrierError):  # the other one waits for the lock
            both.wait(0.5)
        write_text(path, text)

    monkeypatch.setattr(finished_runs, "write_text", write_together)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(lambda top_k: ScriptRuns(str(tmp_path)).run("fill_mask", top_k=top_k), (1, 2)))
    assert len((tmp_path / FINISHED).read_text().splitlines()) == 2


@pytest.mark.parametrize("form", ["{}", "none.txt,{}", "list"])
def test_a_file_that_has_changed_since_a_run_read_it_is_an_error(tmp_path, started, form):
    text = tmp_path / "text.txt"
    text.write_text("one\n")
    runs, flags = ScriptRuns(str(tmp_path)), dict(input_file=[str(text)] if form == "list" else form.format(text))
    runs.run("train_vocabulary", **flags)
    text.write_text("two\n")
    os.utime(text, (0, 0))
    with pytest.raises(ValueError, match=f"text.txt has changed since train_vocabulary read it, and {tmp_path} has"):
        runs.run("train_vocabulary", **flags)
    text.write_text("one\n")
    runs.run("train_vocabulary", **flags)
    text.unlink()
    runs.run("train_vocabulary", **flags)
    assert len(started) == 1


def test_a_file_that_a_run_writes_may_change_later(tmp_path, monkeypatch):
    """Each run reads and rewrites the file, as after a run that was interrupted."""
    records, commands = tmp_path / "train.tfrecord", []

    def run(command, environment):
        commands.append(command)
        records.write_text(f"{len(commands)} runs")
        return 0

    records.write_text("not all records")
    monkeypatch.setattr(command_runs, "run_to_end", run)
    runs = ScriptRuns(str(tmp_path))
    for dupe_factor in (1, 2, 1):
        runs.run("create_pretraining_data", output_file=str(records), dupe_factor=dupe_factor)
    assert len(commands) == 2


def test_a_run_that_is_skipped_is_logged(tmp_path, started, caplog):
    caplog.set_level("INFO", logger="absl")
    for _ in range(2):
        assert "has finished before" not in caplog.text
        ScriptRuns(str(tmp_path)).run("fill_mask", text="a [MASK]")
    assert "has finished before: fill_mask '--text=a [MASK]'" in caplog.text


def test_values_that_are_no_files_are_no_paths(tmp_path, started):
    values = ["http://127.0.0.1/model", "a" * 5000, "a\0b", "", str(tmp_path), "gs://"]
    ScriptRuns(str(tmp_path)).run("fill_mask", text=values)
    assert json.loads((tmp_path / FINISHED).read_text())["files"] == {}


def test_a_run_that_failed_is_an_error_and_runs_again(tmp_path, started):
    for _ in range(2):
        with pytest.raises(ValueError, match="fill_mask ended with status 3"):
            ScriptRuns(str(tmp_path)).run("fill_mask", fail=True)
    assert len(started) == 2


def test_the_seconds_of_a_run_include_its_unfinished_attempts(tmp_path, monkeypatch):
    clock, endings = [0.0], [3, KeyboardInterrupt, 0]
    monkeypatch.setattr(finished_runs.time, "monotonic", lambda: clock[0])

    def run(command, environment):
        clock[0] += 10
        ending = endings.pop(0) if command[4:] == ["--top_k=1"] else 0
        if ending is KeyboardInterrupt:
            raise KeyboardInterrupt
        return ending

    monkeypatch.setattr(command_runs, "run_to_end", run)
    runs = ScriptRuns(str(tmp_path))
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            runs.run("fill_mask", top_k=1)
        assert runs.seconds("fill_mask", top_k=1) is None
    for top_k in (1, 2):
        runs.run("fill_mask", top_k=top_k)
    assert [runs.seconds("fill_mask", top_k=top_k) for top_k in (1, 2)] == [30, 10]


def test_an_unknown_script_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no command 'fill_masks'"):
        ScriptRuns(str(tmp_path)).run("fill_masks")
