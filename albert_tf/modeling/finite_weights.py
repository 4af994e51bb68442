"""Weights that are NaN or infinite are refused when they are loaded, before anything is computed with them."""

from __future__ import annotations

import tensorflow as tf


def check_finite_weights(name: str, values: tf.Tensor | tf.Variable, path: str) -> None:
    """Raises ValueError, with file and variable, where one of the values is NaN or infinite.

    Args:
      name: of the variable.
      values: of any shape; whole numbers are finite.
      path: of the file, for the error.
    """
    values = tf.convert_to_tensor(values)
    if not values.dtype.is_floating:
        return
    is_finite = tf.math.is_finite(values)
    if not tf.reduce_all(is_finite):
        size = int(tf.size(values))
        count = size - int(tf.math.count_nonzero(is_finite))
        raise ValueError(f"{path} cannot be used: {count:,} of the {size:,} values of {name} are NaN or infinite")
