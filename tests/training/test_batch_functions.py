"""Functions of batches of several lengths: how many graphs they have."""

import pytest
import tensorflow as tf

from albert_tf.training.trainer import on_batches


def batches_of(*lengths):
    """Batches of ones, [2, length], whose length is not static."""
    return tf.data.Dataset.from_tensor_slices(list(lengths)).map(lambda length: tf.ones([2, length]))


@pytest.mark.both_stacks
@pytest.mark.parametrize("jit_compile, tpu, shapes", [
    (False, False, [[2, None]]), (True, False, [[2, 3], [2, 5], [2, 4]]), (False, True, [[2, 3], [2, 5], [2, 4]])])
def test_one_graph_serves_all_lengths_unless_xla_needs_static_shapes(jit_compile, tpu, shapes, monkeypatch):
    strategy, traced = tf.distribute.OneDeviceStrategy("CPU:0"), []
    if tpu:
        monkeypatch.setattr(tf.distribute, "TPUStrategy", type(strategy))

    def total(batch):
        traced.append(batch.shape.as_list())
        return tf.reduce_sum(batch)

    function = on_batches(total, strategy, jit_compile)
    for _ in range(2):
        iterator = iter(strategy.experimental_distribute_dataset(batches_of(3, 5, 4, 3)))
        assert [float(function(iterator)) for _ in range(4)] == [6, 10, 8, 6]
    assert traced == shapes
