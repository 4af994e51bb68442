"""Turns off the autotuning of tf.data, whose thread delays the end of an iterator."""

from __future__ import annotations

import tensorflow as tf


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The data set without autotuning: tf.data.AUTOTUNE is then one parallel call per core, at most 16.

    The thread of autotuning sleeps for up to a minute at a time, and the end of an iterator can wait for it. So
    trainings and evaluations ended up to a minute late.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
