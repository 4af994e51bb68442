"""For each model of albert_tf/modeling, a function that adds its nodes to an ONNX graph.

Its arguments are the graph, the model and the tensors of the model's inputs by name. It returns the tensors of the
outputs by name. A function has the name of its model's entry in the registry of heads (albert_tf/weights/heads.py).
"""

from __future__ import annotations

from typing import Callable

import numpy as np

from albert_tf.export.onnx.encoder import EncoderGraph, pooled
from albert_tf.export.onnx.graph import OnnxGraph
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier, AlbertTokenClassifier
from albert_tf.modeling.layers import LAYER_NORM_EPSILON, OutputDense
from albert_tf.modeling.multiple_choice import MISSING_CHOICE, AlbertMultipleChoice
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.span import MASKED_LOGIT, AlbertConditionalSpan, AlbertSpan
from albert_tf.modeling.vectors import LEAST_LENGTH, PLACES


def encoder(graph: OnnxGraph, model: AlbertModel, inputs: dict[str, str]) -> dict[str, str]:
    """The encoder without a head."""
    return EncoderGraph(graph, model).outputs(inputs)


def sentence_encoder(graph: OnnxGraph, model: AlbertSentenceEncoder, inputs: dict[str, str]) -> dict[str, str]:
    """The vector of each text, in the model's vector_precision."""
    outputs = EncoderGraph(graph, model.albert).outputs(inputs)
    vectors = pooled(graph, outputs, inputs["input_mask"], model.pooling)
    if model.truncate_dim:
        vectors = graph.node("Slice", vectors, *map(graph.constant, ([0], [model.truncate_dim], [1])))
    if model.normalize:
        length = graph.node("ReduceL2", vectors, graph.constant([-1]), keepdims=1)
        vectors = graph.node("Div", vectors, graph.node("Max", length, graph.scalar(LEAST_LENGTH)))
    return dict(outputs, sentence_embedding=_stored(graph, model, vectors))


def _stored(graph: OnnxGraph, model: AlbertSentenceEncoder, vectors: str) -> str:
    """VectorPrecision.stored."""
    precision = model.stored_vectors
    if precision.name == "int8":
        starts, steps = (graph.constant(values, np.float32) for values in precision.starts_and_steps())
        integers = graph.node("Floor", graph.node("Div", graph.node("Sub", vectors, starts), steps))
        clipped = graph.node("Clip", integers, graph.scalar(0), graph.scalar(255))
        return graph.cast(graph.node("Sub", clipped, graph.scalar(128)), np.int8)
    if precision.name == "binary":
        size = precision.stored_size(model.vector_size)
        bits = graph.cast(graph.node("Greater", vectors, graph.scalar(0)), np.float32)
        padded = graph.node("Pad", bits, graph.constant([0, 0, 0, 8 * size - model.vector_size]))
        values = graph.node("Mul", graph.reshape(padded, [-1, size, 8]), graph.constant(PLACES, np.float32))
        summed = graph.node("ReduceSum", values, graph.constant([-1]), keepdims=0)
        return graph.cast(graph.node("Sub", summed, graph.scalar(128)), np.int8)
    return vectors


def pretrainer(graph: OnnxGraph, model: AlbertPretrainer, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of masked tokens and of the sentence order."""
    parts = EncoderGraph(graph, model.albert, multiplies_table=True)
    outputs = parts.outputs(inputs)
    head, norm = model.masked_lm, model.masked_lm.layer_norm
    gathered = graph.gather_tokens(outputs["sequence_output"], inputs["masked_lm_positions"])
    transformed = graph.dense("cls/predictions/transform/dense", head.dense.kernel, head.dense.bias)(gathered)
    transformed = graph.activation(model.config.hidden_act, transformed)
    transformed = graph.layer_norm("cls/predictions/transform/LayerNorm", norm.gamma, norm.beta,
                                   LAYER_NORM_EPSILON)(transformed)
    logits = graph.node("Add", parts.word_table.times_transposed(transformed),
                        graph.weight("cls/predictions/output_bias", head.output_bias))
    sop_logits = output_dense(graph, "cls/seq_relationship", model.sentence_order)(outputs["pooled_output"])
    return dict(outputs, mlm_logits=logits, sop_logits=sop_logits)


def classifier(graph: OnnxGraph, model: AlbertClassifier, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of the labels."""
    outputs = EncoderGraph(graph, model.albert).outputs(inputs)
    text = pooled(graph, outputs, inputs["input_mask"], model.pooling)
    return dict(outputs, logits=output_dense(graph, "classifier", model.classifier)(text))


def token_classifier(graph: OnnxGraph, model: AlbertTokenClassifier, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of the labels of each token."""
    outputs = EncoderGraph(graph, model.albert).outputs(inputs)
    return dict(outputs, logits=output_dense(graph, "cls/tokens", model.classifier)(outputs["sequence_output"]))


def multiple_choice(graph: OnnxGraph, model: AlbertMultipleChoice, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of the choices, which are rows of the encoder."""
    length = graph.node("Shape", inputs["input_ids"], start=2, end=3)
    shape = graph.node("Concat", graph.constant([-1]), length, axis=0)
    rows = {name: graph.node("Reshape", tensor, shape) for name, tensor in inputs.items()}  # [batch * choices, seq]
    outputs, input_mask = EncoderGraph(graph, model.albert).outputs(rows), rows["input_mask"]
    text = pooled(graph, outputs, input_mask, model.pooling)
    logits = output_dense(graph, "classifier", model.classifier)(text)  # [batch * choices, 1]
    tokens = graph.node("ReduceMax", input_mask, graph.constant([1]), keepdims=1)
    is_choice = graph.node("Greater", tokens, graph.constant(0, np.int32))
    logits = graph.node("Where", is_choice, logits, graph.scalar(MISSING_CHOICE))
    return dict(outputs, logits=graph.reshape(logits, [-1, model.num_choices]))


def span(graph: OnnxGraph, model: AlbertSpan, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of an answer's start and end."""
    outputs = EncoderGraph(graph, model.albert).outputs(inputs)
    logits = output_dense(graph, "cls/squad", model.span)(outputs["sequence_output"])
    start, end = graph.nodes("Split", logits, count=2, axis=-1, num_outputs=2)  # [batch, seq, 1] each
    return dict(outputs, start_logits=graph.squeeze(start, -1), end_logits=graph.squeeze(end, -1))


def conditional_span(graph: OnnxGraph, model: AlbertConditionalSpan, inputs: dict[str, str]) -> dict[str, str]:
    """The beam: the best starts, the best ends for each start, and the logit that there is no answer."""
    outputs = EncoderGraph(graph, model.albert).outputs(inputs)
    tokens, is_masked = outputs["sequence_output"], graph.cast(inputs["p_mask"], np.float32)
    start_logits = graph.squeeze(graph.output_dense("start_logits/dense", model.start.kernel, model.start.bias)(tokens),
                                 -1)
    start_logits = _masked(graph, start_logits, is_masked)  # [batch, seq]
    start_log_probs, start_index = _best(graph, start_logits, model.start_n_top)
    end_logits = _end_logits(graph, model, tokens, graph.gather_tokens(tokens, start_index))
    end_logits = _masked(graph, end_logits, graph.node("Unsqueeze", is_masked, graph.constant([1])))
    end_log_probs, end_index = _best(graph, end_logits, model.end_n_top)
    flat = [-1, model.start_n_top * model.end_n_top]
    return dict(outputs, start_top_log_probs=start_log_probs, start_top_index=start_index,
                end_top_log_probs=graph.reshape(end_log_probs, flat), end_top_index=graph.reshape(end_index, flat),
                cls_logits=_answerability(graph, model, tokens, start_logits))


def _end_logits(graph: OnnxGraph, model: AlbertConditionalSpan, tokens: str, start_tokens: str) -> str:
    """The logits [batch, starts, seq], from tokens [batch, seq, H] and start_tokens [batch, starts, H].

    The dense layer on their concatenation is computed as a sum of two products, which stores no concatenation.
    """
    size, norm = model.config.hidden_size, model.end_layer_norm
    of_token = graph.matrix("end_logits/dense_0/kernel_of_token", model.end_hidden.kernel[:size])
    of_start = graph.dense("end_logits/dense_0/start", model.end_hidden.kernel[size:], model.end_hidden.bias)
    summed = graph.node("Add", graph.node("Unsqueeze", of_token(tokens), graph.constant([1])),
                        graph.node("Unsqueeze", of_start(start_tokens), graph.constant([2])))
    hidden = graph.layer_norm("end_logits/LayerNorm", norm.gamma, norm.beta,
                              LAYER_NORM_EPSILON)(graph.node("Tanh", summed))
    return graph.squeeze(graph.output_dense("end_logits/dense_1", model.end.kernel, model.end.bias)(hidden), -1)


def _answerability(graph: OnnxGraph, model: AlbertConditionalSpan, tokens: str, start_logits: str) -> str:
    """The logit that the question has no answer, [batch]."""
    weights = graph.node("Unsqueeze", graph.node("Softmax", start_logits, axis=-1), graph.constant([1]))
    expected_start = graph.squeeze(graph.node("MatMul", weights, tokens), 1)  # [batch, H]
    first = graph.node("Gather", tokens, graph.constant(0), axis=1)
    both = graph.node("Concat", expected_start, first, axis=-1)
    hidden = graph.dense("answer_class/dense_0", model.answer_hidden.kernel, model.answer_hidden.bias)(both)
    return graph.squeeze(graph.output_dense("answer_class/dense_1", model.answer.kernel)(graph.node("Tanh", hidden)),
                         -1)


def _masked(graph: OnnxGraph, logits: str, is_masked: str) -> str:
    """The logits, with MASKED_LOGIT for tokens whose `is_masked` is 1."""
    kept = graph.node("Mul", logits, graph.node("Sub", graph.scalar(1), is_masked))
    return graph.node("Add", kept, graph.node("Mul", is_masked, graph.scalar(MASKED_LOGIT)))


def _best(graph: OnnxGraph, logits: str, count: int) -> tuple[str, str]:
    """The highest log probabilities of the last axis and their indices, int32."""
    values, places = graph.nodes("TopK", graph.node("LogSoftmax", logits, axis=-1), graph.constant([count]), count=2)
    return values, graph.cast(places, np.int32)


def output_dense(graph: OnnxGraph, name: str, layer: OutputDense) -> Callable[[str], str]:
    """The last layer of a head."""
    return graph.output_dense(name, np.transpose(layer.kernel), layer.bias)
