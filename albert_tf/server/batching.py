"""Batcher: runs rows that wait at the same time, and have similar lengths, as one batch."""

from __future__ import annotations

import contextlib
import queue
import threading
from concurrent.futures import Future, InvalidStateError
from typing import Any, Callable, Iterable

import numpy as np

from albert_tf.server.signatures import Columns, Signature
from albert_tf.text.packing import concatenated

Rows = list[dict[str, np.ndarray]]
_SHORTEST = 64  # bytes; texts up to this length are of one group
_BATCH_BYTES = 1 << 16  # a batch of longer texts has fewer rows


class _Job:
    """A request: its rows, the numbers of those that wait in groups, and the outputs of the others.

    Rows of a group can be in the same batch: they have the same signature, shapes and length, up to a factor of two.
    """

    def __init__(self, signature: Signature, columns: Columns):
        self.signature, self.columns = signature, columns
        self.result: Future[Rows] = Future()
        shapes = id(signature), *(column.shape[1:] for column in columns.values())
        self.groups: dict[tuple, list[int]] = {}
        for number, length in enumerate(_bytes_of_rows(columns)):
            self.groups.setdefault((*shapes, (max(_SHORTEST, length) - 1).bit_length()), []).append(number)
        self.size = sum(map(len, self.groups.values()))
        self.outputs: dict[int, dict[str, np.ndarray]] = {}

    def shortest(self) -> int:
        """The base-2 logarithm of the bytes of the shortest waiting rows."""
        return min(group[-1] for group in self.groups)

    def take(self, group: tuple, count: int) -> list[int]:
        """Removes the first waiting rows of a group, and returns their numbers."""
        rows = self.groups[group]
        self.groups[group] = rows[count:]
        if not self.groups[group]:
            del self.groups[group]
        return rows[:count]

    def add(self, numbers: list[int], outputs: Rows) -> None:
        """Stores the outputs of rows, and sets the result when all rows have outputs."""
        self.outputs.update(zip(numbers, outputs))
        if len(self.outputs) == self.size:
            with contextlib.suppress(InvalidStateError):
                self.result.set_result([self.outputs[number] for number in range(self.size)])


_Part = tuple[_Job, list[int]]  # a job, and the numbers of its rows in one batch


class Batcher:
    """Runs the signatures of a model in one thread, one batch after the other.

    The next request starts a batch with its rows, and other requests fill it with rows of the same group. A request
    with more rows goes to the end of the queue, so a small request waits for at most one batch of each other request.
    Every second turn goes to the request with the shortest rows, so that long texts do not hold up short ones. The
    thread never waits for a batch to become full. Batches have a few sizes only (1, 2, 3, 4, 6, 8, 12, 16, ...), since
    TensorFlow keeps memory for each shape that it has met. `on_batch` is called with the number of rows of each batch.
    """

    def __init__(self, batch_size: int = 16, max_waiting: int = 256):
        self.batch_size, self.max_waiting = batch_size, max_waiting
        self.on_batch: Callable[[int], Any] = lambda rows: None
        self._sizes = _sizes(batch_size)
        self.waiting: list[_Job] = []  # the requests with rows that are in no batch yet, in the order of their turns
        self._is_closed = self._is_turn_of_shortest = False
        self._changed = threading.Condition()  # guards both, and the groups of the jobs
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def submit(self, signature: Signature, columns: Columns) -> Future[Rows]:
        """A future of the outputs of each row. `cancel` takes the request back. Raises queue.Full."""
        job = _Job(signature, columns)
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the batcher is closed")
            self._drop_ended()
            if len(self.waiting) >= self.max_waiting:
                raise queue.Full
            self.waiting.append(job)
            self._changed.notify()
        return job.result

    def close(self) -> None:
        """Ends the thread after all waiting requests have been answered."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while parts := self._next_batch():
            self._run(parts)

    def _drop_ended(self) -> None:
        """Removes requests that were taken back, or that have failed."""
        self.waiting = [job for job in self.waiting if not job.result.done()]

    def _next_batch(self) -> list[_Part]:
        """Waits for a request. Returns a batch of the next request and of others, or no parts if the batcher is closed.

        The first request may be divided. The others add all of their rows of the group or none.
        """
        with self._changed:
            self._drop_ended()
            while not self.waiting:
                if self._is_closed:
                    return []
                self._changed.wait()
                self._drop_ended()
            self._is_turn_of_shortest = not self._is_turn_of_shortest
            first = min(self.waiting, key=_Job.shortest) if self._is_turn_of_shortest else self.waiting[0]
            others = [job for job in self.waiting if job is not first]
            group, rows = next(iter(first.groups.items()))
            largest = min(self._sizes[-1], max(1, _BATCH_BYTES >> group[-1]))
            taken = [(first, max(size for size in self._sizes if size <= min(largest, len(rows))))]
            total = taken[0][1]
            for job in others:
                count = len(job.groups.get(group, ()))
                if 0 < count <= largest - total:
                    taken.append((job, count))
                    total += count
            while total not in self._sizes:
                total -= taken.pop()[1]
            parts = [(job, job.take(group, count)) for job, count in taken]
            self.waiting = [job for job in (*others, first) if job.groups]
        return parts

    def _run(self, parts: list[_Part]) -> None:
        """Runs a batch. If it fails, its parts run one by one, so that one bad row fails alone."""
        try:
            rows = _outputs(parts[0][0].signature, concatenated(
                {name: column[numbers] for name, column in job.columns.items()} for job, numbers in parts))
            self.on_batch(len(rows))
            for job, numbers in parts:
                job.add(numbers, rows[: len(numbers)])
                rows = rows[len(numbers) :]
        except Exception as error:  # any error is the answer to its request, and the thread continues
            if len(parts) == 1:
                with contextlib.suppress(InvalidStateError):  # the client has gone
                    parts[0][0].result.set_exception(error)
            else:
                for part in parts:
                    self._run([part])


def _sizes(largest: int) -> list[int]:
    """The sizes of batches, smallest first: powers of two, those times three, and the largest."""
    sizes = {2**power * factor for power in range(largest.bit_length()) for factor in (1, 3)}
    return sorted({size for size in sizes if size < largest} | {largest})


def _bytes_of_rows(columns: Columns) -> Iterable[int]:
    """The length of the texts of each row. Numbers count nothing, since rows of a group have the same shapes."""
    size = len(next(iter(columns.values())))
    lengths = np.zeros(size, np.int64)
    for column in columns.values():
        if column.dtype == object:
            lengths += [sum(map(len, row)) for row in column.reshape([size, -1])]
    return lengths.tolist()


def _outputs(signature: Signature, batch: Columns) -> Rows:
    """The outputs of each row of a batch."""
    outputs = {name: np.asarray(values) for name, values in signature.run(batch).items()}
    count = len(next(iter(batch.values())))
    for name, values in outputs.items():
        if values.shape[:1] != (count,):
            raise ValueError(f"output {name!r} cannot be divided among the instances of a request: its shape is "
                             f"{list(values.shape)}, for {count} instances")
    return [signature.row({name: values[i] for name, values in outputs.items()}) for i in range(count)]
