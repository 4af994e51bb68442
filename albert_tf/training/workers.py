"""Several workers (TF_CONFIG): one of them, the chief, writes the files that all of them read.

    with chief_first(strategy):
        table = cached_table(...)      # made by the chief, read by the others

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

# What TensorFlow raises on the other workers, and words of its messages about them.
_CONNECTION_ERRORS = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError, tf.errors.AbortedError,
                      tf.errors.CancelledError)
_OF_WORKERS = re.compile("[Cc]ollective|[Hh]eartbeat|CoordinationService|remote target")
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


def values_of_all(strategy: tf.distribute.Strategy, value: int) -> list[int]:
    """The values that the workers' processes pass, once for each replica; waits until all have come here."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return [value]

    @tf.function(autograph=False)
    def of_replicas():
        return strategy.run(lambda: tf.constant([value], tf.int64))

    return strategy.gather(of_replicas(), axis=0).numpy().tolist()


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Returns when all workers have come here."""
    values_of_all(strategy, 0)


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """The block runs on the chief, and after that on the other workers, which then find the files of the chief."""
    if not is_chief(strategy):
        wait_for_all(strategy)
    yield
    if is_chief(strategy):
        wait_for_all(strategy)


@contextlib.contextmanager
def naming_lost_workers() -> Iterator[None]:
    """Where another worker does not answer any more, raises a ConnectionError that names it.

    TensorFlow notices that within a minute, by the heartbeats that workers exchange.
    """
    try:
        yield
    except _CONNECTION_ERRORS as error:
        if not _OF_WORKERS.search(error.message):
            raise
        raise ConnectionError(f"{_lost_worker(error.message)} does not answer any more: it has failed or was ended, or "
                              "the network is down. Start all workers again: training goes on from its latest "
                              "checkpoint") from error


def _lost_worker(message: str) -> str:
    """"worker 1 (10.0.0.2:2222)", by the task that TensorFlow's message names."""
    task = _TASK.search(message)
    if not task:
        return "another worker"
    kind, index = task.group(1), int(task.group(2))
    addresses = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {}).get(kind, [])
    address = f" ({addresses[index]})" if index < len(addresses) else ""
    return f"{kind} {index}{address}"
