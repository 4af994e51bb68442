"""How far each layer moves its input: the L2 distances and angles of Lan et al. (2020), figure 1."""

from __future__ import annotations

import math

import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel


def layer_distances(model: AlbertModel, inputs: dict) -> dict[str, tf.Tensor]:
    """The distance and the angle between the input and the output of each layer, means over the tokens of each text.

    Args:
      model: the encoder.
      inputs: input_ids, input_mask and segment_ids, int32 [batch, seq]; padding is left out of the means.

    Returns:
      distances, L2, and angles, in degrees: float32 [batch, layers]. A layer of several inner groups counts as several.

    Example:
      encoder = albert_tf.from_pretrained("albert_base_v2")
      layer_distances(encoder, tokenizer(["A text."]))["distances"]
    """
    outputs = model(inputs)
    mapping, first = model.encoder.embedding_hidden_mapping_in, outputs["embedding_output"]
    states = [first if mapping is None else mapping(first), *outputs["encoder_outputs"]]
    states = [tf.cast(state, tf.float32) for state in states]  # [batch, seq, H] each
    weights = tf.cast(inputs["input_mask"], tf.float32)  # [batch, seq]
    weights /= tf.reduce_sum(weights, axis=1, keepdims=True)
    pairs = list(zip(states, states[1:]))
    return {name: tf.stack([tf.reduce_sum(measure(a, b) * weights, axis=1) for a, b in pairs], axis=1)
            for name, measure in (("distances", _distance), ("angles", _angle))}


def _distance(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.norm(b - a, axis=-1)


def _angle(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Degrees. By the half angle's tangent: an arc cosine is inexact near 0."""
    a, b = tf.math.l2_normalize(a, axis=-1), tf.math.l2_normalize(b, axis=-1)
    return 2 * tf.atan2(tf.norm(a - b, axis=-1), tf.norm(a + b, axis=-1)) * (180 / math.pi)
