"""Tasks are done in order by however many processes, and what goes wrong in one is told."""

import os
import signal

import pytest

from albert_tf.data.worker_pool import worker_pool

_base = None


def set_base(base):
    global _base
    _base = base


def add(number):
    return _base + number, os.getpid()


def fail(number):
    raise OSError(28, "No space left on device", f"file {number}")


def end(number):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("num_workers", [1, 3])
def test_results_come_in_the_order_of_the_tasks(num_workers):
    with worker_pool(num_workers, set_base, 100) as run:
        sums, processes = zip(*run(add, ((number,) for number in range(50))))
    assert list(sums) == list(range(100, 150))
    assert (set(processes) == {os.getpid()}) == (num_workers == 1)


def test_few_tasks_are_taken_ahead():
    taken = []
    with worker_pool(2, set_base, 0) as run:
        results = run(add, (taken.append(number) or (number,) for number in range(50)))
        next(results)
        assert len(taken) == 5


@pytest.mark.parametrize("num_workers", [1, 2])
def test_an_error_is_raised_here(num_workers):
    with pytest.raises(OSError, match="No space left on device: 'file 3'"):
        with worker_pool(num_workers, set_base, 0) as run:
            list(run(fail, [(3,)]))


def test_a_worker_that_was_killed_is_told():
    with pytest.raises(OSError, match="ended from outside"):
        with worker_pool(2, set_base, 0) as run:
            list(run(end, [(number,) for number in range(5)]))
