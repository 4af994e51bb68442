"""Distributes batches over the replicas of a strategy."""

from __future__ import annotations

from typing import Callable, Iterator

import tensorflow as tf

from albert_tf import devices


def distributed(
    strategy: tf.distribute.Strategy, batches: Callable[[tf.distribute.InputContext], tf.data.Dataset]
) -> tf.distribute.DistributedDataset:
    """The batches of a strategy's replicas.

    Args:
      strategy: the distribution strategy.
      batches: function that returns the batches of a process. AutoGraph does not convert the functions that it gives to
        tf.data: it would read their source again, which may have been edited since the process started.
    """
    batches = tf.autograph.experimental.do_not_convert(batches)
    if isinstance(strategy, tf.distribute.OneDeviceStrategy) and devices.is_cpu_alone():
        return _HostDataset(batches(tf.distribute.InputContext()))
    return strategy.distribute_datasets_from_function(batches)


class _HostDataset(tf.distribute.DistributedDataset):
    """A data set that is read where it is made.

    TensorFlow's own distributed data sets add one that copies batches to a device. It has autotuning, which cannot be
    turned off (see data/autotuning.py).
    """

    def __init__(self, dataset: tf.data.Dataset):
        self._dataset = dataset

    def __iter__(self) -> Iterator:
        return iter(self._dataset)

    @property
    def element_spec(self):
        """The types and shapes of a batch."""
        return self._dataset.element_spec
