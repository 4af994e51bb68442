"""Batcher: requests that wait at the same time go through the model together."""

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
        """Jobs of one key can be joined."""
        return id(self.signature), *(column.shape[1:] for column in self.columns.values())


class Batcher:
    """Runs signatures in one thread.

    A thread takes the oldest request, joins to it what else waits for the same signature, and runs them as one batch.
    Nobody waits for a batch to fill.

    Args:
      batch_size: rows that go through a model together at most.
      max_waiting: requests that wait at most; `submit` refuses more.
    """

    def __init__(self, batch_size: int = 16, max_waiting: int = 256):
        self._batch_size = batch_size
        self._queue: queue.Queue[_Job | None] = queue.Queue(max_waiting)
        self._put_back: list[_Job] = []
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def submit(self, signature: Signature, columns: Columns) -> Future[Rows]:
        """The outputs of each row, when they are there.

        Raises:
          queue.Full: too many requests wait.
        """
        size = len(next(iter(columns.values())))
        job = _Job(signature, columns, size, Future())
        self._queue.put_nowait(job)
        return job.result

    def close(self) -> None:
        """Ends the thread when all that waits is done."""
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
        """Jobs that wait and can be joined to one, so that the rows of all fit in a batch."""
        waiting, self._put_back = self._put_back, []
        while not self._queue.empty():
            other = self._queue.get()
            if other is None:
                self._queue.put(None)  # the end comes after what waits
                break
            waiting.append(other)
        joined, room = [], self._batch_size - job.size
        for other in waiting:
            if other.key == job.key and other.size <= room:
                joined.append(other)
                room -= other.size
            else:
                self._put_back.append(other)
        return joined

    def _run(self, jobs: list[_Job]) -> None:
        """Sets the results of jobs. Where a batch fails, each of its jobs runs alone: one bad row spoils no other."""
        try:
            columns = {name: np.concatenate([job.columns[name] for job in jobs]) for name in jobs[0].columns}
            rows = self._rows(jobs[0].signature, columns)
        except Exception as error:  # whatever a model raises is the request's answer, and the thread lives on
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
