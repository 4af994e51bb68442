"""Converts a model of albert_tf.modeling to the content of an ONNX file, and writes what belongs beside the file."""

from __future__ import annotations

import os
from typing import Collection

import tensorflow as tf

import albert_tf
from albert_tf import keras
from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.export.onnx import head_graphs
from albert_tf.export.onnx.graph import OnnxGraph, import_package
from albert_tf.export.outputs import exported_outputs, largest_differences, random_inputs
from albert_tf.export.saved_model import graph as traced
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.training.checkpoints import check_no_run
from albert_tf.utils.files import read_bytes
from albert_tf.utils.outputs import write_text
from albert_tf.weights.heads import head_of
from albert_tf.weights.settings import settings_in, settings_of, write_settings
from albert_tf.weights.vocabulary_files import VocabularyFiles, vocabulary_in


def to_onnx(model: keras.Model, precision: str = "float32", in_float32: str = "") -> bytes:
    """Converts a model to ONNX. The ONNX model accepts batches of any size and length, and stores each weight once.

    Inputs (int32) and outputs have the model's names; outputs of single layers are left out. The file's metadata has
    the config and the name of the head.

    Args:
      precision: "float32", "float16" (half the size) or "int8" (a quarter of the size; activations are quantized at run
        time). Inputs and outputs are the same for all three.
      in_float32: with int8, a regular expression of the names of weights that stay float32 all the same, such as
        "ffn_0/output"; "" for the biases, LayerNorms and last layers of heads alone.
    """
    head = head_of(model)
    add_head = getattr(head_graphs, head.name, None)
    if add_head is None:
        raise ValueError(f"{type(model).__name__} cannot be exported to ONNX: albert_tf/export/onnx/head_graphs.py has "
                         f"no function {head.name}")
    graph = OnnxGraph(precision, in_float32)
    if not isinstance(getattr(model, "albert", model), AlbertModel):
        raise ValueError("the encoder is a TF2 module, but only an AlbertModel can be converted to ONNX")
    input_specs = model.input_specs()
    outputs = add_head(graph, model, {name: name for name in input_specs})
    specs = traced(lambda **inputs: exported_outputs(model, inputs), **input_specs).structured_outputs
    metadata = dict(config=model.config.to_json_string(), head=head.name, albert_tf=albert_tf.__version__)
    return graph.model(input_specs, {name: (outputs[name], specs[name]) for name in specs}, metadata)


def write_companions(model: keras.Model, folder: str, vocabulary: VocabularyFiles) -> None:
    """Writes what reading texts for an ONNX file needs beside it: config, vocabulary, and settings with the head."""
    write_text(os.path.join(folder, CONFIG_NAME), model.config.to_json_string())
    write_settings(settings_of(model), model.config, folder, vocabulary)


def check_no_other_model(
    model: keras.Model, folder: str, vocabulary: VocabularyFiles, replaced: Collection[str]
) -> None:
    """Raises ValueError if write_companions would change what an earlier ONNX file or a run in the folder reads."""
    check_no_run(folder)
    names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
    others = sorted(name for name in names if name.endswith(".onnx") and name not in replaced)
    path = os.path.join(folder, CONFIG_NAME)
    if not others or not tf.io.gfile.exists(path):
        return
    settings, earlier = settings_of(model).content(), settings_in(folder).content()
    differences = [name for name in {**settings, **earlier} if settings.get(name) != earlier.get(name)]
    if AlbertConfig.from_json_file(path) != model.config:
        differences.append("config")
    there = vocabulary_in(folder)
    if vocabulary and there and read_bytes(there.path) != read_bytes(vocabulary.path):
        differences.append("vocabulary")
    if differences:
        raise ValueError(f"{os.path.join(folder, others[0])} is of a model with another {', '.join(differences)}: "
                         "export each model to a directory of its own")


def check_packages() -> None:
    """Raises a ValueError that names a package which `to_onnx` or `differences` needs, if it is not installed."""
    for name in ("onnx", "onnxruntime"):
        import_package(name)


def differences(
    content: bytes, model: keras.Model, seq_length: int, num_predictions: int = 20, batch_size: int = 2, seed: int = 0
) -> dict[str, float]:
    """The largest difference between an ONNX model in ONNX Runtime and the original model, for each output."""
    onnxruntime = import_package("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return largest_differences(lambda inputs: dict(zip(names, session.run(names, inputs))), model,
                               random_inputs(model, batch_size, seq_length, num_predictions, seed))
