"""Work shared by processes, a few tasks under way at a time, so that their number costs no memory."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import multiprocessing
import signal
import sys
from typing import Callable, Iterable, Iterator


Run = Callable[[Callable, Iterable[tuple]], Iterator]


@contextlib.contextmanager
def worker_pool(num_workers: int, initialize: Callable, *arguments) -> Iterator[Run]:
    """Gives run(function, tasks): for each task, a tuple of arguments, the function's result, in the tasks' order.

    Args:
      num_workers: processes. One worker is this process itself.
      initialize: called with `arguments` in each worker before its first task.

    Raises:
      OSError: a worker was ended from outside.
    """
    if num_workers == 1:
        initialize(*arguments)
        yield itertools.starmap
        return
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = concurrent.futures.ProcessPoolExecutor(num_workers, context, _start, (initialize, *arguments))

    def run(function: Callable, tasks: Iterable[tuple]) -> Iterator:
        under_way = collections.deque()
        for task in tasks:
            under_way.append(pool.submit(function, *task))
            if len(under_way) > 2 * num_workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    try:
        yield run
    except concurrent.futures.process.BrokenProcessPool as error:
        raise OSError("a worker process was ended from outside, perhaps for want of memory") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start(initialize: Callable, *arguments) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    initialize(*arguments)
