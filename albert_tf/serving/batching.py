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
        self._batch_size, self._max_waiting = batch_size, max_waiting
        self._waiting: list[_Job] = []  # oldest first
        self._is_closed = False
        self._changed = threading.Condition()  # guards both
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def submit(self, signature: Signature, columns: Columns) -> Future[Rows]:
        """Returns a future of the outputs of each row.

        Raises:
          queue.Full: too many requests are waiting.
          RuntimeError: the batcher is closed.
        """
        job = _Job(signature, columns, len(next(iter(columns.values()))), Future())
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the batcher is closed")
            if len(self._waiting) >= self._max_waiting:
                raise queue.Full
            self._waiting.append(job)
            self._changed.notify()
        return job.result

    def close(self) -> None:
        """Ends the thread after all waiting requests have been answered."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while jobs := self._next_jobs():
            self._run(jobs)

    def _next_jobs(self) -> list[_Job]:
        """The oldest waiting job, and others for the same batch, as many as fit in it. No jobs: the batcher is closed.

        Waits for a job.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            jobs, waiting, self._waiting = self._waiting[:1], self._waiting[1:], []
            num_free_rows = self._batch_size - sum(job.size for job in jobs)
            for job in waiting:
                if job.key == jobs[0].key and job.size <= num_free_rows:
                    jobs.append(job)
                    num_free_rows -= job.size
                else:
                    self._waiting.append(job)
        return jobs

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
            for name, values in outputs.items():
                if values.shape[:1] != (count,):
                    raise ValueError(f"output {name!r} cannot be divided among the instances of a request: its shape "
                                     f"is {list(values.shape)}, for {count} instances")
            rows += [signature.row({name: values[i] for name, values in outputs.items()}) for i in range(count)]
        return rows
