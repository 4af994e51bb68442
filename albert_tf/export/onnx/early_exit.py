"""Early exit as an ONNX graph: layer by layer, for fewer and fewer examples, as albert_tf/modeling/exit_loop.py does.

From the layer on after which an example can stop, each layer is in the branch of an If. It runs if there are examples
that have not stopped, and for these alone. Branches use the weights of the whole graph, so each is stored once.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, NamedTuple

import numpy as np

from albert_tf import keras
from albert_tf.export.onnx.encoder import EncoderGraph, pooled
from albert_tf.export.onnx.graph import OnnxGraph
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.early_exit import DEFAULT_TOLERANCE, EarlyExitModel
from albert_tf.modeling.exit_loop import NUM_LAYERS_USED
from albert_tf.modeling.layers import OutputDense


@dataclasses.dataclass(frozen=True)
class ExitGraph:
    """How a model answers; see EarlyExitModel for the functions.

    Args:
      name: the name of the last layer's head in the graph.
      logits_of: function of a head, the tensors of EncoderGraph.outputs_of and the input_mask [batch * n, seq]; it
        returns the logits [batch, ...].
      agreement: function of the logits of two layers and the input_mask; it returns bool [batch].
      count: n, the rows of an example, int64 [1]; None for 1.
    """

    name: str
    logits_of: Callable[[Callable[[str], str], dict[str, str], str], str]
    agreement: Callable[[str, str, str], str]
    count: str | None = None


def add_with_exits(graph: OnnxGraph, model: EarlyExitModel, rows: dict[str, str], answer: ExitGraph) -> dict[str, str]:
    """Adds the nodes of a model that can have exit heads.

    Args:
      graph: the graph.
      model: the model.
      rows: the encoder's inputs, int32 [batch * n, seq] each.
      answer: see ExitGraph.

    Returns:
      The tensors of the encoder's outputs and the logits; with early exit the logits and num_layers_used.
    """
    encoder, last_head = EncoderGraph(graph, model.albert), output_dense(graph, answer.name, model.classifier)
    if model.early_exit.is_used:
        heads = [*(output_dense(graph, f"exit_heads/layer_{number}", head)
                   for number, head in enumerate(model.exits.layers, 1)), last_head]
        num_layers = model.early_exit.num_layers or model.config.num_hidden_layers
        layers = _ExitLayers(graph, encoder, heads, model.exit_pooling, answer)
        return layers.predicted_early(rows, model.early_exit.exit_patience or num_layers, num_layers)
    outputs = encoder.outputs(rows)
    return dict(outputs, logits=answer.logits_of(last_head, outputs, rows["input_mask"]))


class _Examples(NamedTuple):
    """The state of examples: of all, or of those that have not stopped.

    Args:
      x: the output of the last layer, [batch * n, seq, H].
      logits: of the last layer, [batch, ...].
      agreements: consecutive layers that agreed, int32 [batch].
      num_layers_used: int32 [batch].
    """

    x: str
    logits: str
    agreements: str
    num_layers_used: str


_DTYPES = _Examples(x=np.float32, logits=np.float32, agreements=np.int32, num_layers_used=np.int32)  # type: ignore[arg-type]


class _ExitLayers(NamedTuple):
    """Layers with a head after each; `pooling` is the model's exit_pooling."""

    graph: OnnxGraph
    encoder: EncoderGraph
    heads: list[Callable[[str], str]]
    pooling: str
    answer: ExitGraph

    def predicted_early(self, rows: dict[str, str], patience: int, num_layers: int) -> dict[str, str]:
        """Logits and num_layers_used; see exit_loop.predict_early."""
        graph, input_mask = self.graph, rows["input_mask"]
        x, logits = self._layer(1, self.encoder.embedded(rows), input_mask)
        examples = _Examples(x, logits, self._for_each(0, logits), self._for_each(1, logits))
        for number in range(2, num_layers + 1):
            if number <= patience + 1:  # the first examples can stop after layer patience + 1
                examples = self._step(number, examples, input_mask)
                continue
            is_left = graph.node("Less", examples.agreements, graph.constant(patience, np.int32))
            left = graph.squeeze(graph.node("NonZero", is_left), 0)  # int64 [examples that have not stopped]
            some_are_left = graph.node("Greater", graph.node("Size", left), graph.constant(0))
            compute = functools.partial(self._step_of_some, left, number, examples, input_mask)
            examples = _Examples(*graph.computed_if(some_are_left, compute, examples, _DTYPES))
        return {"logits": examples.logits, NUM_LAYERS_USED: examples.num_layers_used}

    def _layer(self, number: int, x: str, input_mask: str) -> tuple[str, str]:
        """The output of layer `number`, and the logits of its head."""
        x = self.encoder.layers[number - 1](x, self.encoder.additive_mask(input_mask))
        outputs = self.encoder.outputs_of(x)
        if number < len(self.heads):  # the last layer's head is the model's own
            outputs["pooled_output"] = pooled(self.graph, outputs, input_mask, self.pooling)
        return x, self.answer.logits_of(self.heads[number - 1], outputs, input_mask)

    def _step(self, number: int, examples: _Examples, input_mask: str) -> _Examples:
        """Examples after layer `number`."""
        graph = self.graph
        x, logits = self._layer(number, examples.x, input_mask)
        agrees = self.answer.agreement(examples.logits, logits, input_mask)
        more = graph.node("Add", examples.agreements, graph.constant(1, np.int32))
        agreements = graph.node("Where", agrees, more, graph.constant(0, np.int32))
        return _Examples(x, logits, agreements, self._for_each(number, logits))

    def _step_of_some(self, indices: str, number: int, examples: _Examples, input_mask: str) -> _Examples:
        """Examples, of which those with the indices, int64 [some], are after layer `number`, and others unchanged."""
        graph, rows = self.graph, self._rows_of(indices)
        places = _Examples(x=rows, logits=indices, agreements=indices, num_layers_used=indices)
        some = _Examples(*(graph.node("Gather", *pair) for pair in zip(examples, places)))
        some = self._step(number, some, graph.node("Gather", input_mask, rows))
        return _Examples(*(
            graph.node("ScatterND", values, graph.node("Unsqueeze", place, graph.constant([-1])), updates)
            for values, place, updates in zip(examples, places, some)))

    def _for_each(self, value: int, logits: str) -> str:
        """A value for each example with logits, int32 [examples]."""
        count = self.graph.node("Shape", logits, start=0, end=1)
        return self.graph.node("Expand", self.graph.constant(value, np.int32), count)

    def _rows_of(self, indices: str) -> str:
        """The indices of the rows of examples, int64 [some * n]."""
        graph, count = self.graph, self.answer.count
        if count is None:
            return indices
        first = graph.node("Unsqueeze", graph.node("Mul", indices, count), graph.constant([1]))
        numbers = graph.node("Range", graph.constant(0), graph.squeeze(count, 0), graph.constant(1))
        return graph.reshape(graph.node("Add", first, numbers), [-1])


def has_windows_of_exits(model: keras.Model) -> bool:
    """Whether the inputs of a model in ONNX are [batch, windows, seq]: the windows of a text stop together."""
    return isinstance(model, AlbertClassifier) and model.early_exit.is_used and model.max_windows > 1


def label_agreement(graph: OnnxGraph, model: EarlyExitModel, before: str, after: str) -> str:
    """EarlyExitModel.agreement: bool [batch], or for logits [batch, seq, labels] bool [batch, seq]."""
    if model.is_regression:
        tolerance = model.early_exit.exit_tolerance
        difference = graph.squeeze(graph.node("Abs", graph.node("Sub", after, before)), 1)
        return graph.node("Less", difference, graph.scalar(DEFAULT_TOLERANCE if tolerance is None else tolerance))
    return graph.node("Equal", *(graph.node("ArgMax", logits, axis=-1, keepdims=0) for logits in (before, after)))


def output_dense(graph: OnnxGraph, name: str, layer: OutputDense) -> Callable[[str], str]:
    """The last layer of a head."""
    return graph.output_dense(name, np.transpose(layer.kernel), layer.bias)
