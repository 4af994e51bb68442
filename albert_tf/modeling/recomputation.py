"""Gradient checkpointing: what a layer computes is forgotten, and computed again for its gradient (Chen et al., 2016).

Sharing weights makes the model small and its activations no smaller: they are what fills the memory in training.
tf.recompute_grad would do for one layer. But it copies the weights for each layer, and of weights that all layers share
it leaves one gradient per layer in memory until the last one is there: for albert_xxlarge more than the activations.
"""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf


def recomputed(layer: Callable[[tf.Tensor, Any], tf.Tensor]) -> Callable:
    """The layer, with a gradient for which only its input and weights are kept.

    Args:
      layer: a function of x and of a structure of weights, tensors all, that computes the same each time that it is
        called, and uses no variable.

    Returns:
      a function of x and weights that gives the layer's output, and the weights to be used from here on in their place:
      the gradients of all that use them are then added up one after the other, on the way back.
    """

    def call(x: tf.Tensor, weights):
        @tf.custom_gradient
        def output_and_weights(x, *flat):
            def backward(upstream, *of_later_layers):
                again = _not_before(upstream, x)
                with tf.GradientTape() as tape:
                    tape.watch((again, flat))
                    output = layer(again, tf.nest.pack_sequence_as(weights, flat))
                of_input, *of_weights = tape.gradient(output, (again, *flat), upstream)
                return of_input, *(later + own for later, own in zip(of_later_layers, of_weights))

            # A tape that is recording eagerly would keep what the layer computes from watched tensors.
            kept = tf.nest.pack_sequence_as(weights, [tf.stop_gradient(tensor) for tensor in flat])
            return (layer(tf.stop_gradient(x), kept), *flat), backward

        output, *flat = output_and_weights(x, *tf.nest.flatten(weights))
        return output, tf.nest.pack_sequence_as(weights, flat)

    return call


def _not_before(upstream: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """x, as a value that cannot be had before `upstream`.

    Else what is computed from it is the same as in the forward pass to XLA and Grappler, who would keep that instead.
    """
    first = tf.reshape(upstream, [-1])[0]
    return x + tf.where(tf.math.is_nan(first), first, tf.zeros_like(first))
