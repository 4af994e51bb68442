"""AlbertModel as an ONNX graph: embeddings, encoder and pooler, computed as in albert_tf/modeling."""

from __future__ import annotations

from typing import Callable

import numpy as np

from albert_tf.export.onnx.graph import OnnxGraph, Table
from albert_tf.modeling.albert_model import AlbertModel, Embeddings
from albert_tf.modeling.blocks import AttentionBlock, FeedForwardBlock
from albert_tf.modeling.encoder import MASKED_SCORE
from albert_tf.modeling.layers import LAYER_NORM_EPSILON


def add_encoder(
    graph: OnnxGraph, encoder: AlbertModel, inputs: dict[str, str], multiplies_table: bool = False
) -> tuple[dict[str, str], Table]:
    """Adds the nodes of an encoder to a graph.

    Args:
      graph: the graph.
      encoder: the model.
      inputs: tensors input_ids, input_mask and segment_ids, int32 [batch, seq].
      multiplies_table: whether the head multiplies by the word table.

    Returns:
      The tensors sequence_output [batch, seq, H] and pooled_output [batch, H], and the word table.
    """
    layers = encoder.encoder
    word_table = graph.table("bert/embeddings/word_embeddings", encoder.embeddings.word_embeddings,
                             multiplies_table)
    x = _embeddings(graph, encoder.embeddings, word_table, inputs)
    if layers.embedding_hidden_mapping_in is not None:
        mapping = layers.embedding_hidden_mapping_in
        x = graph.dense("bert/encoder/embedding_hidden_mapping_in", mapping.kernel, mapping.bias)(x)
    attention = [_attention_block(graph, f"attention_{i}", block) for i, block in enumerate(layers.attention_blocks)]
    ffn = [_ffn_block(graph, f"ffn_{i}", block) for i, block in enumerate(layers.ffn_blocks)]
    mask = _additive_mask(graph, inputs["input_mask"])
    for a, f in layers.blocks_in_order():
        x = ffn[f](attention[a](x, mask))
    first = graph.node("Gather", x, graph.constant(0), axis=1)  # [batch, H]
    pooled = graph.node("Tanh", graph.dense("bert/pooler/dense", encoder.pooler.kernel, encoder.pooler.bias)(first))
    return dict(pooled_output=pooled, sequence_output=x), word_table


def _embeddings(graph: OnnxGraph, embeddings: Embeddings, word_table: Table, inputs: dict[str, str]) -> str:
    """The sum of three tables' rows, normalised: [batch, seq, E]."""
    segment_table = graph.table("bert/embeddings/token_type_embeddings", embeddings.token_type_embeddings)
    position_table = graph.table("bert/embeddings/position_embeddings", embeddings.position_embeddings)
    length = graph.squeeze(graph.node("Shape", inputs["input_ids"], start=1, end=2), 0)
    positions = graph.node("Range", graph.constant(0), length, graph.constant(1))
    summed = graph.node("Add", word_table.lookup(inputs["input_ids"]), segment_table.lookup(inputs["segment_ids"]))
    summed = graph.node("Add", summed, position_table.lookup(positions))
    norm = embeddings.layer_norm
    return graph.layer_norm("bert/embeddings/LayerNorm", norm.gamma, norm.beta, LAYER_NORM_EPSILON)(summed)


def _additive_mask(graph: OnnxGraph, input_mask: str) -> str:
    """0 for tokens and MASKED_SCORE for padding: [batch, 1, 1, seq]."""
    padding = graph.node("Sub", graph.scalar(1), graph.cast(input_mask, np.float32))
    scores = graph.node("Mul", padding, graph.scalar(MASKED_SCORE))
    return graph.node("Unsqueeze", scores, graph.constant([1, 2]))


def _attention_block(graph: OnnxGraph, name: str, block: AttentionBlock) -> Callable[[str, str], str]:
    """Returns the block as a function of x [batch, seq, H] and the additive mask. Its weights are stored once."""
    weights, heads = block.weights_for_step(), block.config.num_attention_heads
    head_size = block.config.hidden_size // heads
    qkv = graph.dense(f"{name}/qkv", weights.qkv_kernel, weights.qkv_bias)
    output = graph.dense(f"{name}/output", weights.output_kernel, weights.output_bias)
    norm = graph.layer_norm(f"{name}/LayerNorm", weights.gamma, weights.beta, LAYER_NORM_EPSILON)

    def of_heads(values: str, perm: list[int]) -> str:
        return graph.node("Transpose", graph.reshape(values, [0, 0, heads, head_size]), perm=perm)

    def apply(x: str, mask: str) -> str:
        query, key, value = graph.nodes("Split", qkv(x), count=3, axis=-1, num_outputs=3)  # [batch, seq, H] each
        scores = graph.node("MatMul", of_heads(query, [0, 2, 1, 3]), of_heads(key, [0, 2, 3, 1]))
        probabilities = graph.node("Softmax", graph.node("Add", scores, mask), axis=-1)  # [batch, heads, seq, seq]
        context = graph.node("MatMul", probabilities, of_heads(value, [0, 2, 1, 3]))
        context = graph.reshape(graph.node("Transpose", context, perm=[0, 2, 1, 3]), [0, 0, block.config.hidden_size])
        return norm(graph.node("Add", output(context), x))

    return apply


def _ffn_block(graph: OnnxGraph, name: str, block: FeedForwardBlock) -> Callable[[str], str]:
    """Returns the block as a function of x [batch, seq, H]. Its weights are stored once."""
    weights = block.weights_for_step()
    intermediate = graph.dense(f"{name}/intermediate", weights.intermediate_kernel, weights.intermediate_bias)
    output = graph.dense(f"{name}/output", weights.output_kernel, weights.output_bias)
    norm = graph.layer_norm(f"{name}/LayerNorm", weights.gamma, weights.beta, LAYER_NORM_EPSILON)

    def apply(x: str) -> str:
        wide = graph.activation(block.config.hidden_act, intermediate(x))
        return norm(graph.node("Add", output(wide), x))

    return apply
