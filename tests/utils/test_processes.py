"""A command that runs to its end: its exit status, and what happens on Ctrl-C and SIGTERM."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.utils import processes
from albert_tf.utils.processes import run_to_end

# Saves its work for a while after a signal, as a training does.
COMMAND = """
import pathlib, signal, sys, time
def save(number, _):
    time.sleep(1)
    pathlib.Path("saved").write_text(str(number))
    sys.exit(128 + number)
signal.signal(signal.SIGINT, save)
signal.signal(signal.SIGTERM, save)
pathlib.Path("started").write_text("")
time.sleep(60)
"""
PARENT = """
import sys
from albert_tf.utils.processes import run_to_end
try:
    run_to_end([sys.executable, "-c", {command!r}])
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.fixture(autouse=True)
def imports_of_the_repository(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parents[2]))


def result_of(folder, program):
    """The exit status of a program and what it has printed to stderr."""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_the_exit_status_is_returned_and_signals_are_handled_as_before():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for status in (0, 3):
        assert run_to_end([sys.executable, "-c", f"import sys; sys.exit({status})"]) == status
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("number, to_group, status", [
    (signal.SIGINT, True, 7), (signal.SIGTERM, False, 143), (signal.SIGHUP, False, 129)],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP"])
def test_a_command_ends_its_work_after_a_signal(hang_up, tmp_path, number, to_group, status):
    """A terminal sends Ctrl-C to the group of processes, and `kill` sends SIGTERM to one process."""
    program = PARENT.format(command=COMMAND)
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, start_new_session=True) as parent:
        deadline = time.monotonic() + 60
        while not (tmp_path / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        (os.killpg if to_group else os.kill)(parent.pid, number)
        assert parent.wait(timeout=60) == status
    passed_on = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
    assert (tmp_path / "saved").read_text() == str(passed_on.value)


BLOCK = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
{before}
from albert_tf.utils.processes import ended_by_signals
from albert_tf.utils.outputs import output
try:
    with ended_by_signals(), output("output") as temporary:
        try:
            os.kill(os.getpid(), {number})
        finally:
            {after}
except KeyboardInterrupt:
    sys.exit(130)
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
"""


@pytest.mark.parametrize("number, before, after, status, printed", [
    (signal.SIGTERM, "", "pass", 143, "ended by SIGTERM\n"), (signal.SIGHUP, "", "pass", 129, "ended by SIGHUP\n"),
    (signal.SIGHUP, "signal.signal(signal.SIGHUP, signal.SIG_IGN)", "pass", 0, ""),  # nohup
    # TensorFlow's C code raises SystemError if a handler raises within it, and its device scopes RuntimeError.
    (signal.SIGTERM, "", "raise SystemError('error return without exception set')", 143, "ended by SIGTERM\n"),
    (signal.SIGINT, "", "raise RuntimeError('scope')", 130, "")], ids=str)
def test_a_signal_ends_a_block_with_a_line_and_no_temporary_files(
        hang_up, tmp_path, number, before, after, status, printed):
    assert result_of(tmp_path, BLOCK.format(number=number.value, before=before, after=after)) == (status, printed)
    assert [path.name for path in tmp_path.iterdir()] == ([] if status else ["output"])


def test_an_error_without_a_signal_stays():
    with pytest.raises(SystemError, match="^scope$"), processes.ended_by_signals():
        raise SystemError("scope")


# Locks a mutex of C twice: a call that never returns, within which Python calls no handler.
LONG_CALL = """
import ctypes, os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from albert_tf.utils import processes
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
library.pthread_mutex_lock(mutex)
with processes.ended_by_signals(), processes.announcing("the work is kept"):
    open("started", "w").close()
    library.pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize("number, name", [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_in_a_long_call_is_answered_at_once_and_the_second_one_ends_it(tmp_path, number, name):
    """SIGTERM comes twice at first, as from `timeout`."""
    program = [sys.executable, "-c", LONG_CALL]
    with subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "started").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            for _ in range(1 if number == signal.SIGINT else 2):
                process.send_signal(number)
            assert process.stderr.readline() == f"{name}: the work is kept. A second signal ends it at once\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=1.1)
            process.send_signal(number)
            assert process.wait(timeout=20) == 128 + number
            assert process.stderr.read() == f"ended at once by {name}\n"
        finally:
            process.kill()
