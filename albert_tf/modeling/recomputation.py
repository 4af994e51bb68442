"""Gradient checkpointing: a layer's activations are not kept but recomputed for its gradient (Chen et al., 2016).

Sharing makes the weights small, but not the activations, which take most of the memory in training. tf.recompute_grad
would do for a single layer. But it copies the weights for each layer, and it keeps one gradient of the shared weights
per layer until all of them are computed. For albert_xxlarge these take more memory than the activations.
"""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf


def recomputed(layer: Callable[[tf.Tensor, Any], tf.Tensor]) -> Callable:
    """Wraps a layer so that only its input and weights are kept for its gradient.

    Args:
      layer: a deterministic function of a tensor x and a structure of weight tensors. It must not use variables.

    Returns:
      a function of x and weights. It returns the layer's output, and the weights to pass to the next layer: in the
      backward pass, the gradients of all layers are then added one after the other instead of being kept.
    """

    def call(x: tf.Tensor, weights):
        @tf.custom_gradient
        def output_and_weights(x, *flat):
            def backward(upstream, *of_later_layers):
                again = _dependent_on(upstream, x)
                with tf.GradientTape() as tape:
                    tape.watch((again, flat))
                    output = layer(again, tf.nest.pack_sequence_as(weights, flat))
                of_input, *of_weights = tape.gradient(output, (again, *flat), upstream)
                return of_input, *(later + own for later, own in zip(of_later_layers, of_weights))

            # Without stop_gradient, an eager tape would keep the activations that are computed from watched tensors.
            kept = tf.nest.pack_sequence_as(weights, [tf.stop_gradient(tensor) for tensor in flat])
            return (layer(tf.stop_gradient(x), kept), *flat), backward

        output, *flat = output_and_weights(x, *tf.nest.flatten(weights))
        return output, tf.nest.pack_sequence_as(weights, flat)

    return call


def _dependent_on(upstream: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """x, with an artificial dependency on `upstream`.

    Without it, XLA and Grappler would see that the recomputation equals the forward pass, and would keep that instead.
    """
    first = tf.reshape(upstream, [-1])[0]
    return x + tf.where(tf.math.is_nan(first), first, tf.zeros_like(first))
