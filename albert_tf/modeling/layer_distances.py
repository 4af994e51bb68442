"""Distances and angles between the input and the output of each layer (Lan et al., 2020, figure 1)."""

from __future__ import annotations

import math

import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.layer_states import hidden_states


def layer_distances(model: AlbertModel, inputs: dict) -> dict[str, tf.Tensor]:
    """The L2 distance and the angle between the input and the output of each layer, averaged over a text's tokens.

    Args:
      model: the encoder.
      inputs: input_ids, input_mask and segment_ids, int32 [batch, seq]. Padding does not count in the means.

    Returns:
      distances, and angles in degrees: float32 [batch, layers] each. Each inner group counts as a layer.

    Raises:
      ValueError: see hidden_states.

    Example::

      encoder = albert_tf.from_pretrained("albert_base_v2")
      layer_distances(encoder, tokenizer(["A text."]))["distances"]
    """
    states = [tf.cast(state, tf.float32) for state in hidden_states(model, model(inputs))]  # [batch, seq, H] each
    weights = tf.cast(inputs["input_mask"], tf.float32)  # [batch, seq]
    weights /= tf.reduce_sum(weights, axis=1, keepdims=True)
    pairs = list(zip(states, states[1:]))
    return {name: tf.stack([tf.reduce_sum(measure(a, b) * weights, axis=1) for a, b in pairs], axis=1)
            for name, measure in (("distances", _distance), ("angles", _angle))}


def _distance(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.norm(b - a, axis=-1)


def _angle(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """The angle in degrees, from the tangent of half the angle, since the arc cosine is inexact near 0."""
    a, b = tf.math.l2_normalize(a, axis=-1), tf.math.l2_normalize(b, axis=-1)
    return 2 * tf.atan2(tf.norm(a - b, axis=-1), tf.norm(a + b, axis=-1)) * (180 / math.pi)
