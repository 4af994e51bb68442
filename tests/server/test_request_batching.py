"""Requests that wait at the same time are one batch, and each gets its own rows."""

import queue
import threading
from unittest import mock

import numpy as np
import pytest

from albert_tf.server.batching import Batcher
from albert_tf.server.signatures import Signature, Spec


class Recorder:
    """Signatures that double numbers or return texts, record their batches, and wait in each for `go`."""

    def __init__(self):
        self.batches, self.started, self.go = [], threading.Semaphore(0), threading.Event()
        self.numbers = Signature(dict(x=Spec("int32", (None,))), lambda columns: dict(y=2 * self.run(columns["x"])))
        self.texts = Signature(dict(x=Spec("string", (None,))), lambda columns: dict(y=self.run(columns["x"])))

    def run(self, values):
        self.batches.append(values.tolist())
        self.started.release()
        assert self.go.wait(60)
        if 13 in values:
            raise ValueError("13 is refused")
        return values

    def submit(self, batcher, *values, signature=None):
        column = np.array(values, object if isinstance(values[0], bytes) else None)
        signature = signature or (self.texts if column.dtype == object else self.numbers)
        return batcher.submit(signature, dict(x=column))


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def batcher(request):
    """A batcher; the parameter has its options."""
    batcher = Batcher(**request.param)
    yield batcher
    batcher.close()


def with_batcher(**options):
    return pytest.mark.parametrize("batcher", [options], indirect=True)


def rows(future):
    return [row["y"].item() if hasattr(row["y"], "item") else row["y"] for row in future.result(60)]


def submitted(batcher, recorder, *requests):
    """The futures of requests that all wait while the first of them runs."""
    first = recorder.submit(batcher, *requests[0])
    assert recorder.started.acquire(timeout=60)
    futures = [first, *(recorder.submit(batcher, *values) for values in requests[1:])]
    recorder.go.set()
    return futures


S, L, LONG = b"s" * 50, b"l" * 1000, b"l" * 90_000


@pytest.mark.parametrize("batcher, requests, batches", [
    (dict(batch_size=4), [[1], [2], [3, 4], [5, 6], [7]], [[1], [2, 3, 4, 7], [5, 6]]),  # up to its size
    (dict(batch_size=2), [[0, 1, 2, 3, 4]], [[0, 1], [2, 3], [4]]),  # a request larger than a batch
    (dict(batch_size=4), [[S], [L], [S], [L], [S, L]], [[S], [L] * 3, [S] * 2])],  # texts of similar length
    ids=["size", "parts", "lengths"], indirect=["batcher"])
def test_waiting_requests_are_one_batch_and_get_their_own_rows(batcher, recorder, requests, batches):
    futures = submitted(batcher, recorder, *requests)
    assert [rows(future) for future in futures] == [
        [2 * value if isinstance(value, int) else value for value in values] for values in requests]
    assert recorder.batches == batches


@with_batcher(batch_size=8)
def test_a_bad_row_spoils_no_other_request(batcher, recorder):
    futures = submitted(batcher, recorder, [1], [2], [13], [3])
    assert [rows(futures[i]) for i in (0, 1, 3)] == [[2], [4], [6]]
    with pytest.raises(ValueError, match="13 is refused"):
        futures[2].result(60)


@with_batcher(batch_size=8)
def test_an_error_in_counting_a_batch_is_an_answer_and_the_thread_goes_on(batcher, recorder):
    recorder.go.set()
    batcher.on_batch = mock.Mock(side_effect=[KeyError("no such count"), None])
    with pytest.raises(KeyError):
        recorder.submit(batcher, 1).result(60)
    assert rows(recorder.submit(batcher, 2)) == [4]


@with_batcher(batch_size=8)
def test_requests_of_two_signatures_are_never_joined(batcher, recorder):
    other = Signature(recorder.numbers.inputs, lambda columns: dict(y=-columns["x"]))
    first = recorder.submit(batcher, 1)
    assert recorder.started.acquire(timeout=60)
    futures = [first, recorder.submit(batcher, 2, signature=other), recorder.submit(batcher, 3)]
    recorder.go.set()
    assert [rows(future) for future in futures] == [[2], [-2], [6]]


def test_too_many_waiting_requests_are_refused_also_those_that_waited_for_another_batch():
    started, go = threading.Semaphore(0), threading.Semaphore(0)

    def run(columns):
        started.release()
        assert go.acquire(timeout=60)
        return dict(y=columns["x"])

    signature = Signature(dict(x=Spec("int32", (None,))), run)
    batcher = Batcher(batch_size=1, max_waiting=2)

    def submit(number):
        return batcher.submit(signature, dict(x=np.array([number])))

    futures = [submit(1)]
    assert started.acquire(timeout=60)
    futures += [submit(2), submit(3)]
    with pytest.raises(queue.Full):
        submit(9)
    assert futures.pop().cancel()  # makes room for another
    futures.append(submit(3))
    go.release()
    assert started.acquire(timeout=60)  # request 2 runs, and request 3 waits on
    futures.append(submit(4))
    with pytest.raises(queue.Full):
        submit(5)
    go.release(3)
    assert [rows(future) for future in futures] == [[1], [2], [3], [4]]
    batcher.close()
    with pytest.raises(RuntimeError, match="the batcher is closed"):
        submit(6)


@with_batcher(batch_size=4)
@pytest.mark.parametrize("outputs", [lambda x: np.repeat(x, 2), np.sum])
def test_an_output_that_has_no_row_for_each_instance_is_an_error(batcher, outputs):
    """Rows of one request would be answers of another."""
    signature = Signature(dict(x=Spec("int32", (None,))), lambda columns: dict(y=outputs(columns["x"])))
    with pytest.raises(ValueError, match="output 'y' .* shape"):
        batcher.submit(signature, dict(x=np.array([1, 2]))).result(60)


@with_batcher(batch_size=4)
def test_a_short_text_waits_for_two_of_many_long_ones_which_run_alone(batcher, recorder):
    for future in submitted(batcher, recorder, *[[LONG]] * 6, [b"short"]):
        future.result(60)
    assert [len(batch) for batch in recorder.batches] == [1] * 7
    assert recorder.batches.index([b"short"]) <= 2


@with_batcher(batch_size=16)
def test_batches_have_a_few_sizes(batcher, recorder):
    """TensorFlow keeps memory for each shape that it has met."""
    recorder.go.set()
    for size in range(1, 40):
        assert len(recorder.submit(batcher, *[b"a"] * size).result(60)) == size
    assert {len(batch) for batch in recorder.batches} == {1, 2, 3, 4, 6, 8, 12, 16}
