"""Converts the encoder, or any model with a head, to TensorFlow Lite."""

from __future__ import annotations

import warnings
from typing import Callable, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from albert_tf import keras
from albert_tf.export.outputs import exported_outputs, largest_differences, random_inputs
from albert_tf.export.saved_model import graph
from albert_tf.utils import imports

# float16: half the size. int8 (dynamic range quantization): a quarter of the size; activations are quantized as well.
PRECISIONS = ("float32", "float16", "int8")


def convert(model: keras.Model, precision: str, max_seq_length: int, max_predictions_per_seq: int = 20) -> bytes:
    """Converts a model to a flatbuffer with one signature, for one input of a fixed length.

    The inputs have the model's names and are int32 [1, max_seq_length], or [1, num_choices, max_seq_length] for
    multiple choice. The outputs are the model's, without those of single layers.

    Args:
      model: any model of albert_tf.modeling, or a HubEncoder.
      precision: one of PRECISIONS.
      max_seq_length: number of tokens of an input. Shorter inputs must be padded.
      max_predictions_per_seq: number of masked_lm_positions (AlbertPretrainer only).

    Raises:
      ValueError: TensorFlow Lite does not support an op of the model, which can happen with a TF-Hub module's encoder.
    """
    specs = model.input_specs(1, max_seq_length, max_predictions_per_seq)
    function = graph(lambda **inputs: exported_outputs(model, inputs), **specs)
    module = tf.Module()
    module.weights = model.variables
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    # One scale per kernel. Later versions of TensorFlow have one scale per output by default. Then the word table is
    # stored twice: the lookup needs a single scale, the product of the masked-LM head one per word.
    converter._experimental_disable_per_channel_quantization_for_dense_layers = True
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        with imports.without_lines_of_cpp(all_lines=True):  # the converter prints a summary of 25 lines
            return converter.convert()
    except ConverterError as error:
        reason = next(iter(str(error).splitlines()), "it gives no reason")
        raise ValueError(f"TensorFlow Lite cannot convert this model: {reason}") from error


def runner(flatbuffer: bytes, max_seq_length: int) -> Callable[[Mapping], dict[str, np.ndarray]]:
    """A function from the model's inputs, [batch, ..., seq], to its outputs, which computes the examples one by one.

    Args:
      flatbuffer: the result of `convert`.
      max_seq_length: see `convert`. Shorter inputs are padded to it.
    """
    run = _signature_of(flatbuffer)

    def of_batch(inputs: Mapping) -> dict[str, np.ndarray]:
        rows = []
        for row in range(len(inputs["input_ids"])):
            rows.append(run(**{name: _padded_to(max_seq_length, name, np.asarray(values, np.int32)[row : row + 1])
                               for name, values in inputs.items()}))
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    return of_batch


def _padded_to(length: int, name: str, values: np.ndarray) -> np.ndarray:
    if name == "masked_lm_positions":
        return values
    padding = [(0, 0)] * (values.ndim - 1) + [(0, length - values.shape[-1])]
    return np.pad(values, padding, constant_values=1 if name == "p_mask" else 0)


def _signature_of(flatbuffer: bytes):
    with warnings.catch_warnings(), imports.without_lines_of_cpp(all_lines=True):  # it logs which delegate it has
        warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated")  # TensorFlow 2.21 has it
        return tf.lite.Interpreter(model_content=flatbuffer).get_signature_runner()


def differences(
    flatbuffer: bytes, model: keras.Model, max_seq_length: int, max_predictions_per_seq: int = 20, seed: int = 0
) -> dict[str, float]:
    """For each output, the largest difference between a converted model and the model, on random tokens.

    Args:
      flatbuffer: the result of `convert`.
      model, max_seq_length, max_predictions_per_seq: see `convert`.
      seed: seed of the tokens.
    """
    inputs = random_inputs(model, 1, max_seq_length, max_predictions_per_seq, seed)
    run = _signature_of(flatbuffer)
    return largest_differences(lambda inputs: run(**inputs), model, inputs)
