"""Parts of a batch that are computed at the same time: how many there are, and that they are the whole batch."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import trainer

pytestmark = pytest.mark.both_stacks


@pytest.mark.parametrize("rows, most, expected", [(32, 2, 2), (32, 3, 2), (9, 4, 3), (7, 4, 1), (7, 8, 7), (1, 4, 1)])
def test_the_number_of_parts_divides_the_rows(rows, most, expected):
    assert trainer.number_of_parts(rows, most) == expected


def test_parts_are_consecutive_rows_and_their_outputs_are_in_the_order_of_the_rows():
    batch = dict(x=tf.reshape(tf.range(24), [6, 4]), y=tf.range(6))
    split = trainer.equal_parts(batch, 4)
    assert [part["y"].numpy().tolist() for part in split] == [[0, 1], [2, 3], [4, 5]]
    sums = tf.function(lambda part: dict(sums=tf.reduce_sum(part["x"], axis=1) + part["y"]))
    outputs = trainer.in_parts(sums, batch, 4)
    np.testing.assert_array_equal(outputs["sums"], batch["x"].numpy().sum(axis=1) + np.arange(6))


def test_a_batch_is_not_split_if_its_number_of_rows_is_not_static():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def number_of(rows):
        return len(trainer.equal_parts(dict(rows=rows), 2))

    assert number_of(tf.range(4)) == 1


@pytest.mark.parametrize("limit, expected", [("1", 1), ("3", 3), ("64", trainer.MOST_PARTS)])
def test_there_is_a_part_for_each_core_up_to_a_limit(monkeypatch, limit, expected):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", limit)
    assert trainer.parts_of_cpu() == expected


def test_all_cores_have_a_thread_whatever_the_number_of_parts(monkeypatch):
    threads = []
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "10")
    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", threads.append)
    for count in (1, 3, 4):
        trainer.divide_threads(count)
    assert threads == [10, 4, 3]


def test_threads_of_a_started_tensorflow_stay_as_they_are():
    before = tf.config.threading.get_intra_op_parallelism_threads()
    tf.constant(0)
    trainer.divide_threads(2)
    assert tf.config.threading.get_intra_op_parallelism_threads() == before
