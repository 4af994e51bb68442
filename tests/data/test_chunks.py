"""Elements in lists of a limited length."""

import itertools

from albert_tf.data.worker_pool import chunks


def test_the_last_chunk_may_be_shorter_and_none_is_empty():
    assert list(chunks(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(chunks("abcd", 2)) == [["a", "b"], ["c", "d"]]
    assert list(chunks([], 2)) == []


def test_elements_are_read_chunk_by_chunk():
    assert next(chunks(itertools.count(), 3)) == [0, 1, 2]
