"""Compiles chains of element-wise ops so that they pass over memory once.

On a CPU the chains of ops between the matrix products (gelu, LayerNorm, softmax) take more time than the products if
each op runs on its own. Here XLA compiles such a chain to one loop. Another loop computes the gradient; it recomputes
intermediate values, so that none of them are kept in memory.

Where XLA compiles whole steps on a GPU (--jit_compile), it would fuse parts of a chain with the ops around it, find
that the gradient recomputes values of the forward pass, and keep those in memory instead, in float32. So a chain is
separate from the ops around it there too: its inputs and outputs are tensors in memory, in their own data type. On a
TPU, whose compiler needs no help, there are no chains, and tracing a step takes less time.
"""

from __future__ import annotations

from typing import Callable

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from albert_tf import devices
from albert_tf.utils import imports


def compiled(chain: Callable, is_separate: bool = True) -> Callable:
    """Compiles a chain of ops with XLA; on a TPU, the chain is a part of the step that XLA compiles.

    Each shape is compiled once. So this is for training, which has few shapes, and not for serving.

    Args:
      chain: a function of tensors that consists of TensorFlow ops.
      is_separate: whether the chain's inputs and outputs are kept in memory where XLA compiles the whole step.
    """

    @tf.function(jit_compile=True, autograph=False)
    def function(*inputs):
        return optimization_barrier(chain(*optimization_barrier(inputs))) if is_separate else chain(*inputs)

    def computed(*inputs):
        if devices.is_tpu():
            return chain(*inputs)
        imports.start_xla()
        return function(*inputs)

    return computed


def fused(chain: Callable, is_separate: bool = True) -> Callable:
    """Compiles a chain of ops and its gradient as `compiled` does.

    Args:
      chain: a function of tensors that returns a tensor and consists of TensorFlow ops. Integer tensors have no
        gradient.
      is_separate: see `compiled`.
    """

    def gradient(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch([tensor for tensor in inputs if tensor.dtype.is_floating])
            output = chain(*inputs)
        return tape.gradient(output, inputs, upstream)

    forward, backward = compiled(chain, is_separate), compiled(gradient, is_separate)

    @tf.custom_gradient
    def with_gradient(*inputs):
        return forward(*inputs), lambda upstream: backward(inputs, upstream)

    return lambda *inputs: (chain if devices.is_tpu() else with_gradient)(*inputs)


def optimization_barrier(values):
    """The same tensors, which XLA does not compute together with the ops that use them, except on a TPU.

    None stays None.
    """
    if devices.is_tpu():
        return values
    flat = tf.nest.flatten(values)
    tensors = iter(_barrier([value for value in flat if value is not None]))
    return tf.nest.pack_sequence_as(values, [None if value is None else next(tensors) for value in flat])


@tf.custom_gradient
def _barrier(tensors):
    return gen_xla_ops.xla_optimization_barrier(tensors), lambda *upstream: upstream
