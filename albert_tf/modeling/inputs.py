"""Checks the dict of inputs of a model, so that an error names the input that is missing or has a wrong shape."""

from __future__ import annotations

from typing import Any, Mapping

import tensorflow as tf

ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def encoder_input_specs(batch_size: int | None = None, seq_length: int | None = None) -> dict[str, tf.TensorSpec]:
    """The specs of the encoder's inputs, int32 [batch_size, seq_length] each; None means any size."""
    return {name: tf.TensorSpec([batch_size, seq_length], tf.int32, name) for name in ENCODER_INPUTS}


def refuse_texts(inputs: Any) -> None:
    """Raises ValueError if a model is called with texts: a string, a list of strings, or an array or tensor of them."""
    first = inputs
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    dtype = getattr(first, "dtype", None)
    if isinstance(first, (str, bytes)) or dtype == tf.string or getattr(dtype, "kind", "") in ("U", "S", "O"):
        raise ValueError("a model takes token ids and not texts: call the tokenizer first, as in "
                         "model.predict(tokenizer(texts))")


def as_rows(inputs: Mapping, several: str) -> tuple[dict[str, tf.Tensor], int | tf.Tensor | None]:
    """The encoder's inputs with one sequence in each row.

    Args:
      inputs: [batch, seq], or with several sequences side by side, [batch, n, seq].
      several: the name of the sequences in messages, such as "windows".

    Returns:
      the inputs as [batch * n, seq], and n; None in place of n if the inputs were [batch, seq].

    Raises:
      ValueError: as `required`.
    """
    has_several = (isinstance(inputs, Mapping) and "input_ids" in inputs
                   and tf.convert_to_tensor(inputs["input_ids"]).shape.rank == 3)
    tensors = required(inputs, ENCODER_INPUTS, f"[batch, {several}, seq]" if has_several else "[batch, seq]")
    if not has_several:
        return dict(zip(ENCODER_INPUTS, tensors)), None
    static, shape = tensors[0].shape, tf.shape(tensors[0])
    count, seq = (shape[axis] if static[axis] is None else static[axis] for axis in (1, 2))
    return {name: tf.reshape(tensor, [-1, seq]) for name, tensor in zip(ENCODER_INPUTS, tensors)}, count


def side_by_side(rows: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """The reverse of as_rows, for a tensor with static sizes behind the rows: [batch * n, ...] to [batch, n, ...]."""
    return tf.reshape(rows, [-1, count, *rows.shape[1:]])


def required(inputs: Mapping, names: tuple[str, ...], shape: str) -> list[tf.Tensor]:
    """Returns the tensors with the given names, which must all have the same shape.

    Args:
      inputs: inputs of a model.
      names: names of the required inputs.
      shape: the required shape in words, such as "[batch, seq]". Only its rank is checked.

    Raises:
      ValueError: inputs is not a dict, an input is missing or has another rank, or two have different shapes.
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
