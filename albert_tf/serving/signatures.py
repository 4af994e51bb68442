"""What a server serves: models with named signatures, each a function from a batch of inputs to a batch of outputs."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

# The signature that a request without signature_name means, as in TensorFlow Serving.
DEFAULT_SIGNATURE = "serving_default"
Columns = dict[str, np.ndarray]


class InputSpec(NamedTuple):
    """An input of a signature.

    Args:
      dtype: "string" or a NumPy type's name, as "int32".
      shape: with the batch first; None is any size.
      default: the value of each row where a request leaves the input out; None if it must be there.
    """

    dtype: str
    shape: tuple[int | None, ...]
    default: Any = None


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function that a model serves.

    Args:
      inputs: by name.
      run: from arrays [batch, ...] by input, texts as bytes, to arrays [batch, ...] by output.
      view: how the page shows it: "fill_masks", "classify", "sentence_order", "answer", "choose", "tag",
        "layer_distances" or, for anything else, "json".
      labels: names of the labels of a classifier, for the page; empty where they have none.
      row: changes a row of the outputs before it is sent: removes padding that depends on the other rows of the batch.
    """

    inputs: Mapping[str, InputSpec]
    run: Callable[[Columns], Mapping[str, np.ndarray]]
    view: str = "json"
    row: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = dict
    labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model of a server.

    Args:
      name: in URLs.
      description: one line for the page.
      signatures: by name.
    """

    name: str
    description: str
    signatures: Mapping[str, Signature]
