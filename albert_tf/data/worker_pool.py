"""A pool of worker processes. Only a few tasks are in progress at a time, so memory does not grow with their number.

A worker is a new Python process: a fork would copy locks that TensorFlow's threads hold. Tasks and results are pickled,
through its stdin and stdout. It ends when its stdin is closed, so it never outlives this process. concurrent.futures
with "spawn" would import TensorFlow in each worker, and loky's workers outlive a parent that is killed.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import functools
import itertools
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any, BinaryIO, Callable, Iterable, Iterator, TypeVar, cast

from albert_tf.utils import bounds
from albert_tf.utils.files import scratch_folder

Run = Callable[[Callable, Iterable[tuple]], Iterator]
Element = TypeVar("Element")

_PROGRAM = "import sys; sys.path[:] = {path!r}; from albert_tf.data.worker_pool import serve; serve()"


@contextlib.contextmanager
def worker_pool(num_workers: int, make_state: Callable, *arguments: Any) -> Iterator[Run]:
    """Yields a function `run(function, tasks)`, which returns `function(state, *task)` for each task, in their order.

    Each worker calls make_state(*arguments) before its first task. A task is a tuple. Functions, arguments, results and
    errors are pickled. The modules of the functions should not import TensorFlow. With one worker, tasks run in this
    process. A worker that is killed raises OSError.
    """
    bounds.WORKERS.check("num_workers", num_workers)
    if num_workers == 1:
        state = make_state(*arguments)
        yield lambda function, tasks: itertools.starmap(functools.partial(function, state), tasks)
        return
    workers: list[_Worker] = []
    of_thread, lock, has_ended = threading.local(), threading.Lock(), threading.Event()
    with scratch_folder() as temporary, concurrent.futures.ThreadPoolExecutor(num_workers) as threads:

        def call(function: Callable, task: tuple) -> Any:
            """Runs a task in the process of this thread, which the thread's first task starts."""
            if not hasattr(of_thread, "worker"):
                with lock:  # so that the block's end finds all workers
                    if has_ended.is_set():
                        raise concurrent.futures.CancelledError
                    worker = _Worker(temporary)
                    workers.append(worker)
                worker.call(make_state, arguments)
                of_thread.worker = worker
            return of_thread.worker.call(function, task)

        def run(function: Callable, tasks: Iterable[tuple]) -> Iterator:
            under_way: collections.deque[concurrent.futures.Future] = collections.deque()
            for task in tasks:
                under_way.append(threads.submit(call, function, task))
                if len(under_way) > 2 * num_workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()

        try:
            yield run
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            with lock:
                has_ended.set()
            for worker in workers:
                worker.end()


class _Worker:
    """A process of a pool, seen from the main process. `temporary` is the folder of its temporary files."""

    def __init__(self, temporary: str):
        program = _PROGRAM.format(path=[os.path.abspath(path) for path in sys.path])
        self._process = subprocess.Popen([sys.executable, "-I", "-c", program], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": temporary})
        # Both are pipes, so neither is None.
        self._tasks = cast(BinaryIO, self._process.stdin)
        self._results = cast(BinaryIO, self._process.stdout)

    def call(self, function: Callable, task: tuple) -> Any:
        """Returns the function's result, or raises its error. The first call makes the state and returns None."""
        try:
            pickle.dump((function, task), self._tasks, pickle.HIGHEST_PROTOCOL)
            self._tasks.flush()
            result, error, trace = pickle.load(self._results)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as cause:
            status = self._process.wait()
            raise OSError(f"a worker process was killed by signal {-status}, perhaps because memory ran out"
                          if status < 0 else f"a worker process ended with status {status}") from cause
        if error is not None:
            raise error from RuntimeError(f"in a worker process:\n{trace}")
        return result

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._results.close()
        with contextlib.suppress(BrokenPipeError):  # part of a task was not sent yet
            self._tasks.close()


def chunks(elements: Iterable[Element], size: int) -> Iterator[list[Element]]:
    """Consecutive elements in lists of `size`. The last list may be shorter; none is empty."""
    remaining = iter(elements)
    while chunk := list(itertools.islice(remaining, size)):
        yield chunk


def serve() -> None:
    """Makes the state, then runs the tasks that arrive on stdin, one by one, until stdin is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends its workers
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints goes to stderr and does not mix with the results
    tasks: queue.SimpleQueue[tuple[Callable, tuple]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(tasks,), daemon=True).start()
    state: tuple = ()
    while True:
        function, task = tasks.get()
        try:
            result = function(*state, *task)
            if not state:
                state, result = (result,), None
            answer = pickle.dumps((result, None, None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            answer = pickle.dumps((None, error, traceback.format_exc()), pickle.HIGHEST_PROTOCOL)
        with contextlib.suppress(BrokenPipeError):  # the main process has ended, and _receive ends this one
            results.write(answer)
            results.flush()


def _receive(tasks: queue.SimpleQueue) -> None:
    """Receives tasks from stdin. Ends this process when the main process has ended, even during a task."""
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    except (EOFError, pickle.UnpicklingError):
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
