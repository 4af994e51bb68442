"""Batcher: runs requests that wait at the same time as one batch."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from albert_tf.serving.signatures import Columns, Signature

Rows = list[dict[str, np.ndarray]]


class _Job(NamedTuple):
    signature: Signature
    columns: Columns
    size: int
    result: Future

    @property
    def key(self) -> tuple:
        """Jobs with the same key can be in the same batch."""
        return id(self.signature), *(column.shape[1:] for column in self.columns.values())


class Batcher:
    """Runs signatures in one thread.

    The thread takes the oldest request, adds other waiting requests for the same signature, and runs them as one batch.
    It never waits for a batch to become full.

    Args:
      batch_size: the largest number of rows of a batch.
      max_waiting: the largest number of waiting requests. `submit` rejects further ones.
    """

    def __init__(self, batch_size: int = 16, max_waiting: int = 256):
        self._batch_size = batch_size
        self._queue: queue.Queue[_Job | None] = queue.Queue(max_waiting)
        self._put_back: list[_Job] = []
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def submit(self, signature: Signature, columns: Columns) -> Future[Rows]:
        """Returns a future of the outputs of each row.

        Raises:
          queue.Full: too many requests are waiting.
        """
        size = len(next(iter(columns.values())))
        job = _Job(signature, columns, size, Future())
        self._queue.put_nowait(job)
        return job.result

    def close(self) -> None:
        """Ends the thread after all waiting requests have been answered."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            job = self._put_back.pop(0) if self._put_back else self._queue.get()
            if job is None:
                return
            jobs = [job, *self._others_like(job)]
            self._run(jobs)

    def _others_like(self, job: _Job) -> list[_Job]:
        """Waiting jobs that can be in the same batch as `job`, as many as fit in it."""
        waiting, self._put_back = self._put_back, []
        while not self._queue.empty():
            other = self._queue.get()
            if other is None:
                self._queue.put(None)  # the end comes after all waiting jobs
                break
            waiting.append(other)
        joined, num_free_rows = [], self._batch_size - job.size
        for other in waiting:
            if other.key == job.key and other.size <= num_free_rows:
                joined.append(other)
                num_free_rows -= other.size
            else:
                self._put_back.append(other)
        return joined

    def _run(self, jobs: list[_Job]) -> None:
        """Sets the results of jobs. If a batch fails, its jobs run one by one, so that one bad row fails alone."""
        try:
            columns = {name: np.concatenate([job.columns[name] for job in jobs]) for name in jobs[0].columns}
            rows = self._rows(jobs[0].signature, columns)
        except Exception as error:  # any error of a model is the answer to its request, and the thread continues
            if len(jobs) == 1:
                jobs[0].result.set_exception(error)
            else:
                for job in jobs:
                    self._run([job])
            return
        for job in jobs:
            job.result.set_result(rows[: job.size])
            rows = rows[job.size :]

    def _rows(self, signature: Signature, columns: Columns) -> Rows:
        rows: Rows = []
        size = len(next(iter(columns.values())))
        for first in range(0, size, self._batch_size):
            batch = {name: column[first : first + self._batch_size] for name, column in columns.items()}
            outputs = {name: np.asarray(values) for name, values in signature.run(batch).items()}
            count = len(next(iter(batch.values())))
            rows += [signature.row({name: values[i] for name, values in outputs.items()}) for i in range(count)]
        return rows
