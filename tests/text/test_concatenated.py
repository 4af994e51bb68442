"""Arrays of batches, joined by name."""

import numpy as np
import tensorflow as tf

from albert_tf.text.packing import concatenated


def test_batches_of_arrays_and_tensors_are_joined_by_name():
    empty = dict(logits=np.zeros([0, 2], np.float32))
    joined = concatenated([empty, dict(logits=tf.constant([[1.0, 2.0]]), layers=tf.constant([3])),
                           dict(logits=np.array([[3, 4], [5, 6]], np.float32), layers=np.array([1, 2], np.int32))])
    np.testing.assert_array_equal(joined["logits"], [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(joined["layers"], [3, 1, 2])
    assert {name: values.dtype for name, values in joined.items()} == dict(logits=np.float32, layers=np.int32)
    assert concatenated([empty])["logits"].shape == (0, 2) and concatenated([]) == {}
