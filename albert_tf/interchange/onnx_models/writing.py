"""to_onnx: a model of albert_tf.modeling as an ONNX file's content."""

from __future__ import annotations

import numpy as np

import albert_tf
from albert_tf import keras
from albert_tf.interchange.exported_outputs import exported_outputs, largest_differences, random_inputs
from albert_tf.interchange.heads import head_of
from albert_tf.interchange.onnx_models.graph import OnnxGraph, import_package
from albert_tf.interchange.serving import graph as traced
from albert_tf.modeling.albert_model import AlbertModel


def to_onnx(model: keras.Model, precision: str = "float32") -> bytes:
    """An ONNX model that takes batches of any size and length, and stores each weight once.

    Its inputs are the model's, int32, under their own names; its outputs are the model's, without those of single
    layers. The config is among the file's metadata.

    Args:
      model: any model of albert_tf.modeling.
      precision: float32; float16: weights of half the size; or int8: weights of a quarter, which are multiplied with
        activations that are quantized as they come. Inputs and outputs are the same in all three.

    Raises:
      ValueError: the package onnx is not installed, there is no such precision, the model is larger than the format's
        2 GB, or it is the graph of a TF2 module.
    """
    head, graph = head_of(model), OnnxGraph(precision)
    if not isinstance(getattr(model, "albert", model), AlbertModel):
        raise ValueError("the encoder is the graph of a TF2 module, and only an AlbertModel can be written as ONNX")
    outputs = head.add_to_onnx(graph, model, {name: name for name in model.input_specs()})
    specs = traced(lambda **inputs: exported_outputs(model, inputs), **model.input_specs()).structured_outputs
    metadata = dict(config=model.config.to_json_string(), albert_tf=albert_tf.__version__)
    return graph.model(model.input_specs(), {name: (outputs[name], specs[name]) for name in specs}, metadata)


def check_packages() -> None:
    """Raises ValueError where a package that `to_onnx` and `differences` need is not installed; it is named."""
    for name in ("onnx", "onnxruntime"):
        import_package(name)


def differences(
    content: bytes, model: keras.Model, seq_length: int, num_predictions: int = 20, batch_size: int = 2, seed: int = 0
) -> dict[str, float]:
    """For each output, the largest difference between an ONNX model in ONNX Runtime and the model, on random tokens.

    Args:
      content: of the ONNX file.
      model: that it was made from.
      seq_length, num_predictions, batch_size: of the inputs.
      seed: of the tokens.

    Raises:
      ValueError: the package onnxruntime is not installed.
    """
    onnxruntime = import_package("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, inputs)))

    return largest_differences(run, model, random_inputs(model, batch_size, seq_length, num_predictions, seed))
