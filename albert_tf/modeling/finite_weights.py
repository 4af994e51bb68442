"""Checks that loaded weights are finite."""

from __future__ import annotations

import tensorflow as tf


def check_finite_weights(name: str, values: tf.Tensor | tf.Variable, path: str) -> None:
    """Raises a ValueError that names file and variable if a value is NaN or infinite.

    Args:
      name: name of the variable.
      values: the variable's value, any shape. Integers are always accepted.
      path: path of the file, for the error message.
    """
    values = tf.convert_to_tensor(values)
    if not values.dtype.is_floating:
        return
    is_finite = tf.math.is_finite(values)
    if not tf.reduce_all(is_finite):
        size = int(tf.size(values))
        count = size - int(tf.math.count_nonzero(is_finite))
        raise ValueError(f"{path} cannot be used: {count:,} of the {size:,} values of {name} are NaN or infinite")
