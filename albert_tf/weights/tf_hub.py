"""Reads a TF-Hub module as a StoredModel.

Weights are read by the release's names from modules of TensorFlow 1, and from SavedModels of TensorFlow 2 with
these names of variables (export_to_tfhub.py writes them). No graph runs.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Mapping, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, trackable_object_graph_pb2

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.utils.outputs import checkpoint_reader
from albert_tf.weights.hugging_face.tokenizer_options import options_in
from albert_tf.weights.settings import settings_in
from albert_tf.weights.stored_model import StoredModel, StoredTensor, config_in
from albert_tf.weights.tf1 import clear_errors, read_checkpoint
from albert_tf.weights.vocabulary import vocabulary_in

_GRAPH = "saved_model.pb"
_VARIABLES = os.path.join("variables", "variables")
_ASSETS = "assets"
# The folder of a SavedModel's files that its graph does not read.
EXTRA_ASSETS = "assets.extra"
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_LAYER = re.compile(r"/transformer/(?:.*/)?layer_(\d+)/")
# The ops by which activations are recognized, in this order.
_ACTIVATIONS = (("Erf", "gelu_exact"), ("Relu", "relu"), ("Pow", "gelu"), ("Tanh", "tanh"))


def read(path: str) -> StoredModel:
    """The weights of a module, with the config, the vocabulary and the settings in its assets.

    If a TensorFlow 1 module has no config in its assets, the config is derived from its graph.
    """
    meta_graph, prefix = _meta_graph(path), os.path.join(path, _VARIABLES)
    is_tf2, vocabulary = meta_graph.HasField("object_graph_def"), vocabulary_in(os.path.join(path, _ASSETS))
    if is_tf2:
        tensors = _tf2_tensors(path, prefix)
        vocabulary = dataclasses.replace(vocabulary, **options_in(os.path.join(path, EXTRA_ASSETS))._asdict())
    else:
        tensors = read_checkpoint(prefix)
        vocabulary = dataclasses.replace(vocabulary, do_lower_case=lower_case_of_graph(meta_graph))
    configs = (config_in(os.path.join(path, folder)) for folder in (EXTRA_ASSETS, _ASSETS, ""))
    config = next(filter(None, configs), None)
    if config is None and not is_tf2:
        config = config_of_graph(meta_graph.graph_def, {name: tensor.shape for name, tensor in tensors.items()})
    return StoredModel(path, tensors, config, vocabulary, settings_in(os.path.join(path, EXTRA_ASSETS)))


def _tf2_tensors(path: str, prefix: str) -> dict[str, StoredTensor]:
    """The tensors of a TensorFlow 2 module by the names of its variables."""
    if tf.io.gfile.exists(f"{prefix}.index"):
        stored = read_checkpoint(prefix)
        with clear_errors(prefix):
            graph = checkpoint_reader(prefix).get_tensor(_OBJECTS)
        objects = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph)
        tensors = {attribute.full_name: stored[attribute.checkpoint_key]
                   for node in objects.nodes for attribute in node.attributes if attribute.full_name}
        if "bert/embeddings/word_embeddings" in tensors:
            return tensors
    raise ValueError(f"{path} cannot be read: in this SavedModel, variables do not have the release's names. Use "
                     "the module that it was made from, such as https://tfhub.dev/google/albert_base/3 for "
                     "https://tfhub.dev/tensorflow/albert_en_base")


def _meta_graph(path: str) -> meta_graph_pb2.MetaGraphDef:
    """The graph of a module for inference. A TensorFlow 1 module has a second graph, for training."""
    file_name = os.path.join(path, _GRAPH)
    try:
        with tf.io.gfile.GFile(file_name, "rb") as file:
            saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    except DecodeError as error:
        raise ValueError(f"{file_name} is not a SavedModel: {error}") from error
    if not saved_model.meta_graphs:
        raise ValueError(f"{file_name} is not a SavedModel: it has no graph")
    return min(saved_model.meta_graphs, key=lambda meta_graph: len(meta_graph.meta_info_def.tags))


def config_of_graph(graph: graph_pb2.GraphDef, shapes: Mapping[str, Sequence[int]]) -> AlbertConfig | None:
    """The config of a module with a graph of the release's code; None for another graph. Dropout is 0."""
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
    except (KeyError, ValueError):
        return None


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


def _value(node: node_def_pb2.NodeDef) -> np.ndarray:
    return tf.make_ndarray(node.attr["value"].tensor)
