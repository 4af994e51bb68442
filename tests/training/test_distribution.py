"""Batches reach the replicas of each strategy in their order."""

import pytest
import tensorflow as tf

from albert_tf.training.strategy import create_strategy, distributed


def batches(context):
    return tf.data.Dataset.range(4).batch(2 // context.num_replicas_in_sync)


def test_one_cpu_reads_the_batches_without_a_copy_to_a_device():
    dataset = distributed(tf.distribute.OneDeviceStrategy("CPU:0"), batches)
    assert [batch.numpy().tolist() for batch in dataset] == [[0, 1], [2, 3]]
    assert isinstance(iter(dataset), tf.data.Iterator) and dataset.element_spec == tf.TensorSpec([None], tf.int64)


def test_other_strategies_distribute_the_batches():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    parts = [strategy.experimental_local_results(batch) for batch in distributed(strategy, batches)]
    assert [[part.numpy().tolist() for part in of_step] for of_step in parts] == [[[0], [1]], [[2], [3]]]


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_functions_of_data_sets_are_not_converted_by_autograph(name):
    def absolute(x):
        return x if x > 0 else -x  # in a graph, only AutoGraph can convert this condition

    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        distributed(create_strategy(name), lambda context: tf.data.Dataset.range(2).map(absolute))
