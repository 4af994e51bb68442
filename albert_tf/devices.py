"""The one decision that depends on the kind of device: whether XLA compiles whole steps. All packages ask it here.

|                                                        | CPU, GPU              | TPU                       |
|--------------------------------------------------------|-----------------------|---------------------------|
| chains of element-wise operations (modeling/fused.py)  | XLA compiles each one | parts of the step         |
| graphs for batches of several lengths (on_batches)     | one                   | one for each length       |
| steps between two returns to the host (training/run.py)| 1                     | up to iterations_per_loop |
| first program that XLA compiles on the host (flags.py) | at the start          | none                      |
"""

from __future__ import annotations

import tensorflow as tf


def compiles_whole_steps(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Whether XLA compiles each whole step, for static shapes, because of the kind of device: on a TPU.

    Args:
      strategy: the distribution strategy; None for the strategy of the caller's scope or replica.
    """
    return isinstance(strategy or tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
