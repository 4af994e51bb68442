"""The encoder with cross-layer sharing: layers choose their blocks from two lists (Lan et al., 2020, section 3.1).

Gradient checkpointing: a layer's activations are not kept but recomputed for its gradient (Chen et al., 2016).

Sharing makes the weights small, but not the activations, which take most of the memory in training. tf.recompute_grad
would do for a single layer. But it copies the weights for each layer, and it keeps one gradient of the shared weights
per layer until all of them are computed. For albert_xxlarge these take more memory than the activations.
"""

from __future__ import annotations

import re
from typing import Any, Callable, NamedTuple

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.blocks import AttentionBlock, FeedForwardBlock
from albert_tf.modeling.layers import ReleaseDense

# The release adds this to the attention scores of padding.
MASKED_SCORE = -10000.0
# The release's names of the variables in a block.
_BLOCK = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/(.+)")


class Encoder(keras.layers.Layer):
    """The projection from E to H (if they differ), and the layers.

    Layer i uses the blocks with the indices config.attention_blocks[i] and config.ffn_blocks[i]. This is the whole
    mechanism of cross-layer sharing, groups and inner groups.

    Call it with embedding_output [batch, seq, E], input_mask [batch, seq], a Dropouts object, and whether to recompute
    layers for their gradients.
    """

    def __init__(self, config: AlbertConfig):
        super().__init__(autocast=False)
        self.config = config
        self.embedding_hidden_mapping_in = None
        if config.embedding_size != config.hidden_size:
            self.embedding_hidden_mapping_in = ReleaseDense(
                "bert/encoder/embedding_hidden_mapping_in", config.embedding_size, config.hidden_size,
                config.initializer_range)
        scopes = [block_scope(*divmod(index, config.inner_group_num))
                  for index in range(max(config.num_attention_blocks, config.num_ffn_blocks))]
        self.attention_blocks = [AttentionBlock(config, scope) for scope in scopes[: config.num_attention_blocks]]
        self.ffn_blocks = [FeedForwardBlock(config, scope) for scope in scopes[: config.num_ffn_blocks]]
        self.adapters: list[keras.layers.Layer] = []  # see adapters.py
        self.has_layer_adapters = False  # whether each layer has adapters of its own
        self.built = True

    def call(self, embedding_output, input_mask, dropouts, recompute=False):
        """The outputs of all layers (and inner groups), [batch, seq, H] each."""
        embedding_output = self.projected(embedding_output)
        shape = tf.shape(embedding_output)
        additive_mask = masked_scores(input_mask)
        attention, ffn = self.weights_for_step()

        x = tf.reshape(embedding_output, [-1, self.config.hidden_size])  # [batch * seq, H]
        outputs: list[tf.Tensor] = []
        for a, f in self.blocks_in_order():
            number = len(outputs)
            layer = self.layer(a, f, additive_mask, dropouts, number)
            a, f = (number, number) if self.has_layer_adapters else (a, f)  # the places of the weights
            if recompute:
                x, (attention[a], ffn[f]) = recomputed(layer)(x, (attention[a], ffn[f]))
            else:
                x = layer(x, (attention[a], ffn[f]))
            outputs.append(tf.reshape(x, shape))
        return outputs

    def projected(self, embedding_output):
        """The input of the first layer, [batch, seq, H]."""
        if self.embedding_hidden_mapping_in is None:
            return embedding_output
        return self.embedding_hidden_mapping_in(embedding_output)

    def weights_for_step(self) -> tuple[list, list]:
        """The weights of all attention and all feed-forward blocks, made once per step for all layers.

        If adapters give each layer weights of its own, they are those of all layers.
        """
        if not self.has_layer_adapters:
            return ([block.weights_for_step() for block in self.attention_blocks],
                    [block.weights_for_step() for block in self.ffn_blocks])
        attention, ffn = zip(*self.blocks_in_order())
        return ([self.attention_blocks[a].weights_for_step(layer) for layer, a in enumerate(attention)],
                [self.ffn_blocks[f].weights_for_step(layer) for layer, f in enumerate(ffn)])

    def blocks_in_order(self):
        """The indices of the attention and of the feed-forward block of every layer and inner group, in order."""
        for attention_layer, ffn_layer in zip(self.config.attention_blocks, self.config.ffn_blocks):
            yield from zip(attention_layer, ffn_layer)

    def layer(self, a: int, f: int, additive_mask, dropouts, number: int):
        """A layer as a function of x [batch * seq, H] and the weights of both blocks.

        a and f are the indices of its blocks, `number` is its own among all layers and inner groups.
        """

        def apply(x, weights):
            attention_weights, ffn_weights = weights
            own = dropouts.for_layer(number)
            x = self.attention_blocks[a](x, additive_mask, attention_weights, own)
            return self.ffn_blocks[f](x, ffn_weights, own)

        return apply


def masked_scores(input_mask: tf.Tensor) -> tf.Tensor:
    """What a layer adds to its attention scores, float32 [batch, 1, 1, seq], for an input_mask [batch, seq]."""
    return (1.0 - tf.cast(input_mask[:, None, None, :], tf.float32)) * MASKED_SCORE


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
            def backward(upstream, *later_gradients):
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
    """x, with an artificial dependency on `upstream`.

    Without it, XLA and Grappler would see that the recomputation equals the forward pass, and would keep that instead.
    """
    first = tf.reshape(upstream, [-1])[0]
    return x + tf.where(tf.math.is_nan(first), first, tf.zeros_like(first))
