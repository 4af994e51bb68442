"""Reads a TF-Hub module as a Source.

Weights are read by the release's names from modules of TensorFlow 1, and from SavedModels of TensorFlow 2 whose
variables have these names (such as those of export_to_tfhub.py). Any other SavedModel is used as an encoder with its
own graph.
"""

from __future__ import annotations

import dataclasses
import functools
import os

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, trackable_object_graph_pb2

from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.weights.settings import settings_in
from albert_tf.weights.source import Source
from albert_tf.weights.tf1 import clear_errors, tf1_source
from albert_tf.weights.tf_hub.encoder import HubEncoder
from albert_tf.weights.tf_hub.graph import config_of_graph, lower_case_of_graph
from albert_tf.weights.vocabulary_files import options_in, vocabulary_in

_GRAPH = "saved_model.pb"
_VARIABLES = os.path.join("variables", "variables")
_ASSETS = "assets"
# The folder of a SavedModel's files that its graph does not read.
EXTRA_ASSETS = "assets.extra"
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


def hub_source(path: str) -> Source:
    """The weights of a module, with the config, the vocabulary and the settings in its assets.

    If a TensorFlow 1 module has no config in its assets, the config is derived from its graph.

    Raises:
      ValueError: the module cannot be read.
    """
    meta_graph = _meta_graph(path)
    source = _tf2_source(path) if meta_graph.HasField("object_graph_def") else _tf1_source(path, meta_graph)
    source = dataclasses.replace(source, settings=settings_in(os.path.join(path, EXTRA_ASSETS)))
    for directory in (EXTRA_ASSETS, _ASSETS, ""):
        config_file = os.path.join(path, directory, CONFIG_NAME)
        if tf.io.gfile.exists(config_file):
            return dataclasses.replace(source, read_config=functools.partial(AlbertConfig.from_json_file, config_file))
    return source


def _tf1_source(path: str, meta_graph: meta_graph_pb2.MetaGraphDef) -> Source:
    variables = tf1_source(os.path.join(path, _VARIABLES))
    vocabulary = vocabulary_in(os.path.join(path, _ASSETS))
    return dataclasses.replace(
        variables, path=path, read_config=lambda: config_of_graph(path, meta_graph.graph_def, variables.shapes),
        vocabulary=dataclasses.replace(vocabulary, do_lower_case=lower_case_of_graph(meta_graph)))


def _tf2_source(path: str) -> Source:
    vocabulary = dataclasses.replace(vocabulary_in(os.path.join(path, _ASSETS)),
                                     **options_in(os.path.join(path, EXTRA_ASSETS))._asdict())
    prefix = os.path.join(path, _VARIABLES)
    if tf.io.gfile.exists(f"{prefix}.index"):
        variables = tf1_source(prefix)
        keys = _keys_by_name(prefix)
        if "bert/embeddings/word_embeddings" in keys:
            return Source(path, {name: variables.shapes[key] for name, key in keys.items()},
                          lambda name: variables.read(keys[name]), lambda: _no_config(path), vocabulary)
    return Source(path, {}, lambda name: None, lambda: HubEncoder(path).config, vocabulary, module=path)


def _keys_by_name(prefix: str) -> dict[str, str]:
    """The keys of variables in the checkpoint of a SavedModel, by the variables' names."""
    with clear_errors(prefix):
        graph = tf.compat.v1.train.NewCheckpointReader(prefix).get_tensor(_OBJECTS)
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
    raise ValueError(f"{path} has no {CONFIG_NAME}: set --albert_config_file to the model's config")
