"""Threads and data types of what several benchmarks run in their own process."""

from __future__ import annotations

import tensorflow as tf

from albert_tf import keras

POLICIES = dict(float32="float32", bfloat16="mixed_bfloat16")


def set_precision(name: str) -> None:
    """Sets Keras' global policy by a name of POLICIES, which are those that benchmarks and their workers take."""
    keras.mixed_precision.set_global_policy(POLICIES[name])


def use_one_thread() -> None:
    """Makes TensorFlow compute on one thread. It must not have computed anything before."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
