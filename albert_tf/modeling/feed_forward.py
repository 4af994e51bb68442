"""The feed-forward block of a layer: two dense layers, residual, LayerNorm (release: modeling.py)."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import LayerNorm, ReleaseDense, activation, layer_norm


class FeedForwardWeights(NamedTuple):
    """The weights of a block in the compute dtype, made once per step for all layers that share it."""

    intermediate_kernel: tf.Tensor  # [H, intermediate_size]
    intermediate_bias: tf.Tensor  # [intermediate_size]
    output_kernel: tf.Tensor  # [intermediate_size, H]
    output_bias: tf.Tensor  # [H]
    gamma: tf.Tensor  # [H]
    beta: tf.Tensor  # [H]


class FeedForwardBlock(keras.layers.Layer):
    """LayerNorm(x + dropout(dense(act(dense(x))))) for tokens [batch * seq, H].

    Args:
      config: the model's config.
      scope: the block's variable scope in the release, ".../group_0/inner_group_0".
    """

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(autocast=False)
        self.config = config
        size, wide, stddev = config.hidden_size, config.intermediate_size, config.initializer_range
        self.intermediate = ReleaseDense(f"{scope}/ffn_1/intermediate/dense", size, wide, stddev)
        self.output_dense = ReleaseDense(f"{scope}/ffn_1/intermediate/output/dense", wide, size, stddev)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm_1", size)
        self.built = True

    def weights_for_step(self) -> FeedForwardWeights:
        """The block's weights in the compute dtype."""
        return FeedForwardWeights(*self.intermediate.weights_for_step(), *self.output_dense.weights_for_step(),
                                  *self.layer_norm.weights_for_step())

    def call(self, x, weights: FeedForwardWeights, dropouts):
        """x: [batch * seq, H]. Returns the same shape."""
        act = activation(self.config.hidden_act, dropouts.training)
        wide = act(tf.nn.bias_add(tf.matmul(x, weights.intermediate_kernel), weights.intermediate_bias))
        narrow = tf.nn.bias_add(tf.matmul(wide, weights.output_kernel), weights.output_bias)
        return layer_norm(narrow, x, weights.gamma, weights.beta, dropouts.training,
                          dropouts.site(self.config.hidden_dropout_prob))
