"""Compiles chains of element-wise ops so that they pass over memory once.

On a CPU the chains of ops between the matrix products (gelu, LayerNorm, softmax) take more time than the products if
each op runs on its own. Here XLA compiles such a chain to one loop. Another loop computes the gradient; it recomputes
intermediate values, so that none of them are kept in memory.

Where XLA compiles whole steps, chains make no difference: it fuses their ops anyway, and sees that a recomputed value
is equal to the first one. Its programs for a GPU and a TPU are the same with and without chains
(benchmarks/xla_cost.py). So on a TPU there are none, and tracing a step takes less time.
"""

from __future__ import annotations

from typing import Callable

import tensorflow as tf

from albert_tf import devices
from albert_tf.utils import imports


def compiled(chain: Callable) -> Callable:
    """Compiles a chain of ops with XLA; on a TPU, the chain is a part of the step that XLA compiles.

    Each shape is compiled once. So this is for training, which has few shapes, and not for serving.

    Args:
      chain: a function of tensors that consists of TensorFlow ops.
    """
    function = tf.function(chain, jit_compile=True, autograph=False)

    def computed(*inputs):
        if devices.is_tpu():
            return chain(*inputs)
        imports.start_xla()
        return function(*inputs)

    return computed


def fused(chain: Callable) -> Callable:
    """Compiles a chain of ops and its gradient as `compiled` does.

    Args:
      chain: a function of tensors that returns a tensor and consists of TensorFlow ops. Integer tensors have no
        gradient.
    """
    forward = compiled(chain)

    @compiled
    def backward(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch([tensor for tensor in inputs if tensor.dtype.is_floating])
            output = chain(*inputs)
        return tape.gradient(output, inputs, upstream)

    @tf.custom_gradient
    def with_gradient(*inputs):
        return forward(*inputs), lambda upstream: backward(inputs, upstream)

    return lambda *inputs: (chain if devices.is_tpu() else with_gradient)(*inputs)
