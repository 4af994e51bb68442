"""Reads a TF-Hub module as a StoredModel.

Weights are read by the release's names from modules of TensorFlow 1, and from SavedModels of TensorFlow 2 whose
variables have these names (such as those of export_to_tfhub.py). Any other SavedModel is used as an encoder with its
own graph: HubEncoder replaces AlbertModel under any head except those of pre-training.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import re
from typing import Mapping, Sequence

import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, trackable_object_graph_pb2

from albert_tf import devices, keras
from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.modeling.configured_model import ENCODER_INPUTS, encoder_input_specs, required
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.utils.files import NoSuchFile, check_no_wildcard
from albert_tf.utils.outputs import checkpoint_reader
from albert_tf.weights.settings import options_in, settings_in, vocabulary_in
from albert_tf.weights.stored_model import StoredModel
from albert_tf.weights.tf1 import clear_errors, read_checkpoint

_GRAPH = "saved_model.pb"
_VARIABLES = os.path.join("variables", "variables")
_ASSETS = "assets"
# The folder of a SavedModel's files that its graph does not read.
EXTRA_ASSETS = "assets.extra"
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_LAYER = re.compile(r"/transformer/(?:.*/)?layer_(\d+)/")
# The ops by which activations are recognized, in this order.
_ACTIVATIONS = (("Erf", "gelu_exact"), ("Relu", "relu"), ("Pow", "gelu"), ("Tanh", "tanh"))
_OUTPUTS = ("pooled_output", "sequence_output", "encoder_outputs")


def read(path: str) -> StoredModel:
    """The weights of a module, with the config, the vocabulary and the settings in its assets.

    If a TensorFlow 1 module has no config in its assets, the config is derived from its graph.
    """
    meta_graph = _meta_graph(path)
    source = _tf2_source(path) if meta_graph.HasField("object_graph_def") else _tf1_source(path, meta_graph)
    source = dataclasses.replace(source, settings=settings_in(os.path.join(path, EXTRA_ASSETS)))
    for directory in (EXTRA_ASSETS, _ASSETS, ""):
        config_file = os.path.join(path, directory, CONFIG_NAME)
        if tf.io.gfile.exists(config_file):
            return dataclasses.replace(source, read_config=functools.partial(AlbertConfig.from_json_file, config_file))
    return source


def _tf1_source(path: str, meta_graph: meta_graph_pb2.MetaGraphDef) -> StoredModel:
    variables = read_checkpoint(os.path.join(path, _VARIABLES))
    vocabulary = vocabulary_in(os.path.join(path, _ASSETS))
    return dataclasses.replace(
        variables, path=path, read_config=lambda: config_of_graph(path, meta_graph.graph_def, variables.shapes),
        vocabulary=dataclasses.replace(vocabulary, do_lower_case=lower_case_of_graph(meta_graph)))


def _tf2_source(path: str) -> StoredModel:
    vocabulary = dataclasses.replace(vocabulary_in(os.path.join(path, _ASSETS)),
                                     **options_in(os.path.join(path, EXTRA_ASSETS))._asdict())
    prefix = os.path.join(path, _VARIABLES)
    if tf.io.gfile.exists(f"{prefix}.index"):
        variables = read_checkpoint(prefix)
        keys = _keys_by_name(prefix)
        if "bert/embeddings/word_embeddings" in keys:
            return variables.renamed(keys, path=path, read_config=lambda: _no_config(path), vocabulary=vocabulary)
    return StoredModel(path, {}, lambda name: None, lambda: HubEncoder(path).config, vocabulary, module=path)


def _keys_by_name(prefix: str) -> dict[str, str]:
    """The keys of variables in the checkpoint of a SavedModel, by the variables' names."""
    with clear_errors(prefix):
        graph = checkpoint_reader(prefix).get_tensor(_OBJECTS)
    objects = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph)
    return {attribute.full_name: attribute.checkpoint_key
            for node in objects.nodes for attribute in node.attributes if attribute.full_name}


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


def _no_config(path: str) -> AlbertConfig:
    raise NoSuchFile(f"{path} has no {CONFIG_NAME}: set --albert_config_file to the model's config")


def config_of_graph(path: str, graph: graph_pb2.GraphDef, shapes: Mapping[str, Sequence[int]]) -> AlbertConfig:
    """The config of a module whose graph was made by the release's code. Dropout is 0."""
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
        raise NoSuchFile(f"{path} has no config, and its graph does not determine all of it: set --albert_config_file "
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


class HubEncoder(keras.Model):
    """A text encoder with TF-Hub's common interface. Its trainable variables are trained with those of the head.

    Call it with AlbertModel's inputs. It returns AlbertModel's pooled_output, sequence_output and encoder_outputs.
    """

    def __init__(self, path: str, **kwargs):
        super().__init__(**kwargs)
        self.built = True
        self.path = path
        check_no_wildcard(path)
        try:
            self.module = tf.saved_model.load(path)
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise ValueError(f"{path} cannot be loaded as a SavedModel: {error}") from error
        trainable = {id(variable) for variable in getattr(self.module, "trainable_variables", ())}
        for variable in sorted(getattr(self.module, "variables", ()), key=lambda each: id(each) not in trainable):
            # A checkpoint has a variable by the name with which it is added.
            self.add_weight(variable.name.split(":")[0], variable.shape, variable.dtype,
                            trainable=id(variable) in trainable, getter=lambda *_, own=variable, **__: own)
        names = [variable.name for variable in self.weights]
        if len(set(names)) < len(names):
            raise ValueError(f"{path} has several variables with the same name, so its weights could not be saved")
        if not trainable:
            logging.warning("%s has no trainable variables: only the head is trained", path)

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """A config with the module's vocab_size, hidden_size and num_hidden_layers; other values are defaults."""
        outputs = self({name: tf.ones([1, 4], tf.int32) for name in ENCODER_INPUTS})
        tables = [variable.shape[0] for variable in self.weights if variable.shape.rank == 2]
        return AlbertConfig(vocab_size=max(tables, default=1), hidden_size=outputs["pooled_output"].shape[-1],
                            num_hidden_layers=len(outputs["encoder_outputs"]), num_attention_heads=1)

    def input_specs(self, batch_size=None, seq_length=None, num_predictions=None) -> dict[str, tf.TensorSpec]:
        """See ConfiguredModel.input_specs."""
        return encoder_input_specs(batch_size, seq_length)

    def call(self, inputs, training=False):
        """AlbertModel's pooled_output, sequence_output and encoder_outputs."""
        return self.encode(inputs, dropouts(inputs, training))

    def encode(self, inputs: dict, dropouts) -> dict:
        """The same as `call`, for use by a head. The SavedModel applies its own dropout."""
        input_ids, input_mask, segment_ids = required(inputs, ENCODER_INPUTS, "[batch, seq]")
        try:
            takes_training = "training" in inspect.signature(self.module.__call__).parameters
            outputs = self.module(dict(input_word_ids=input_ids, input_mask=input_mask, input_type_ids=segment_ids),
                                  **dict(training=dropouts.training) if takes_training else {})
            return {name: outputs[name] for name in _OUTPUTS}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path} is not a TF-Hub text encoder: it must accept input_word_ids, input_mask and "
                             f"input_type_ids, and return {', '.join(_OUTPUTS)}") from error


def use_module(model: keras.Model, path: str) -> HubEncoder:
    """Replaces a model's encoder by a SavedModel.

    Args:
      model: a model of albert_tf.modeling with a head, which must not be compiled yet.
    """
    if isinstance(model, AlbertPretrainer) or not hasattr(model, "albert"):
        raise ValueError(f"{path} runs its own graph: it can be the encoder of a model with another head, but "
                         f"its weights cannot be loaded into {type(model).__name__}")
    if devices.is_jax(model.distribute_strategy):
        raise ValueError(f"{path} runs its own graph, which is TensorFlow's: --runtime=jax cannot compute it")
    with model.distribute_strategy.scope():
        encoder = HubEncoder(path)
    width = encoder.config.hidden_size
    if width != model.config.hidden_size:
        raise ValueError(f"{path} is another model: its hidden_size is {width}, expected {model.config.hidden_size}")
    model.albert = encoder
    return encoder
