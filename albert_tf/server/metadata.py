"""JSON that describes served models: for the page, and TensorFlow Serving's metadata."""

from __future__ import annotations

from typing import Mapping

from albert_tf.server.signatures import InputSpec, OutputSpec, ServedModel, Signature

# TensorFlow's name of a data type, where it is not "DT_" and the name in capitals.
_DATA_TYPES = dict(float16="DT_HALF", float32="DT_FLOAT", float64="DT_DOUBLE")


def described(model: ServedModel) -> dict:
    """The model's name and its signatures: how the page shows them, their inputs, and the names of the labels."""
    return dict(name=model.name, description=model.description, signatures={
        name: _described_signature(signature) for name, signature in model.signatures.items()})


def metadata(model: ServedModel) -> dict:
    """TensorFlow Serving's answer to GET /v1/models/NAME/metadata.

    "labels" is added: the names of the labels by signature, in the order of the probabilities. The names of the tensors
    in the graph are left empty.
    """
    signatures = {name: dict(inputs=_tensors(signature.inputs), outputs=_tensors(signature.outputs),
                             method_name="tensorflow/serving/predict")
                  for name, signature in model.signatures.items()}
    labels = {name: list(signature.labels) for name, signature in model.signatures.items() if signature.labels}
    return dict(model_spec=dict(name=model.name, signature_name="", version="1"),
                metadata=dict(signature_def=dict(signature_def=signatures)), **(dict(labels=labels) if labels else {}))


def _described_signature(signature: Signature) -> dict:
    labels = dict(labels=list(signature.labels)) if signature.labels else {}
    return dict(labels, view=signature.view, inputs={
        name: dict(dtype=spec.dtype, shape=list(spec.shape), optional=spec.default is not None)
        for name, spec in signature.inputs.items()})


def _tensors(specs: Mapping[str, InputSpec] | Mapping[str, OutputSpec]) -> dict:
    return {name: dict(dtype=_DATA_TYPES.get(spec.dtype, f"DT_{spec.dtype.upper()}"), tensor_shape=_shape(spec.shape),
                       name="") for name, spec in specs.items()}


def _shape(shape: tuple[int | None, ...] | None) -> dict:
    sizes = [dict(size=str(-1 if size is None else size), name="") for size in shape or ()]
    return dict(dim=sizes, unknown_rank=shape is None)
