"""Converts the encoder, or any model with a head, to TensorFlow Lite."""

from __future__ import annotations

import warnings

import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from albert_tf import keras
from albert_tf.export.outputs import check_uses_all_layers, exported_outputs, largest_differences, random_inputs
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
      ValueError: TensorFlow Lite does not support an op of the model, which can happen with a TF-Hub module's encoder;
        or the model predicts with early exit.
    """
    check_uses_all_layers(model, "TensorFlow Lite")
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
    with warnings.catch_warnings(), imports.without_lines_of_cpp(all_lines=True):  # it logs which delegate it has
        warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated")  # TensorFlow 2.21 has it
        run = tf.lite.Interpreter(model_content=flatbuffer).get_signature_runner()
        return largest_differences(lambda inputs: run(**inputs), model, inputs)
