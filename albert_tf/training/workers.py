"""Synchronizes several workers (TF_CONFIG). One of them, the chief, writes the files that all of them read.

Around work that only the chief does::

    with chief_first(strategy):
        table = cached_table(...)      # the chief makes it, the others read it

    if is_chief(strategy):
        write_answers(...)
    wait_for_all(strategy)             # before a worker reads what the chief has written
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Iterator

import tensorflow as tf

from albert_tf.training.strategy import is_chief

# TensorFlow's errors if another worker is lost, and words of their messages.
_CONNECTION_ERRORS = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError, tf.errors.AbortedError,
                      tf.errors.CancelledError)
_OF_WORKERS = re.compile("[Cc]ollective|[Hh]eartbeat|CoordinationService|remote target")
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


def values_of_all(strategy: tf.distribute.Strategy, value: int) -> list[int]:
    """The values of all workers, once per replica. Waits until all workers have called it."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return [value]

    @tf.function(autograph=False)
    def of_replicas():
        return strategy.run(lambda: tf.constant([value], tf.int64))

    return strategy.gather(of_replicas(), axis=0).numpy().tolist()


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Waits until all workers have called it."""
    values_of_all(strategy, 0)


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Runs the block on the chief first, and then on the other workers, which can read the chief's files."""
    if not is_chief(strategy):
        wait_for_all(strategy)
    yield
    if is_chief(strategy):
        wait_for_all(strategy)


@contextlib.contextmanager
def naming_lost_workers() -> Iterator[None]:
    """Turns TensorFlow's error about a worker that no longer answers into a ConnectionError that names the worker.

    TensorFlow notices it within a minute, from the heartbeats that workers exchange.
    """
    try:
        yield
    except _CONNECTION_ERRORS as error:
        if not _OF_WORKERS.search(error.message):
            raise
        raise ConnectionError(f"{_lost_worker(error.message)} no longer answers: it has failed or was killed, or the "
                              "network is down. Start all workers again: training continues from its latest "
                              "checkpoint") from error


def _lost_worker(message: str) -> str:
    """The worker in TensorFlow's message, such as "worker 1 (10.0.0.2:2222)"."""
    task = _TASK.search(message)
    if not task:
        return "another worker"
    kind, index = task.group(1), int(task.group(2))
    addresses = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {}).get(kind, [])
    address = f" ({addresses[index]})" if index < len(addresses) else ""
    return f"{kind} {index}{address}"
