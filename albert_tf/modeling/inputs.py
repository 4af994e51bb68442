"""The dict of inputs that every model takes: what is missing or misshapen is named before anything is computed."""

from __future__ import annotations

from typing import Mapping

import tensorflow as tf

ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def encoder_input_specs(batch_size: int | None = None, seq_length: int | None = None) -> dict[str, tf.TensorSpec]:
    """The encoder's inputs, int32 [batch_size, seq_length] each; None stands for any number."""
    return {name: tf.TensorSpec([batch_size, seq_length], tf.int32, name) for name in ENCODER_INPUTS}


def required(inputs: Mapping, names: tuple[str, ...], shape: str) -> list[tf.Tensor]:
    """The tensors of some names, which must have one shape.

    Args:
      inputs: of a model.
      names: the inputs wanted.
      shape: the shape that they must have, in words: "[batch, seq]"; its rank is checked.

    Raises:
      ValueError: inputs are no dict, one is missing or of another rank, or two have different shapes.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(f"the model takes a dict of {', '.join(names)}, .... Received: {type(inputs).__name__}")
    missing = [name for name in names if name not in inputs]
    if missing:
        raise ValueError(f"missing input: {', '.join(missing)}. Received: {', '.join(inputs)}")
    tensors = [tf.convert_to_tensor(inputs[name]) for name in names]
    for name, tensor in zip(names, tensors):
        if tensor.shape.rank != shape.count(",") + 1 or not tensor.shape.is_compatible_with(tensors[0].shape):
            like = f"; {names[0]} of shape {tensors[0].shape}" if tensor is not tensors[0] else ""
            raise ValueError(f"{name} must be {shape}. Received: {name} of shape {tensor.shape}{like}")
    return tensors
