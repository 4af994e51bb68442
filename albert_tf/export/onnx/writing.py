"""Converts a model of albert_tf.modeling to the content of an ONNX file, and writes the files beside it.

Each model of albert_tf/modeling has a function that adds its nodes to an ONNX graph. Its arguments are the graph, the
model and the tensors of the model's inputs by name. It returns the tensors of the outputs by name. A function has the
name of its model's entry in the registry of heads (albert_tf/weights/heads.py).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from types import MappingProxyType
from typing import Callable, Collection, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

import albert_tf
from albert_tf import keras
from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.export.onnx import hugging_face
from albert_tf.export.onnx.graph import EncoderGraph, OnnxGraph, import_package, pooled
from albert_tf.export.onnx.session import USUAL_NAME, NamesOfSession, OnnxModel
from albert_tf.export.saved_model import exported_outputs, graph as traced, largest_differences, random_inputs
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import MISSING_CHOICE, AlbertClassifier, AlbertMultipleChoice, AlbertTokenClassifier
from albert_tf.modeling.layers import OutputDense
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.modeling.span import MASKED_LOGIT, AlbertConditionalSpan, AlbertSpan
from albert_tf.modeling.vectors import LEAST_LENGTH
from albert_tf.utils.files import absolute, names_in, read_bytes
from albert_tf.utils.manifests import output_folder
from albert_tf.utils.outputs import write_bytes, write_text
from albert_tf.weights.heads import head_of
from albert_tf.weights.hugging_face.writing import save_for_onnx
from albert_tf.weights.model_card import TRANSFORMERS_JS, write_model_card
from albert_tf.weights.runs import check_no_run
from albert_tf.weights.settings import SETTINGS, settings_in, write_settings
from albert_tf.weights.vocabulary import VocabularyFiles, vocabulary_in


def to_onnx(model: keras.Model, precision: str = "float32", separator: int | None = None) -> bytes:
    """Converts a model to ONNX. The ONNX model accepts batches of any size and length, and stores each weight once.

    Inputs (int32) and outputs have the model's names, or with the id of [SEP] as separator those of hugging_face.py.
    Outputs of single layers are left out. The file's metadata has the config and the name of the head.
    """
    head = head_of(model)
    add_head = globals().get(head.name)
    if add_head is None:
        raise ValueError(f"{type(model).__name__} cannot be exported to ONNX: set --model=encoder to export its "
                         "encoder alone")
    graph = OnnxGraph(precision)
    input_specs = model.input_specs()
    specs = traced(lambda **inputs: exported_outputs(model, inputs), **input_specs).structured_outputs
    metadata = dict(config=model.config.to_json_string(), head=head.name, albert_tf=albert_tf.__version__)
    if separator is None:
        inputs, names = {name: name for name in input_specs}, {name: name for name in specs}
    else:
        inputs, names = hugging_face.graph_inputs(graph, model, separator), hugging_face.output_names(model)
        input_specs = hugging_face.input_specs(model)
    outputs = add_head(graph, model, inputs)
    return graph.model(input_specs, {theirs: (outputs[name], specs[name]) for name, theirs in names.items()
                                     if name in specs}, metadata)


def in_onnx_runtime(model: keras.Model) -> OnnxModel | None:
    """A model in ONNX Runtime, in float32. If onnx or onnxruntime is not installed, warns and returns None.

    The conversion takes as long as ten short texts in Keras. ONNX Runtime is at least six times as fast on them.
    """
    missing = [package for package in ("onnx", "onnxruntime") if not importlib.util.find_spec(package)]
    if not missing:
        return OnnxModel(to_onnx(model), model.settings)
    logging.warning("TensorFlow computes the answers, in up to six times the time, since %s is not installed: "
                    "pip install '.[onnx]' in the clone", " and ".join(missing))
    return None


def write_companions(model: keras.Model, folder: str, vocabulary: VocabularyFiles) -> None:
    """Writes the files that an ONNX model needs to read texts: config, vocabulary, and settings with the head."""
    write_text(os.path.join(folder, CONFIG_NAME), model.config.to_json_string())
    write_settings(model.settings, model.config, folder, vocabulary)


def check_no_other_model(
    model: keras.Model, folder: str, vocabulary: VocabularyFiles, replaced: Collection[str], source: str
) -> None:
    """Raises ValueError if write_companions would change what weights or other ONNX files in the folder need.

    To the folder of `source`, the weights of the model, it may add settings that are not stored there.
    """
    check_no_run(folder)
    names = sorted(name for name in names_in(folder) if name not in replaced)
    weights = [name for name in names if name.endswith((".index", ".safetensors"))]
    exports = [name for name in names if name.endswith(".onnx")]
    has_config, has_settings = (tf.io.gfile.exists(os.path.join(folder, name)) for name in (CONFIG_NAME, SETTINGS))
    if not weights and not (exports and (has_config or has_settings)):
        return
    settings, earlier = model.settings.content(), settings_in(folder).content()
    is_own = absolute(folder) == absolute(source if tf.io.gfile.isdir(source) else os.path.dirname(source))
    compared = earlier if is_own and not exports else {**settings, **earlier}
    differences = [name for name in compared if settings.get(name) != earlier.get(name)]
    if has_config and AlbertConfig.from_json_file(os.path.join(folder, CONFIG_NAME)) != model.config:
        differences.append("config")
    there = vocabulary_in(folder)
    if vocabulary and there and read_bytes(there.path) != read_bytes(vocabulary.path):
        differences.append("vocabulary")
    if differences:
        path = os.path.join(folder, (weights + exports)[0])
        raise ValueError(f"{path} is of a model with another {', '.join(differences)}: export each model to a separate "
                         "directory")


def differences(
    content: bytes, model: keras.Model, seq_length: int, num_predictions: int = 20, batch_size: int = 2, seed: int = 0
) -> dict[str, float]:
    """The largest difference between an ONNX model in ONNX Runtime and the original model, for each output."""
    session = import_package("onnxruntime").InferenceSession(content, providers=["CPUExecutionProvider"])
    named = NamesOfSession(session, head_of(model).name)
    return largest_differences(lambda inputs: named.run(inputs, tuple(named.outputs)), model,
                               random_inputs(model, batch_size, seq_length, num_predictions, seed))


def write_hugging_face_folder(
    model: keras.Model, folder: str, vocabulary: VocabularyFiles, contents: Mapping[str, bytes], base_model: str | None,
    others: Mapping[str, bytes] = MappingProxyType({}),
) -> None:
    """Writes ONNX models (by precision) in the layout of Hugging Face, and other files (by name), as one set.

    base_model is the path of the exported weights. Of a sentence encoder, the file in float32 also has the name
    model.onnx in the folder itself, by a link, since Milvus and GPTCache fetch this name.
    """
    with output_folder(folder) as temporary:
        save_for_onnx(model, temporary, vocabulary)
        for precision, content in contents.items():
            write_bytes(os.path.join(temporary, hugging_face.FILES[precision]), content)
        if isinstance(model, AlbertSentenceEncoder) and "float32" in contents:
            with contextlib.suppress(OSError):  # remote, or without links
                os.link(os.path.join(temporary, hugging_face.FILES["float32"]), os.path.join(temporary, USUAL_NAME))
        for name, content in others.items():
            write_bytes(os.path.join(temporary, name), content)
    write_model_card(folder, model, base_model, is_conversion=base_model is not None, loaded_by=TRANSFORMERS_JS,
                     rows={"format": "ONNX", "type": ", ".join(contents)})


def encoder(graph: OnnxGraph, model: AlbertModel, inputs: dict[str, str]) -> dict[str, str]:
    """The encoder without a head."""
    return EncoderGraph(graph, model).outputs(inputs)


def sentence_encoder(graph: OnnxGraph, model: AlbertSentenceEncoder, inputs: dict[str, str]) -> dict[str, str]:
    """The vector of each text."""
    outputs = EncoderGraph(graph, model.albert).outputs(inputs)
    vectors = pooled(graph, outputs, inputs["input_mask"], model.settings.pooling)
    if model.dense is not None:
        vectors = graph.activation(model.settings.dense_act, output_dense(graph, "cls/vectors", model.dense)(vectors))
    if model.settings.truncate_dim:
        vectors = graph.node("Slice", vectors, *map(graph.constant, ([0], [model.settings.truncate_dim], [1])))
    if model.settings.normalize:
        length = graph.node("ReduceL2", vectors, graph.constant([-1]), keepdims=1)
        vectors = graph.node("Div", vectors, graph.node("Max", length, graph.scalar(LEAST_LENGTH)))
    return dict(outputs, sentence_embedding=vectors)


def pretrainer(graph: OnnxGraph, model: AlbertPretrainer, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of masked tokens and of the sentence order."""
    parts = EncoderGraph(graph, model.albert, multiplies_table=True)
    outputs = parts.outputs(inputs)
    head = model.masked_lm
    gathered = graph.gather_tokens(outputs["sequence_output"], inputs["masked_lm_positions"])
    transformed = graph.dense("cls/predictions/transform/dense", head.dense.kernel, head.dense.bias)(gathered)
    transformed = graph.activation(model.config.hidden_act, transformed)
    transformed = graph.layer_norm("cls/predictions/transform/LayerNorm", head.layer_norm, head.layer_norm.epsilon)(
        transformed)
    logits = graph.node("Add", parts.word_table.times_transposed(transformed),
                        graph.weight("cls/predictions/output_bias", head.output_bias))
    sop_logits = output_dense(graph, "cls/seq_relationship", model.sentence_order)(outputs["pooled_output"])
    return dict(outputs, mlm_logits=logits, sop_logits=sop_logits)


def classifier(graph: OnnxGraph, model: AlbertClassifier, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of the labels."""
    outputs = EncoderGraph(graph, model.albert).outputs(inputs)
    return dict(outputs, logits=output_dense(graph, "classifier", model.classifier)(outputs["pooled_output"]))


def token_classifier(graph: OnnxGraph, model: AlbertTokenClassifier, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of the labels of each token."""
    outputs = EncoderGraph(graph, model.albert).outputs(inputs)
    return dict(outputs, logits=output_dense(graph, "cls/tokens", model.classifier)(outputs["sequence_output"]))


def multiple_choice(graph: OnnxGraph, model: AlbertMultipleChoice, inputs: dict[str, str]) -> dict[str, str]:
    """The logits of the choices, which are rows of the encoder."""
    length = graph.node("Shape", inputs["input_ids"], start=2, end=3)
    shape = graph.node("Concat", graph.constant([-1]), length, axis=0)
    rows = {name: graph.node("Reshape", tensor, shape) for name, tensor in inputs.items()}  # [batch * choices, seq]
    outputs = EncoderGraph(graph, model.albert).outputs(rows)
    logits = output_dense(graph, "classifier", model.classifier)(outputs["pooled_output"])  # [batch * choices, 1]
    tokens = graph.node("ReduceMax", rows["input_mask"], graph.constant([1]), keepdims=1)
    is_choice = graph.node("Greater", tokens, graph.constant(0, np.int32))
    logits = graph.node("Where", is_choice, logits, graph.scalar(MISSING_CHOICE))
    return dict(outputs, logits=graph.reshape(logits, [-1, model.settings.num_choices]))


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
    dense = graph.output_dense("start_logits/dense", model.start.kernel, model.start.bias)
    start_logits = _mask_logits(graph, graph.squeeze(dense(tokens), -1), is_masked)  # [batch, seq]
    start_log_probs, start_index = _top_k(graph, start_logits, model.start_n_top)
    end_logits = _end_logits(graph, model, tokens, graph.gather_tokens(tokens, start_index))
    end_logits = _mask_logits(graph, end_logits, graph.node("Unsqueeze", is_masked, graph.constant([1])))
    end_log_probs, end_index = _top_k(graph, end_logits, model.end_n_top)
    flat = [-1, model.start_n_top * model.end_n_top]
    return dict(outputs, start_top_log_probs=start_log_probs, start_top_index=start_index,
                end_top_log_probs=graph.reshape(end_log_probs, flat), end_top_index=graph.reshape(end_index, flat),
                cls_logits=_answerability(graph, model, tokens, start_logits))


def _end_logits(graph: OnnxGraph, model: AlbertConditionalSpan, tokens: str, start_tokens: str) -> str:
    """The logits [batch, starts, seq], from tokens [batch, seq, H] and start_tokens [batch, starts, H].

    The dense layer on their concatenation is computed as a sum of two products, which stores no concatenation.
    """
    size = model.config.hidden_size
    of_token = graph.matrix("end_logits/dense_0/kernel_of_token", model.end_hidden.kernel[:size])
    of_start = graph.dense("end_logits/dense_0/start", model.end_hidden.kernel[size:], model.end_hidden.bias)
    summed = graph.node("Add", graph.node("Unsqueeze", of_token(tokens), graph.constant([1])),
                        graph.node("Unsqueeze", of_start(start_tokens), graph.constant([2])))
    norm = graph.layer_norm("end_logits/LayerNorm", model.end_layer_norm, model.end_layer_norm.epsilon)
    hidden = norm(graph.node("Tanh", summed))
    return graph.squeeze(graph.output_dense("end_logits/dense_1", model.end.kernel, model.end.bias)(hidden), -1)


def _answerability(graph: OnnxGraph, model: AlbertConditionalSpan, tokens: str, start_logits: str) -> str:
    """The logit that the question has no answer, [batch]."""
    weights = graph.node("Unsqueeze", graph.node("Softmax", start_logits, axis=-1), graph.constant([1]))
    expected_start = graph.squeeze(graph.node("MatMul", weights, tokens), 1)  # [batch, H]
    first = graph.node("Gather", tokens, graph.constant(0), axis=1)
    both = graph.node("Concat", expected_start, first, axis=-1)
    hidden = graph.dense("answer_class/dense_0", model.answer_hidden.kernel, model.answer_hidden.bias)(both)
    output = graph.output_dense("answer_class/dense_1", model.answer.kernel)
    return graph.squeeze(output(graph.node("Tanh", hidden)), -1)


def _mask_logits(graph: OnnxGraph, logits: str, is_masked: str) -> str:
    """The logits, with MASKED_LOGIT where `is_masked` is 1."""
    kept = graph.node("Mul", logits, graph.node("Sub", graph.scalar(1), is_masked))
    return graph.node("Add", kept, graph.node("Mul", is_masked, graph.scalar(MASKED_LOGIT)))


def _top_k(graph: OnnxGraph, logits: str, count: int) -> tuple[str, str]:
    """The highest log probabilities of the last axis and their indices, int32."""
    values, indices = graph.nodes("TopK", graph.node("LogSoftmax", logits, axis=-1), graph.constant([count]), count=2)
    return values, graph.cast(indices, np.int32)


def output_dense(graph: OnnxGraph, name: str, layer: OutputDense) -> Callable[[str], str]:
    """The last layer of a head."""
    return graph.output_dense(name, np.transpose(layer.kernel), layer.bias)
