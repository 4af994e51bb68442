"""Work in several processes, and the lists in which it is handed out."""

import importlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from albert_tf.data.worker_pool import chunks, worker_pool


class Base:
    """A state that counts its tasks."""

    def __init__(self, value):
        self.value, self.num_tasks = value, 0


def add(base, number):
    base.num_tasks += 1
    return base.value + number, os.getpid(), base.num_tasks


def temporary_folder(base):
    return tempfile.mkdtemp()


def fail(base, number):
    raise OSError(28, "No space left on device", f"file {number}")


def end(base, number):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("num_workers", [1, 3])
def test_results_come_in_the_order_of_the_tasks(num_workers):
    with worker_pool(num_workers, Base, 100) as run:
        sums, processes, counts = zip(*run(add, ((number,) for number in range(50))))
    assert list(sums) == list(range(100, 150))
    assert (set(processes) == {os.getpid()}) == (num_workers == 1)
    for process in set(processes):  # a state is kept from task to task
        of_process = [count for count, other in zip(counts, processes) if other == process]
        assert sorted(of_process) == list(range(1, len(of_process) + 1))


def test_temporary_files_of_workers_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with worker_pool(2, Base, 0) as run:
        assert all(folder.startswith(str(tmp_path)) and os.path.isdir(folder) for folder in run(temporary_folder, [()]))
    assert not list(tmp_path.iterdir())


def test_few_tasks_are_taken_ahead():
    taken = []
    with worker_pool(2, Base, 0) as run:
        results = run(add, (taken.append(number) or (number,) for number in range(50)))
        next(results)
        assert len(taken) == 5


@pytest.mark.parametrize("num_workers, task, message", [
    (1, fail, "No space left on device: 'file 3'"), (2, fail, "No space left on device: 'file 3'"),
    (2, end, "was killed by signal")])
def test_an_error_or_the_end_of_a_worker_is_raised_here(num_workers, task, message):
    with pytest.raises(OSError, match=message), worker_pool(num_workers, Base, 0) as run:
        list(run(task, [(3,)] * 5))


def environment(base, module):
    importlib.import_module(module)
    return "tensorflow" in sys.modules, threading.active_count()


def test_workers_start_without_tensorflow_and_have_none_of_the_main_process_threads():
    modules = ["albert_tf.pretraining.creation", "albert_tf.tasks.squad.features"]
    with worker_pool(2, Base, 0) as run:
        assert list(run(environment, zip(modules))) == [(False, 2)] * 2  # one thread takes tasks, one runs them


def sleep(base, seconds):
    print("a task has begun", flush=True)
    time.sleep(seconds)


MAIN_PROCESS = """
import sys
sys.path[:0] = {folders!r}
from test_worker_pool import Base, sleep, worker_pool
with worker_pool(3, Base, 0) as run:
    list(run(sleep, [(60,)] * 3))
"""


def test_workers_end_in_the_middle_of_a_task_when_the_main_process_is_killed():
    tests = pathlib.Path(__file__).parent
    program = MAIN_PROCESS.format(folders=[str(tests), str(tests.parents[1])])
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
        assert [process.stderr.readline() for _ in range(3)] == ["a task has begun\n"] * 3
        process.kill()
        process.communicate(timeout=30)  # to the end of stderr, which the workers hold open as long as they live


def test_chunks_are_read_one_by_one_and_the_last_one_may_be_shorter():
    for elements, expected in ((range(5), [[0, 1], [2, 3], [4]]), ("abcd", [["a", "b"], ["c", "d"]]), ([], [])):
        assert list(chunks(elements, 2)) == expected
    assert next(chunks(itertools.count(), 3)) == [0, 1, 2]
