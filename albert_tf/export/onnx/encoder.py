"""AlbertModel as an ONNX graph: embeddings, encoder and pooler, computed as in albert_tf/modeling."""

from __future__ import annotations

from typing import Callable

import numpy as np

from albert_tf.export.onnx.graph import OnnxGraph, Table
from albert_tf.modeling.albert_model import AlbertModel, Embeddings
from albert_tf.modeling.blocks import AttentionBlock, FeedForwardBlock
from albert_tf.modeling.encoder import MASKED_SCORE
from albert_tf.modeling.layers import LAYER_NORM_EPSILON
from albert_tf.modeling.vectors import POOLER


class EncoderGraph:
    """An encoder in a graph. Its weights are stored once, and word_table is the table of its word embeddings."""

    def __init__(self, graph: OnnxGraph, encoder: AlbertModel, multiplies_table: bool = False):
        self._graph, self._embeddings, layers = graph, encoder.embeddings, encoder.encoder
        self.word_table = graph.table("bert/embeddings/word_embeddings", encoder.embeddings.word_embeddings,
                                      multiplies_table)
        mapping = layers.embedding_hidden_mapping_in
        self._projected = graph.dense("bert/encoder/embedding_hidden_mapping_in", mapping.kernel,
                                      mapping.bias) if mapping is not None else lambda x: x
        attention = [_attention_block(graph, f"attention_{i}", each) for i, each in enumerate(layers.attention_blocks)]
        ffn = [_ffn_block(graph, f"ffn_{i}", each) for i, each in enumerate(layers.ffn_blocks)]
        self._blocks = [(attention[a], ffn[f]) for a, f in layers.blocks_in_order()]
        self._pooler = graph.dense("bert/pooler/dense", encoder.pooler.kernel, encoder.pooler.bias)

    def outputs(self, inputs: dict[str, str]) -> dict[str, str]:
        """pooled_output [batch, H] and sequence_output [batch, seq, H], from the model's inputs, int32 [batch, seq]."""
        graph = self._graph
        x = self._projected(_embedding_sum(graph, self._embeddings, self.word_table, inputs))  # [batch, seq, H]
        padding = graph.node("Sub", graph.scalar(1), graph.cast(inputs["input_mask"], np.float32))
        scores = graph.node("Mul", padding, graph.scalar(MASKED_SCORE))
        mask = graph.node("Unsqueeze", scores, graph.constant([1, 2]))  # [batch, 1, 1, seq]
        for attention, ffn in self._blocks:
            x = ffn(attention(x, mask))
        first = graph.node("Gather", x, graph.constant(0), axis=1)  # [batch, H]
        return dict(pooled_output=graph.node("Tanh", self._pooler(first)), sequence_output=x)


def pooled(graph: OnnxGraph, outputs: dict[str, str], input_mask: str, pooling: str) -> str:
    """modeling.vectors.pooled."""
    tokens, axis = outputs["sequence_output"], graph.constant([1])
    if pooling == POOLER:
        return outputs["pooled_output"]
    if pooling == "cls":
        return graph.node("Gather", tokens, graph.constant(0), axis=1)
    mask = graph.node("Unsqueeze", graph.cast(input_mask, np.float32), graph.constant([-1]))  # [batch, seq, 1]
    if pooling == "max":
        is_token = graph.node("Greater", mask, graph.scalar(0))
        lowest = graph.scalar(float(np.finfo(np.float32).min))
        return graph.node("ReduceMax", graph.node("Where", is_token, tokens, lowest), axis, keepdims=0)
    summed = graph.node("ReduceSum", graph.node("Mul", tokens, mask), axis, keepdims=0)
    num_tokens = graph.node("Max", graph.node("ReduceSum", mask, axis, keepdims=0), graph.scalar(1))
    return graph.node("Div", summed, num_tokens)


def _embedding_sum(graph: OnnxGraph, embeddings: Embeddings, word_table: Table, inputs: dict[str, str]) -> str:
    """The sum of three tables' rows, normalised: [batch, seq, E]."""
    segment_table = graph.table("bert/embeddings/token_type_embeddings", embeddings.token_type_embeddings)
    position_table = graph.table("bert/embeddings/position_embeddings", embeddings.position_embeddings)
    length = graph.squeeze(graph.node("Shape", inputs["input_ids"], start=1, end=2), 0)
    positions = graph.node("Range", graph.constant(0), length, graph.constant(1))
    summed = graph.node("Add", word_table.lookup(inputs["input_ids"]), segment_table.lookup(inputs["segment_ids"]))
    summed = graph.node("Add", summed, position_table.lookup(positions))
    norm = embeddings.layer_norm
    return graph.layer_norm("bert/embeddings/LayerNorm", norm.gamma, norm.beta, LAYER_NORM_EPSILON)(summed)


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
