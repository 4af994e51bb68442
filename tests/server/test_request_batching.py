"""Requests that wait at the same time are one batch, and each gets its own rows."""

import queue
import threading
from unittest import mock

import numpy as np
import pytest

from albert_tf.server.batching import Batcher
from albert_tf.server.signatures import Signature, Spec


class Recorder:
    """A signature that doubles numbers, records its batches, and waits in the first one until `go` is set."""

    def __init__(self):
        self.batches, self.started, self.go = [], threading.Event(), threading.Event()
        self.signature = Signature(dict(x=Spec("int32", (None,))), self.run)

    def run(self, columns):
        self.batches.append(columns["x"].tolist())
        self.started.set()
        assert self.go.wait(60)
        if 13 in columns["x"]:
            raise ValueError("13 is refused")
        return dict(y=2 * columns["x"])


@pytest.fixture
def recorder():
    return Recorder()


def submitted(batcher, recorder, *requests):
    """The futures of requests that all wait while the first of them runs."""
    first = batcher.submit(recorder.signature, dict(x=np.array(requests[0])))
    assert recorder.started.wait(60)
    futures = [first, *(batcher.submit(recorder.signature, dict(x=np.array(x))) for x in requests[1:])]
    recorder.go.set()
    return futures


def values(future):
    return [int(row["y"]) for row in future.result(60)]


def test_waiting_requests_are_one_batch_up_to_its_size(recorder):
    batcher = Batcher(batch_size=4)
    futures = submitted(batcher, recorder, [1], [2], [3, 4], [5, 6], [7])
    assert [values(future) for future in futures] == [[2], [4], [6, 8], [10, 12], [14]]
    assert recorder.batches == [[1], [2, 3, 4, 7], [5, 6]]
    batcher.close()


def test_a_request_larger_than_a_batch_is_run_in_parts(recorder):
    batcher = Batcher(batch_size=2)
    recorder.go.set()
    assert values(batcher.submit(recorder.signature, dict(x=np.arange(5)))) == [0, 2, 4, 6, 8]
    assert recorder.batches == [[0, 1], [2, 3], [4]]
    batcher.close()


def test_a_bad_row_spoils_no_other_request(recorder):
    batcher = Batcher(batch_size=8)
    futures = submitted(batcher, recorder, [1], [2], [13], [3])
    assert [values(futures[i]) for i in (0, 1, 3)] == [[2], [4], [6]]
    with pytest.raises(ValueError, match="13 is refused"):
        futures[2].result(60)
    batcher.close()


def test_an_error_in_counting_a_batch_is_an_answer_and_the_thread_goes_on(recorder):
    batcher = Batcher(batch_size=8)
    recorder.go.set()
    batcher.on_batch = mock.Mock(side_effect=[KeyError("no such count"), None])
    with pytest.raises(KeyError):
        batcher.submit(recorder.signature, dict(x=np.array([1]))).result(60)
    assert values(batcher.submit(recorder.signature, dict(x=np.array([2])))) == [4]
    batcher.close()


def test_requests_of_two_signatures_are_never_joined(recorder):
    batcher = Batcher(batch_size=8)
    other = Signature(recorder.signature.inputs, lambda columns: dict(y=-columns["x"]))
    first = batcher.submit(recorder.signature, dict(x=np.array([1])))
    assert recorder.started.wait(60)
    second, third = (batcher.submit(other, dict(x=np.array([2]))),
                     batcher.submit(recorder.signature, dict(x=np.array([3]))))
    recorder.go.set()
    assert [values(future) for future in (first, second, third)] == [[2], [-2], [6]]
    batcher.close()


def test_too_many_waiting_requests_are_refused(recorder):
    batcher = Batcher(batch_size=1, max_waiting=2)
    submitted_first = batcher.submit(recorder.signature, dict(x=np.array([1])))
    assert recorder.started.wait(60)
    waiting = [batcher.submit(recorder.signature, dict(x=np.array([i]))) for i in (2, 3)]
    with pytest.raises(queue.Full):
        batcher.submit(recorder.signature, dict(x=np.array([4])))
    recorder.go.set()
    assert [values(future) for future in (submitted_first, *waiting)] == [[2], [4], [6]]
    batcher.close()


def test_requests_that_waited_for_another_batch_still_count_as_waiting():
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
    go.release()
    assert started.acquire(timeout=60)  # request 2 runs, and request 3 waits on
    futures.append(submit(4))
    with pytest.raises(queue.Full):
        submit(5)
    go.release(3)
    assert [values(future) for future in futures] == [[1], [2], [3], [4]]
    batcher.close()
    with pytest.raises(RuntimeError, match="the batcher is closed"):
        submit(6)


@pytest.mark.parametrize("outputs", [lambda x: np.repeat(x, 2), np.sum])
def test_an_output_that_has_no_row_for_each_instance_is_an_error(outputs):
    """Rows of one request would be answers of another."""
    signature = Signature(dict(x=Spec("int32", (None,))), lambda columns: dict(y=outputs(columns["x"])))
    batcher = Batcher(batch_size=4)
    with pytest.raises(ValueError, match="output 'y' cannot be divided among the instances of a request: its shape is"):
        batcher.submit(signature, dict(x=np.array([1, 2]))).result(60)
    batcher.close()


class TextRecorder:
    """A signature that records the texts of its batches, and waits in the first one until `go` is set."""

    def __init__(self):
        self.batches, self.started, self.go = [], threading.Event(), threading.Event()
        self.signature = Signature(dict(text=Spec("string", (None,))), self.run)

    def run(self, columns):
        self.batches.append(columns["text"].tolist())
        self.started.set()
        assert self.go.wait(60)
        return dict(y=columns["text"])

    def submit(self, batcher, *texts):
        column = np.empty(len(texts), object)
        column[:] = texts
        return batcher.submit(self.signature, dict(text=column))


@pytest.fixture
def texts():
    return TextRecorder()


def test_a_batch_has_texts_of_similar_length(texts):
    batcher = Batcher(batch_size=4)
    short, long = b"s" * 50, b"l" * 1000
    futures = [texts.submit(batcher, short)]
    assert texts.started.wait(60)
    futures += [texts.submit(batcher, text) for text in (long, short, long)] + [texts.submit(batcher, short, long)]
    texts.go.set()
    assert [[row["y"] for row in future.result(60)] for future in futures] == [
        [short], [long], [short], [long], [short, long]]
    assert texts.batches == [[short], [long] * 3, [short] * 2]
    batcher.close()


def test_a_short_text_waits_for_two_of_many_long_ones_which_run_alone(texts):
    batcher = Batcher(batch_size=4)
    first = texts.submit(batcher, b"l" * 90_000)
    assert texts.started.wait(60)
    others = [texts.submit(batcher, b"l" * 90_000) for _ in range(5)] + [texts.submit(batcher, b"short")]
    texts.go.set()
    for future in (first, *others):
        future.result(60)
    batcher.close()
    assert [len(batch) for batch in texts.batches] == [1] * 7
    assert texts.batches.index([b"short"]) <= 2


def test_requests_take_turns(texts):
    batcher = Batcher(batch_size=2)
    large = texts.submit(batcher, *[b"large"] * 6)
    assert texts.started.wait(60)
    small = texts.submit(batcher, *[b"small"] * 2)
    texts.go.set()
    assert len(small.result(60)) == 2 and len(large.result(60)) == 6
    assert [batch[0] for batch in texts.batches] == [b"large", b"large", b"small", b"large"] or [
        batch[0] for batch in texts.batches] == [b"large", b"small", b"large", b"large"]
    batcher.close()


def test_a_request_that_is_taken_back_gets_no_further_batch(texts):
    batcher = Batcher(batch_size=2)
    large = texts.submit(batcher, *[b"large"] * 100)
    assert texts.started.wait(60)
    assert large.cancel()
    texts.go.set()
    assert len(texts.submit(batcher, b"small").result(60)) == 1
    assert len(texts.batches) == 2
    batcher.close()


def test_batches_have_a_few_sizes(texts):
    """TensorFlow keeps memory for each shape that it has met."""
    batcher = Batcher(batch_size=16)
    texts.go.set()
    for size in range(1, 40):
        assert len(texts.submit(batcher, *[b"a"] * size).result(60)) == size
    assert {len(batch) for batch in texts.batches} == {1, 2, 3, 4, 6, 8, 12, 16}
    batcher.close()
