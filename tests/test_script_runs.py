"""Scripts that run one after the other: the command line, runs that are skipped, and a run that fails."""

import subprocess
import sys

import pytest

from albert_tf.script_runs import ScriptRuns, arguments, script_path


@pytest.fixture
def started(monkeypatch):
    """The commands that were started. A script with --fail=True has exit status 3."""
    commands = []

    def run(command):
        commands.append(command)
        return subprocess.CompletedProcess(command, 3 if "--fail=True" in command else 0)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_flag_with_several_values_is_repeated_and_one_without_a_value_is_left_out():
    assert arguments(dict(a=1, b=["x", "y"], c=None, d=False)) == ["--a=1", "--b=x", "--b=y", "--d=False"]


def test_a_script_runs_with_this_python_and_its_flags(tmp_path, started, capsys):
    ScriptRuns(str(tmp_path)).run("fill_mask", text="a [MASK]")
    assert started == [[sys.executable, script_path("fill_mask"), "--text=a [MASK]"]]
    assert "$ python fill_mask.py '--text=a [MASK]'" in capsys.readouterr().out


def test_finished_runs_are_skipped_later_unless_their_flags_change(tmp_path, started):
    ScriptRuns(str(tmp_path)).run("fill_mask", top_k=1)
    runs = ScriptRuns(str(tmp_path))
    runs.run("fill_mask", top_k=1)
    assert len(started) == 1
    runs.run("fill_mask", top_k=2)
    runs.run("score_sentences", top_k=1)
    assert len(started) == 3


def test_two_processes_with_one_folder_keep_each_others_runs(tmp_path, started):
    first, second = ScriptRuns(str(tmp_path)), ScriptRuns(str(tmp_path))
    first.run("fill_mask", top_k=1)
    second.run("fill_mask", top_k=2)
    first.run("fill_mask", top_k=2)
    ScriptRuns(str(tmp_path)).run("fill_mask", top_k=1)
    assert len(started) == 2


def test_a_run_that_failed_is_an_error_and_runs_again(tmp_path, started):
    for _ in range(2):
        with pytest.raises(ValueError, match="fill_mask.py ended with status 3"):
            ScriptRuns(str(tmp_path)).run("fill_mask", fail=True)
    assert len(started) == 2


def test_an_unknown_script_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no script 'fill_masks'"):
        ScriptRuns(str(tmp_path)).run("fill_masks")
