"""Derives the config of a TensorFlow 1 module from its graph, since such modules come without a config."""

from __future__ import annotations

import re
from typing import Mapping, Sequence

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable

_LAYER = re.compile(r"/transformer/(?:.*/)?layer_(\d+)/")
# The ops by which activations are recognized, in this order.
_ACTIVATIONS = (("Erf", "gelu_exact"), ("Relu", "relu"), ("Pow", "gelu"), ("Tanh", "tanh"))


def config_of_graph(path: str, graph: graph_pb2.GraphDef, shapes: Mapping[str, Sequence[int]]) -> AlbertConfig:
    """The config of a module whose graph was made by the release's code. Dropout is 0.

    Args:
      path: path of the module, for messages.
      graph: the module's graph.
      shapes: the shapes of its variables, by the release's names.

    Raises:
      ValueError: the graph or the variables do not determine the config.
    """
    blocks = list(filter(None, map(block_variable, shapes)))
    layers = {int(match.group(1)) for match in (_LAYER.search(node.name) for node in graph.node) if match}
    try:
        vocab_size, embedding_size = shapes["bert/embeddings/word_embeddings"]
        hidden_size, intermediate_size = shapes[f"{block_scope(0)}/ffn_1/intermediate/dense/kernel"]
        heads, = _numbers_of_heads(graph, hidden_size)
        return AlbertConfig(
            vocab_size=vocab_size, embedding_size=embedding_size, hidden_size=hidden_size,
            intermediate_size=intermediate_size, num_hidden_layers=max(layers) + 1, num_attention_heads=heads,
            num_hidden_groups=1 + max(block.group for block in blocks),
            inner_group_num=1 + max(block.inner for block in blocks), hidden_act=_activation(graph),
            max_position_embeddings=shapes["bert/embeddings/position_embeddings"][0],
            type_vocab_size=shapes["bert/embeddings/token_type_embeddings"][0])
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} has no config, and its graph does not determine all of it: set --albert_config_file "
                         "to the model's config") from error


def lower_case_of_graph(meta_graph: meta_graph_pb2.MetaGraphDef) -> bool | None:
    """The constant do_lower_case of the signature tokenization_info; None if there is none."""
    output = meta_graph.signature_def["tokenization_info"].outputs.get("do_lower_case")
    nodes = {node.name: node for node in meta_graph.graph_def.node}
    node = nodes.get(output.name.split(":")[0]) if output else None
    while node is not None and node.op == "Identity":
        node = nodes.get(node.input[0].split(":")[0])
    return bool(_value(node)) if node is not None and node.op == "Const" else None


def _numbers_of_heads(graph: graph_pb2.GraphDef, hidden_size: int) -> set[int]:
    """The numbers of attention heads according to the shapes [..., heads, head size] to which queries are reshaped."""
    shapes = (_value(node) for node in graph.node if "/self/query/" in node.name and node.op == "Const")
    pairs = (shape[-2:] for shape in shapes if shape.ndim == 1 and len(shape) >= 2 and shape.dtype.kind == "i")
    return {int(heads) for heads, size in pairs if heads > 0 and heads * size == hidden_size}


def _activation(graph: graph_pb2.GraphDef) -> str:
    ops = {node.op for node in graph.node if "/ffn_1/intermediate/" in node.name}
    if not ops:
        raise ValueError("the graph has no feed-forward block")
    return next((name for op, name in _ACTIVATIONS if op in ops), "linear")


def _value(node: node_def_pb2.NodeDef):
    return tf.make_ndarray(node.attr["value"].tensor)
