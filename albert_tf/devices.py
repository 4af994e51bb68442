"""The one decision that depends on the kind of device: whether XLA compiles whole steps. All packages ask it here.

On a TPU it does, and on a CPU or a GPU it does not. So:

- chains of element-wise operations (modeling/fused.py) are parts of the step; otherwise XLA compiles each one
- batches of several lengths have a graph for each length (training/batch_functions.py); otherwise one for all
- up to iterations_per_loop steps are between two returns to the host (training/run.py); otherwise one
- no program is compiled for the host at the start (flags.py); otherwise one is
"""

from __future__ import annotations

import tensorflow as tf


def compiles_whole_steps(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Whether XLA compiles each whole step, for static shapes, because of the kind of device: on a TPU.

    Args:
      strategy: the distribution strategy; None for the strategy of the caller's scope or replica.
    """
    return isinstance(strategy or tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
