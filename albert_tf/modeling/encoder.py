"""The encoder: attention and feed-forward blocks, and layers that share them (Lan et al., 2020, section 3.1).

Layers choose their blocks from two lists. Gradient checkpointing: a layer's activations are not kept but recomputed for
its gradient (Chen et al., 2016). tf.recompute_grad would copy the shared weights for each layer, and keep one gradient
of them per layer: for albert_xxlarge these take more memory than the activations.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, NamedTuple, TypeVar

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.layers import LayerList, LayerNorm, ReleaseDense, ReleaseLayer, activation, add_bias, layer_norm
from albert_tf.modeling.operations import Dropouts, compiled, cudnn_attention, dropped, has_cudnn_kernel

Weights = TypeVar("Weights")  # a tuple of tensors, or of such tuples


class AttentionWeights(NamedTuple):
    """The weights of a block, made once per step for all layers that share it; query, key and value concatenated."""

    qkv_kernel: tf.Tensor  # [H, 3 H]
    qkv_bias: tf.Tensor  # [3 H]
    output_kernel: tf.Tensor  # [H, H]
    output_bias: tf.Tensor  # [H]
    gamma: tf.Tensor  # [H]
    beta: tf.Tensor  # [H]


class AttentionBlock(ReleaseLayer):
    """LayerNorm(x + dropout(dense(attention(x)))). `scope` is the release's, ".../group_0/inner_group_0"."""

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__()
        self.config = config
        size, stddev = config.hidden_size, config.initializer_range
        self.query = ReleaseDense(f"{scope}/attention_1/self/query", size, size, stddev)
        self.key = ReleaseDense(f"{scope}/attention_1/self/key", size, size, stddev)
        self.value = ReleaseDense(f"{scope}/attention_1/self/value", size, size, stddev)
        self.output_dense = ReleaseDense(f"{scope}/attention_1/output/dense", size, size, stddev)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", size, config.layer_norm_eps)
        self.built = True

    def weights_for_step(self) -> AttentionWeights:
        """The block's weights in the compute dtype.

        Query, key and value are separate variables, since LAMB has one trust ratio per variable, and are concatenated
        here. The query is multiplied by 1 / sqrt(head size), which is cheaper than multiplying the scores.
        """
        scale = (self.config.hidden_size // self.config.num_attention_heads) ** -0.5
        kernel = tf.concat([self.query.kernel * scale, self.key.kernel, self.value.kernel], axis=1)
        bias = tf.concat([self.query.bias * scale, self.key.bias, self.value.bias], axis=0)
        return AttentionWeights(tf.cast(kernel, self.compute_dtype), tf.cast(bias, self.compute_dtype),
                                *self.output_dense.weights_for_step(), *self.layer_norm.weights_for_step())

    def call(self, x: tf.Tensor, additive_mask: tf.Tensor, weights: AttentionWeights, dropouts: Dropouts) -> tf.Tensor:
        """x: [batch * seq, H]; additive_mask: see masked_scores. Returns the shape of x."""
        heads = self.config.num_attention_heads
        batch, seq = tf.shape(additive_mask)[0], additive_mask.shape[-1] or tf.shape(additive_mask)[-1]
        qkv = add_bias(tf.matmul(x, weights.qkv_kernel), weights.qkv_bias)  # [batch * seq, 3 H]
        qkv = tf.reshape(qkv, [batch, seq, 3, heads, self.config.hidden_size // heads])
        query, key, value = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))  # [batch, heads, seq, head_size]
        dropout = dropouts.next_mask(self.config.attention_probs_dropout_prob)
        if has_cudnn_kernel(query, additive_mask, *dropout):
            context = cudnn_attention(query, key, value, additive_mask)
        else:
            context = (attention_in_training if dropouts.training else attention)(
                query, key, value, additive_mask, *dropout)
        context = tf.transpose(context, [0, 2, 1, 3])  # [batch, seq, heads, head_size]
        context = tf.reshape(context, [-1, self.config.hidden_size])
        attended = add_bias(tf.matmul(context, weights.output_kernel), weights.output_bias)
        return layer_norm(attended, x, weights.gamma, weights.beta, self.config.layer_norm_eps, dropouts.training,
                          dropouts.next_mask(self.config.hidden_dropout_prob))


class FeedForwardWeights(NamedTuple):
    """The weights of a block in the compute dtype, made once per step for all layers that share it."""

    intermediate_kernel: tf.Tensor  # [H, intermediate_size]
    intermediate_bias: tf.Tensor  # [intermediate_size]
    output_kernel: tf.Tensor  # [intermediate_size, H]
    output_bias: tf.Tensor  # [H]
    gamma: tf.Tensor  # [H]
    beta: tf.Tensor  # [H]


class FeedForwardBlock(ReleaseLayer):
    """LayerNorm(x + dropout(dense(act(dense(x))))). `scope` is the release's, ".../group_0/inner_group_0"."""

    def __init__(self, config: AlbertConfig, scope: str):
        super().__init__()
        self.config = config
        size, wide, stddev = config.hidden_size, config.intermediate_size, config.initializer_range
        self.intermediate = ReleaseDense(f"{scope}/ffn_1/intermediate/dense", size, wide, stddev)
        self.output_dense = ReleaseDense(f"{scope}/ffn_1/intermediate/output/dense", wide, size, stddev)
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm_1", size, config.layer_norm_eps)
        self.built = True

    def weights_for_step(self) -> FeedForwardWeights:
        """The block's weights in the compute dtype."""
        return FeedForwardWeights(*self.intermediate.weights_for_step(),
                                  *self.output_dense.weights_for_step(), *self.layer_norm.weights_for_step())

    def call(self, x: tf.Tensor, weights: FeedForwardWeights, dropouts: Dropouts) -> tf.Tensor:
        """x: [batch * seq, H]. Returns the same shape."""
        act = activation(self.config.hidden_act, dropouts.training)
        wide = act(add_bias(tf.matmul(x, weights.intermediate_kernel), weights.intermediate_bias))
        narrow = add_bias(tf.matmul(wide, weights.output_kernel), weights.output_bias)
        return layer_norm(narrow, x, weights.gamma, weights.beta, self.config.layer_norm_eps, dropouts.training,
                          dropouts.next_mask(self.config.hidden_dropout_prob))


def attention(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, additive_mask: tf.Tensor,
              *dropout: tf.Tensor) -> tf.Tensor:
    """The mean of the values, weighted by the softmax of the products of query and keys.

    query, key and value are [batch, heads, seq, head_size]; the query includes the factor 1 / sqrt(head_size).
    additive_mask: see masked_scores. dropout: of the softmax, the result of Dropouts.next_mask.
    """
    scores = tf.matmul(query, key, transpose_b=True)  # [batch, heads, seq, seq]
    probabilities = tf.nn.softmax(tf.cast(scores, tf.float32) + additive_mask)
    return tf.matmul(tf.cast(dropped(probabilities, *dropout), scores.dtype), value)


@tf.custom_gradient
def attention_in_training(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, additive_mask: tf.Tensor,
                          *dropout: tf.Tensor) -> tuple[tf.Tensor, Callable]:
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

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        of_probabilities = tf.matmul(upstream, value, transpose_b=True)
        of_scores = _gradient_of_scores(probabilities, of_probabilities, context, upstream, *before_dropout)
        return (tf.matmul(of_scores, key), tf.matmul(of_scores, query, transpose_a=True),
                tf.matmul(probabilities, upstream, transpose_a=True), *[None] * (1 + len(dropout)))

    return context, gradient


@compiled
def _softmax_and_log_sums(scores: tf.Tensor, additive_mask: tf.Tensor,
                          *dropout: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None]:
    masked = tf.cast(scores, tf.float32) + additive_mask
    largest = tf.reduce_max(masked, axis=-1, keepdims=True)
    exponentials = tf.exp(masked - largest)
    sums = tf.reduce_sum(exponentials, axis=-1, keepdims=True)
    log_sums = largest + tf.math.log(sums) if dropout else None
    return tf.cast(dropped(exponentials * (1.0 / sums), *dropout), scores.dtype), log_sums


@compiled
def _gradient_of_scores(probabilities: tf.Tensor, of_probabilities: tf.Tensor, context: tf.Tensor,
                        of_context: tf.Tensor, *before_dropout: tf.Tensor) -> tf.Tensor:
    dtype = probabilities.dtype
    probabilities, of_probabilities, context, of_context = (
        tf.cast(tensor, tf.float32) for tensor in (probabilities, of_probabilities, context, of_context))
    sums = tf.reduce_sum(context * of_context, axis=-1, keepdims=True)  # [batch, heads, seq, 1]
    if not before_dropout:
        return tf.cast(probabilities * (of_probabilities - sums), dtype)
    scores, additive_mask, log_sums = before_dropout
    softmax = tf.exp(tf.cast(scores, tf.float32) + additive_mask - log_sums)
    return tf.cast(probabilities * of_probabilities - softmax * sums, dtype)


# The release adds this to the attention scores of padding.
MASKED_SCORE = -10000.0
# The release's names of the variables in a block.
_BLOCK = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/(.+)")


class Encoder(ReleaseLayer):
    """The projection from E to H (if they differ), and the layers.

    Layer i uses the blocks with the indices config.attention_blocks[i] and config.ffn_blocks[i]. This is the whole
    mechanism of cross-layer sharing, groups and inner groups.
    """

    def __init__(self, config: AlbertConfig):
        super().__init__()
        self.config = config
        self.embedding_hidden_mapping_in = None
        if config.embedding_size != config.hidden_size:
            self.embedding_hidden_mapping_in = ReleaseDense(
                "bert/encoder/embedding_hidden_mapping_in", config.embedding_size, config.hidden_size,
                config.initializer_range)
        scopes = [block_scope(*divmod(index, config.inner_group_num))
                  for index in range(max(config.num_attention_blocks, config.num_ffn_blocks))]
        self.attention_blocks = LayerList(AttentionBlock(config, each) for each in scopes[:config.num_attention_blocks])
        self.ffn_blocks = LayerList(FeedForwardBlock(config, each) for each in scopes[:config.num_ffn_blocks])
        self.built = True

    def call(self, embedding_output: tf.Tensor, input_mask: tf.Tensor, dropouts: Dropouts, recompute: bool = False,
             text_starts: tf.Tensor | None = None) -> list[tf.Tensor]:
        """The outputs of all layers (and inner groups), [batch, seq, H] each, for embedding_output [batch, seq, E]."""
        if self.embedding_hidden_mapping_in is not None:
            embedding_output = self.embedding_hidden_mapping_in(embedding_output)  # [batch, seq, H]
        shape = tf.shape(embedding_output)
        mask = masked_scores(input_mask, text_starts)
        attention, ffn = self.weights_for_step()

        x = tf.reshape(embedding_output, [-1, self.config.hidden_size])  # [batch * seq, H]
        outputs: list[tf.Tensor] = []
        for a, f in self.blocks_in_order():
            layer = self.layer(a, f, mask, dropouts, len(outputs))
            if recompute:
                x, (attention[a], ffn[f]) = recomputed(layer)(x, (attention[a], ffn[f]))
            else:
                x = layer(x, (attention[a], ffn[f]))
            outputs.append(tf.reshape(x, shape))
        return outputs

    def weights_for_step(self) -> tuple[list[AttentionWeights], list[FeedForwardWeights]]:
        """The weights of all attention and all feed-forward blocks, made once per step for all layers."""
        return ([block.weights_for_step() for block in self.attention_blocks],
                [block.weights_for_step() for block in self.ffn_blocks])

    def blocks_in_order(self) -> Iterator[tuple[int, int]]:
        """The indices of the attention and of the feed-forward block of every layer and inner group, in order."""
        for attention_layer, ffn_layer in zip(self.config.attention_blocks, self.config.ffn_blocks):
            yield from zip(attention_layer, ffn_layer)

    def layer(self, a: int, f: int, mask: tf.Tensor, dropouts: Dropouts,
              number: int) -> Callable[[tf.Tensor, tuple[AttentionWeights, FeedForwardWeights]], tf.Tensor]:
        """The layer with an index, `number`, and blocks a and f, as a function of x [batch * seq, H] and weights."""

        def apply(x: tf.Tensor, weights: tuple[AttentionWeights, FeedForwardWeights]) -> tf.Tensor:
            attention_weights, ffn_weights = weights
            own = dropouts.for_layer(number)
            x = self.attention_blocks[a](x, mask, attention_weights, own)
            return self.ffn_blocks[f](x, ffn_weights, own)

        return apply


def masked_scores(input_mask: tf.Tensor, text_starts: tf.Tensor | None = None) -> tf.Tensor:
    """The mask that a layer adds to its attention scores, float32 [batch, 1, 1, seq], for an input_mask [batch, seq].

    For rows of several texts it is [batch, 1, seq, seq]; the padding counts as a text.
    """
    if text_starts is None:
        return (1.0 - tf.cast(input_mask[:, None, None, :], tf.float32)) * MASKED_SCORE
    starts = starts_of_tokens(text_starts, tf.shape(input_mask)[1])
    return tf.where(starts[:, None, :, None] == starts[:, None, None, :], 0.0, MASKED_SCORE)


def starts_of_tokens(text_starts: tf.Tensor, seq: tf.Tensor) -> tf.Tensor:
    """For each token, the index of its text's first token, int32 [batch, seq]. text_starts: see AlbertModel."""
    starts = text_starts[:, None]  # [batch, 1, texts + 1]
    return tf.reduce_max(tf.where(starts <= tf.range(seq)[:, None], starts, 0), axis=-1)


class BlockVariable(NamedTuple):
    """A variable of a block: its group, its inner group, and the rest of its name."""

    group: int
    inner: int
    name: str

    @property
    def is_of_attention(self) -> bool:
        """Whether it is in an attention block, and not in a feed-forward block."""
        return self.name.partition("/")[0] in ("attention_1", "LayerNorm")


def block_scope(group: int, inner: int = 0) -> str:
    """The scope of a block's variables."""
    return f"bert/encoder/transformer/group_{group}/inner_group_{inner}"


def block_variable(name: str) -> BlockVariable | None:
    """The parts of a variable's name; None if the variable is not in a block."""
    match = _BLOCK.fullmatch(name)
    return BlockVariable(int(match[1]), int(match[2]), match[3]) if match else None


def recomputed(
    layer: Callable[[tf.Tensor, Weights], tf.Tensor]
) -> Callable[[tf.Tensor, Weights], tuple[tf.Tensor, Weights]]:
    """Wraps a layer, a deterministic function of x and weights, so that only these are kept for its gradient.

    The result returns the layer's output, and the weights to pass to the next layer: in the backward pass, the
    gradients of all layers are then added one after the other instead of being kept.
    """

    def call(x: tf.Tensor, weights: Weights) -> tuple[tf.Tensor, Weights]:
        @tf.custom_gradient
        def output_and_weights(x: tf.Tensor, *flat: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], Callable]:
            def backward(upstream: tf.Tensor, *later_gradients: tf.Tensor) -> tuple[tf.Tensor, ...]:
                again = _dependent_on(upstream, x)
                with tf.GradientTape() as tape:
                    tape.watch((again, flat))
                    output = layer(again, tf.nest.pack_sequence_as(weights, flat))
                input_gradient, *weight_gradients = tape.gradient(output, (again, *flat), upstream)
                return input_gradient, *(later + own for later, own in zip(later_gradients, weight_gradients))

            # Without stop_gradient, an eager tape would keep the activations that are computed from watched tensors.
            kept = tf.nest.pack_sequence_as(weights, [tf.stop_gradient(tensor) for tensor in flat])
            return (layer(tf.stop_gradient(x), kept), *flat), backward

        output, *flat = output_and_weights(x, *tf.nest.flatten(weights))
        return output, tf.nest.pack_sequence_as(weights, flat)

    return call


def _dependent_on(upstream: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """x, made dependent on `upstream`: otherwise XLA and Grappler would keep the forward pass instead."""
    first = tf.reshape(upstream, [-1])[0]
    return x + tf.where(tf.math.is_nan(first), first, tf.zeros_like(first))
