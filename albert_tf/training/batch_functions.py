"""Compiles a function of a batch for batches of several lengths."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import tensorflow as tf

from albert_tf import devices


def on_batches(
    function: Callable[[Any], Any], strategy: tf.distribute.Strategy, jit_compile: bool = False
) -> Callable[[Iterator], Any]:
    """Compiles a function of a batch into a function of an iterator, which takes the iterator's next batch.

    One graph serves all lengths: for 6 layers of hidden size 256, a new length costs one second of a CPU core, where a
    graph of its own costs three. TPU and XLA need static shapes, so there each length has its own graph.

    Args:
      function: its control flow must not depend on tensors.
      strategy: the strategy that distributes the batches.
      jit_compile: whether the function compiles something with XLA for each shape of a batch.
    """
    # AutoGraph would read source files again for each graph, and so fail or differ if they were edited meanwhile.
    if jit_compile or devices.compiles_whole_steps(strategy):
        of_shape = tf.function(function, autograph=False)
        return lambda iterator: of_shape(next(iterator))
    return tf.function(lambda iterator: function(next(iterator)), autograph=False)
