"""The models of a server, and JSON that describes them.

A model has named signatures, which are functions from batches of inputs to outputs.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig

if TYPE_CHECKING:
    from albert_tf.text.tokenization import FullTokenizer

DEFAULT_SIGNATURE = "serving_default"  # of a request without signature_name, as in TensorFlow Serving
SENTENCE_ORDER = "sentence_order"  # the signature, and the view, that tells whether two texts are in order
Columns = dict[str, np.ndarray]


class Spec(NamedTuple):
    """An input or an output of a signature."""

    dtype: str  # "string", or the name of a NumPy type such as "int32"
    shape: tuple[int | None, ...]  # with the batch first; None for any size
    default: Any = None  # the value of each row if a request omits the input; None if the input is required


TEXT = Spec("string", (None,))  # an input


@dataclasses.dataclass(frozen=True)
class Signature:
    """A function that a model serves, from arrays [batch, ...] by name (texts as bytes) to arrays [batch, ...]."""

    inputs: Mapping[str, Spec]
    run: Callable[[Columns], Mapping[str, np.ndarray]]
    # How the page shows it: fill_masks, classify, sentence_order, answer, choose, tag, compare or, for all else, json.
    view: str = "json"
    padded: str = ""  # the output with "" at the end of rows that have fewer masks or words than others in the batch
    labels: tuple[str, ...] = ()  # in the order of the probabilities; empty if they have no names
    outputs: Mapping[str, Spec] = dataclasses.field(default_factory=dict)  # empty if they are unknown

    def row(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a row without the padding that depends on the rest of the batch."""
        if not self.padded or not outputs[self.padded].size:
            return outputs
        values = outputs[self.padded]
        is_there = values.reshape([len(values), -1])[:, :1].ravel() != b""
        return {key: value[is_there] if value.shape[:1] == is_there.shape else value for key, value in outputs.items()}


@dataclasses.dataclass(frozen=True)
class EndpointModel:
    """A model that reads texts, for the endpoints of other servers (albert_tf/server/protocols.py)."""

    name: str
    kind: str  # "embedding", "reranker" or "classifier"; of another model, its head
    tokenizer: FullTokenizer
    row_length: int  # the largest number of tokens
    # Of an embedding, from text to sentence_embedding, float32, and num_tokens; of a reranker or a classifier, from
    # text_a and text_b to logits and scores, which are probabilities.
    signature: Signature = Signature({}, dict)
    label_names: tuple[str, ...] = ()
    pooling: str = ""
    # From texts and the name of a prompt (None: the default) to texts behind the prompt.
    prompted: Callable[[list[str], str | None], list[str]] = lambda texts, prompt_name: texts

    @functools.cached_property
    def pieces(self) -> Signature:
        """From text to the ids of its pieces, [pieces], and their offsets, [pieces, 2]."""
        def run(columns: Columns) -> dict[str, np.ndarray]:
            traced = self.tokenizer.trace_batch([text.decode() for text in columns["text"]])
            outputs = {name: np.empty(len(traced), object) for name in ("ids", "offsets")}
            for i, each in enumerate(traced):
                outputs["ids"][i], outputs["offsets"][i] = each.ids, each.offsets
            return outputs

        return Signature(dict(text=TEXT), run)


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model of a server."""

    name: str  # in URLs
    description: str  # a line on the page
    signatures: Mapping[str, Signature]
    endpoint_model: EndpointModel | None = None
    take_tokens: Callable[[], int] = int  # the number of tokens that it has computed since the last call


def description_of(head: str, name: str, config: AlbertConfig) -> str:
    """The description of a model with this name. It has no path, since every client can read it."""
    return (f"{head.replace('_', ' ')} from {name}: {config.num_hidden_layers} layers, "
            f"hidden size {config.hidden_size}, {config.vocab_size:,} pieces")


# TensorFlow's name of a data type, where it is not "DT_" and the name in capitals.
_DATA_TYPES = dict(float16="DT_HALF", float32="DT_FLOAT", float64="DT_DOUBLE")


def described(model: ServedModel) -> dict:
    """The model's name and its signatures: how the page shows them, their inputs, and the names of the labels."""
    signatures = {}
    for name, signature in model.signatures.items():
        labels = dict(labels=list(signature.labels)) if signature.labels else {}
        signatures[name] = dict(labels, view=signature.view, inputs={
            key: dict(dtype=spec.dtype, shape=list(spec.shape), optional=spec.default is not None)
            for key, spec in signature.inputs.items()})
    return dict(name=model.name, description=model.description, signatures=signatures)


def metadata(model: ServedModel) -> dict:
    """TensorFlow Serving's answer to GET /v1/models/NAME/metadata, and the names of labels. Tensors have no names."""
    signatures = {name: dict(inputs=_tensors(signature.inputs), outputs=_tensors(signature.outputs),
                             method_name="tensorflow/serving/predict")
                  for name, signature in model.signatures.items()}
    labels = {name: list(signature.labels) for name, signature in model.signatures.items() if signature.labels}
    return dict(model_spec=dict(name=model.name, signature_name="", version="1"),
                metadata=dict(signature_def=dict(signature_def=signatures)), **(dict(labels=labels) if labels else {}))


def _tensors(specs: Mapping[str, Spec]) -> dict:
    return {name: dict(dtype=_DATA_TYPES.get(spec.dtype, f"DT_{spec.dtype.upper()}"), name="", tensor_shape=dict(
        dim=[dict(size=str(-1 if size is None else size), name="") for size in spec.shape], unknown_rank=False))
            for name, spec in specs.items()}
