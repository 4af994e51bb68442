"""The models of a server. A model has named signatures, which are functions from batches of inputs to outputs."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

# The signature of a request without signature_name, as in TensorFlow Serving.
DEFAULT_SIGNATURE = "serving_default"
Columns = dict[str, np.ndarray]


class InputSpec(NamedTuple):
    """An input of a signature.

    Args:
      dtype: "string", or the name of a NumPy type such as "int32".
      shape: the shape, with the batch first; None for any size.
      default: the value of each row if a request omits the input; None if the input is required.
    """

    dtype: str
    shape: tuple[int | None, ...]
    default: Any = None


class OutputSpec(NamedTuple):
    """An output of a signature.

    Args:
      dtype: "string", or the name of a NumPy type.
      shape: the shape, with the batch first; None in it for any size, and None for any shape.
    """

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function that a model serves.

    Args:
      inputs: the specs of the inputs, by name.
      run: function from input arrays [batch, ...] by name (texts as bytes) to output arrays [batch, ...] by name.
      view: how the page shows it: "fill_masks", "classify", "sentence_order", "answer", "choose", "tag",
        "layer_distances" or, for anything else, "json".
      row: function that is applied to each row of the outputs, to remove padding that depends on the rest of the batch.
      labels: names of the labels, in the order of the probabilities; empty if they have no names.
      outputs: the specs of the outputs, by name; empty if they are unknown.
    """

    inputs: Mapping[str, InputSpec]
    run: Callable[[Columns], Mapping[str, np.ndarray]]
    view: str = "json"
    row: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = dict
    labels: tuple[str, ...] = ()
    outputs: Mapping[str, OutputSpec] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model of a server.

    Args:
      name: name of the model in URLs.
      description: one line for the page.
      signatures: the signatures by name.
    """

    name: str
    description: str
    signatures: Mapping[str, Signature]
