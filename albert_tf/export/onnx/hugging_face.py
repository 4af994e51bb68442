"""The layout "hugging_face": ONNX models with the names and types that readers of Hugging Face folders expect.

    config.json, tokenizer.json, ...   as convert_checkpoint writes them (albert_tf/weights/hugging_face/writing.py)
    onnx/model.onnx                    float32; model_fp16.onnx and model_quantized.onnx (int8) beside it

Inputs are int64. Outputs are named as by transformers' exporter; vectors add sentence_embedding, and the head of
pre-training has the logits of all tokens. last_hidden_state comes first, since fastembed reads the first output.

transformers.js sets segments only for tokenizer classes that transformers does not read as tokenizer.json says (see
albert_tf/weights/hugging_face/tokenizer_json.py). So if all token_type_ids of a row are 0, the graph computes them: 1
after the first [SEP].
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.export.onnx.graph import OnnxGraph
from albert_tf.modeling.albert_model import ENCODER_INPUTS
from albert_tf.weights.heads import head_of
from albert_tf.weights.hugging_face.configs import architecture_of, model_type_of

FOLDER = "onnx"
FILES = dict(float32="onnx/model.onnx", float16="onnx/model_fp16.onnx", int8="onnx/model_quantized.onnx")
INPUTS = dict(zip(ENCODER_INPUTS, ("input_ids", "attention_mask", "token_type_ids")))
OUTPUTS = dict(sequence_output="last_hidden_state", pooled_output="pooler_output", mlm_logits="logits")


def graph_inputs(graph: OnnxGraph, model: keras.Model, separator: int) -> dict[str, str]:
    """The tensors of the model's inputs, int32, from the graph's. `separator` is the id of [SEP]."""
    architecture_of(head_of(model), model_type_of(model.config))  # raises if Hugging Face has no such model
    inputs = {ours: graph.cast(theirs, np.int32) for ours, theirs in INPUTS.items()}
    axis = graph.constant([-1])
    if model.config.type_vocab_size > 1:
        is_separator = graph.node("Equal", inputs["input_ids"], graph.constant(separator, np.int32))
        earlier = graph.node("CumSum", graph.cast(is_separator, np.int32), graph.constant(-1), exclusive=1)
        computed = graph.node("Mul", inputs["input_mask"], graph.node("Min", earlier, graph.constant(1, np.int32)))
        largest = graph.node("ReduceMax", inputs["segment_ids"], axis, keepdims=1)
        has_segments = graph.node("Greater", largest, graph.constant(0, np.int32))
        inputs["segment_ids"] = graph.node("Where", has_segments, inputs["segment_ids"], computed)
    if "masked_lm_positions" in model.input_specs():  # all of them, [batch, seq]
        shape = graph.node("Shape", inputs["input_ids"])
        length = graph.squeeze(graph.node("Shape", inputs["input_ids"], start=1, end=2), 0)
        positions = graph.node("Range", graph.constant(0), length, graph.constant(1))
        inputs["masked_lm_positions"] = graph.node("Expand", positions, shape)
    return inputs


def input_specs(model: keras.Model) -> dict[str, tf.TensorSpec]:
    """The specs of the graph's inputs."""
    specs = model.input_specs()
    return {theirs: tf.TensorSpec(specs[ours].shape, tf.int64) for ours, theirs in INPUTS.items()}


def output_names(model: keras.Model) -> dict[str, str]:
    """The names of the graph's outputs by the model's names, in their order."""
    first = ["sequence_output"] * (model.HEAD_OUTPUTS[-1] in ("sequence_output", "sentence_embedding"))
    return {name: OUTPUTS.get(name, name) for name in (*first, *model.HEAD_OUTPUTS)}
