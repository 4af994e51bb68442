"""The two blocks of a layer: multi-head self-attention and feed-forward, each with residual and LayerNorm."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling import cudnn_attention
from albert_tf.modeling.dropout import dropped
from albert_tf.modeling.fused import compiled
from albert_tf.modeling.layers import LayerNorm, ReleaseDense, activation, add_bias, layer_norm


class AttentionWeights(NamedTuple):
    """The weights of a block, made once per step for all layers that share it; query, key and value concatenated."""

    qkv_kernel: tf.Tensor  # [H, 3 H]
    qkv_bias: tf.Tensor  # [3 H]
    output_kernel: tf.Tensor  # [H, H]
    output_bias: tf.Tensor  # [H]
    gamma: tf.Tensor  # [H]
    beta: tf.Tensor  # [H]


class AttentionBlock(keras.layers.Layer):
    """LayerNorm(x + dropout(dense(attention(x)))). `scope` is the release's, ".../group_0/inner_group_0"."""

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(autocast=False)
        self.config = config
        size, stddev = config.hidden_size, config.initializer_range
        self.query = ReleaseDense(f"{scope}/attention_1/self/query", size, size, stddev)
        self.key = ReleaseDense(f"{scope}/attention_1/self/key", size, size, stddev)
        self.value = ReleaseDense(f"{scope}/attention_1/self/value", size, size, stddev)
        self.output_dense = ReleaseDense(f"{scope}/attention_1/output/dense", size, size, stddev)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", size)
        self.built = True

    def weights_for_step(self, layer: int = 0) -> AttentionWeights:
        """The block's weights in the compute dtype. Adapters can give each layer weights of its own.

        Query, key and value are separate variables, since LAMB has one trust ratio per variable, and are concatenated
        here. The query is multiplied by 1 / sqrt(head size), which is cheaper than multiplying the scores.
        """
        scale = (self.config.hidden_size // self.config.num_attention_heads) ** -0.5
        query, key, value = (dense.adapted_kernel(layer) for dense in (self.query, self.key, self.value))
        kernel = tf.concat([query * scale, key, value], axis=1)
        bias = tf.concat([self.query.bias * scale, self.key.bias, self.value.bias], axis=0)
        return AttentionWeights(tf.cast(kernel, self.compute_dtype), tf.cast(bias, self.compute_dtype),
                                *self.output_dense.weights_for_step(layer), *self.layer_norm.weights_for_step())

    def queries_keys_values(self, x, weights: AttentionWeights) -> tf.Tensor:
        """The queries, keys and values of x [tokens, H] side by side, [tokens, 3 H]. The queries are scaled."""
        return add_bias(tf.matmul(x, weights.qkv_kernel), weights.qkv_bias)

    def call(self, x, additive_mask, weights: AttentionWeights, dropouts):
        """x: [batch * seq, H]; additive_mask: float32 [batch, 1, 1, seq]. Returns the shape of x."""
        heads = self.config.num_attention_heads
        batch, seq = tf.shape(additive_mask)[0], additive_mask.shape[-1] or tf.shape(additive_mask)[-1]
        qkv = tf.reshape(self.queries_keys_values(x, weights),
                         [batch, seq, 3, heads, self.config.hidden_size // heads])
        query, key, value = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))  # [batch, heads, seq, head_size]
        dropout = dropouts.next_mask(self.config.attention_probs_dropout_prob)
        if cudnn_attention.can_compute(query, *dropout):
            context = cudnn_attention.attention(query, key, value, additive_mask)
        else:
            context = (attention_in_training if dropouts.training else attention)(
                query, key, value, additive_mask, *dropout)
        context = tf.transpose(context, [0, 2, 1, 3])  # [batch, seq, heads, head_size]
        context = tf.reshape(context, [-1, self.config.hidden_size])
        attended = add_bias(tf.matmul(context, weights.output_kernel), weights.output_bias)
        return layer_norm(attended, x, weights.gamma, weights.beta, dropouts.training,
                          dropouts.next_mask(self.config.hidden_dropout_prob))


class FeedForwardWeights(NamedTuple):
    """The weights of a block in the compute dtype, made once per step for all layers that share it."""

    intermediate_kernel: tf.Tensor  # [H, intermediate_size]
    intermediate_bias: tf.Tensor  # [intermediate_size]
    output_kernel: tf.Tensor  # [intermediate_size, H]
    output_bias: tf.Tensor  # [H]
    gamma: tf.Tensor  # [H]
    beta: tf.Tensor  # [H]


class FeedForwardBlock(keras.layers.Layer):
    """LayerNorm(x + dropout(dense(act(dense(x))))). `scope` is the release's, ".../group_0/inner_group_0"."""

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__(autocast=False)
        self.config = config
        size, wide, stddev = config.hidden_size, config.intermediate_size, config.initializer_range
        self.intermediate = ReleaseDense(f"{scope}/ffn_1/intermediate/dense", size, wide, stddev)
        self.output_dense = ReleaseDense(f"{scope}/ffn_1/intermediate/output/dense", wide, size, stddev)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm_1", size)
        self.built = True

    def weights_for_step(self, layer: int = 0) -> FeedForwardWeights:
        """The block's weights in the compute dtype. Adapters can give each layer weights of its own."""
        return FeedForwardWeights(*self.intermediate.weights_for_step(layer),
                                  *self.output_dense.weights_for_step(layer), *self.layer_norm.weights_for_step())

    def call(self, x, weights: FeedForwardWeights, dropouts):
        """x: [batch * seq, H]. Returns the same shape."""
        act = activation(self.config.hidden_act, dropouts.training)
        wide = act(add_bias(tf.matmul(x, weights.intermediate_kernel), weights.intermediate_bias))
        narrow = add_bias(tf.matmul(wide, weights.output_kernel), weights.output_bias)
        return layer_norm(narrow, x, weights.gamma, weights.beta, dropouts.training,
                          dropouts.next_mask(self.config.hidden_dropout_prob))


def attention(query, key, value, additive_mask, *dropout):
    """The mean of the values, weighted by the softmax of the products of query and keys.

    Args:
      query, key, value: [batch, heads, seq, head_size]. The query includes the factor 1 / sqrt(head_size).
      additive_mask: float32 [batch, 1, 1, seq].
      dropout: of the softmax, the result of Dropouts.next_mask; () for no dropout.
    """
    scores = tf.matmul(query, key, transpose_b=True)  # [batch, heads, seq, seq]
    probabilities = tf.nn.softmax(tf.cast(scores, tf.float32) + additive_mask)
    return tf.matmul(tf.cast(dropped(probabilities, *dropout), scores.dtype), value)


@tf.custom_gradient
def attention_in_training(query, key, value, additive_mask, *dropout):
    """attention, with the gradient of FlashAttention-2 (Dao, 2023), which needs no dropout mask and no sums of scores.

    Let p be the softmax, y = dropout(p), and u the gradient of y. The gradient of the scores is y u - p sum(y u), since
    y is p times its dropout factor. The sum over the keys is the product of the context y V and its upstream gradient,
    since u is that times V. p is computed from the scores and the logarithm of the softmax's denominator, which the
    forward pass keeps; without dropout it is y.
    """
    scores = tf.matmul(query, key, transpose_b=True)  # [batch, heads, seq, seq]
    probabilities, log_sums = _softmax_and_log_sums(scores, additive_mask, *dropout)
    context = tf.matmul(probabilities, value)
    before_dropout = (scores, additive_mask, log_sums) if dropout else ()

    def gradient(upstream):
        of_probabilities = tf.matmul(upstream, value, transpose_b=True)
        of_scores = _gradient_of_scores(probabilities, of_probabilities, context, upstream, *before_dropout)
        return (tf.matmul(of_scores, key), tf.matmul(of_scores, query, transpose_a=True),
                tf.matmul(probabilities, upstream, transpose_a=True), *[None] * (1 + len(dropout)))

    return context, gradient


@compiled
def _softmax_and_log_sums(scores, additive_mask, *dropout):
    masked = tf.cast(scores, tf.float32) + additive_mask
    largest = tf.reduce_max(masked, axis=-1, keepdims=True)
    exponentials = tf.exp(masked - largest)
    sums = tf.reduce_sum(exponentials, axis=-1, keepdims=True)
    log_sums = largest + tf.math.log(sums) if dropout else None
    return tf.cast(dropped(exponentials * (1.0 / sums), *dropout), scores.dtype), log_sums


@compiled
def _gradient_of_scores(probabilities, of_probabilities, context, of_context, *before_dropout):
    dtype = probabilities.dtype
    probabilities, of_probabilities, context, of_context = (
        tf.cast(tensor, tf.float32) for tensor in (probabilities, of_probabilities, context, of_context))
    sums = tf.reduce_sum(context * of_context, axis=-1, keepdims=True)  # [batch, heads, seq, 1]
    if not before_dropout:
        return tf.cast(probabilities * (of_probabilities - sums), dtype)
    scores, additive_mask, log_sums = before_dropout
    softmax = tf.exp(tf.cast(scores, tf.float32) + additive_mask - log_sums)
    return tf.cast(probabilities * of_probabilities - softmax * sums, dtype)
