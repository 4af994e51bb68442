"""PredictingModel: what functions that predict from text need of a model.

A Keras model of this package has it, and so has an exported file in its runtime (export/onnx/session.py). So one
function classifies texts, fills masks or answers questions with either.
"""

from __future__ import annotations

from typing import Any, Mapping, Protocol

from albert_tf.config import AlbertConfig


class PredictingModel(Protocol):
    """A model that is called with token ids and returns its outputs."""

    @property
    def config(self) -> AlbertConfig:
        """The model's config."""

    @property
    def row_length(self) -> int:
        """The largest number of tokens of a row."""

    def __getattr__(self, name: str) -> Any:
        """An argument that the model's class declares (see arguments.py)."""

    def __call__(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The outputs by name, arrays or tensors, for int32 inputs by name, [batch, seq] each."""
