"""What the layers of an encoder have computed: their inputs and outputs, and the queries, keys and values of attention.

They come from the outputs of a call, so that the call itself is the same for those who do not need them.
"""

from __future__ import annotations

from typing import Sequence

import tensorflow as tf

from albert_tf.modeling.albert_model import AlbertModel


def hidden_states(model: AlbertModel, outputs: dict) -> list[tf.Tensor]:
    """The input of the first layer, and the output of each layer and inner group, [batch, seq, H] each.

    Args:
      model: the encoder.
      outputs: the result of its call.

    Raises:
      ValueError: the model is a TF-Hub module that runs its own graph, which does not show all layers.
    """
    if not hasattr(model, "encoder"):
        raise ValueError("the states of layers need an AlbertModel: a TF-Hub module that runs its own graph "
                         f"does not show the inputs of its layers. Received: {type(model).__name__}")
    return [model.encoder.projected(outputs["embedding_output"]), *outputs["encoder_outputs"]]


def layer_outputs(model: AlbertModel, outputs: dict, layers: Sequence[int]) -> list[tf.Tensor]:
    """The outputs of some layers, [batch, seq, H] each. Those of a layer are the outputs of its last inner group.

    Args:
      model: the encoder.
      outputs: the result of its call.
      layers: numbers of layers, from 1.

    Raises:
      ValueError: see hidden_states.
    """
    states = hidden_states(model, outputs)
    return [states[layer * model.config.inner_group_num] for layer in layers]


def attention_vectors(model: AlbertModel, outputs: dict, layers: Sequence[int]) -> list[list[tf.Tensor]]:
    """The queries, keys and values of some layers: for each layer three tensors [batch, seq, H], with heads in order.

    Those of a layer are the ones of its last inner group. The queries do not have the factor 1 / sqrt(head size).

    Args:
      model, outputs, layers: see layer_outputs.

    Raises:
      ValueError: see hidden_states.
    """
    states, encoder, config = hidden_states(model, outputs), model.encoder, model.config
    weights, _ = encoder.weights_for_step()
    blocks = [a for a, _ in encoder.blocks_in_order()]
    head_size = config.hidden_size // config.num_attention_heads

    def vectors(number: int) -> list[tf.Tensor]:
        """Those of a layer or inner group by its index, that of its input among the states."""
        block = blocks[number]
        x, shape = tf.reshape(states[number], [-1, config.hidden_size]), tf.shape(states[number])
        own = weights[number if encoder.has_layer_weights else block]
        query, key, value = (tf.reshape(each, shape) for each in tf.split(
            encoder.attention_blocks[block].queries_keys_values(x, own), 3, axis=-1))
        return [query * head_size**0.5, key, value]

    return [vectors(layer * config.inner_group_num - 1) for layer in layers]
