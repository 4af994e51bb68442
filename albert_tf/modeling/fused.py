"""Element-wise chains as one pass over memory.

On a CPU the chains between the matrix products (gelu, LayerNorm, softmax) cost more than the products when every link
is an op of its own. Here XLA compiles such a chain to one loop, and another for its gradient, which recomputes the
links and so keeps none of them in memory.
"""

from __future__ import annotations

from typing import Callable

import tensorflow as tf


def fused(chain: Callable) -> Callable:
    """The chain, compiled by XLA, with a gradient that is compiled too.

    Args:
      chain: a function of tensors that gives a tensor, by TensorFlow ops alone. Tensors of whole numbers have no
        gradient. Each shape is compiled once, so this is for training, where there are few, and not for serving.
    """
    forward = tf.function(chain, jit_compile=True)

    @tf.function(jit_compile=True)
    def backward(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch([tensor for tensor in inputs if tensor.dtype.is_floating])
            output = chain(*inputs)
        return tape.gradient(output, inputs, upstream)

    @tf.custom_gradient
    def call(*inputs):
        return forward(*inputs), lambda upstream: backward(inputs, upstream)

    return call
