"""TensorFlow Lite models of the encoder and of any model with a head."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from albert_tf import keras
from albert_tf.interchange.exported_outputs import exported_outputs, largest_differences, random_inputs
from albert_tf.interchange.serving import graph

# float16: weights of half the size. int8: dynamic range; weights of a quarter, multiplied with 8-bit activations.
PRECISIONS = ("float32", "float16", "int8")


def convert(model: keras.Model, precision: str, max_seq_length: int, max_predictions_per_seq: int = 20) -> bytes:
    """A flatbuffer with one signature, for one input of a fixed length.

    Args:
      model: any model of albert_tf.modeling, or a HubEncoder; its inputs are int32 [1, max_seq_length] under their own
        names, of multiple choice [1, 4, max_seq_length]. The outputs are the model's, without those of single layers.
      precision: of PRECISIONS.
      max_seq_length: what shorter inputs must be padded to.
      max_predictions_per_seq: the number of masked_lm_positions, of a pre-trainer.

    Raises:
      ValueError: TensorFlow Lite has not all of the model's ops, as may be with the encoder of a TF-Hub module.
    """
    specs = model.input_specs(1, max_seq_length, max_predictions_per_seq)
    function = graph(lambda **inputs: exported_outputs(model, inputs), **specs)
    module = tf.Module()
    module.weights = model.variables
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    # One scale for each kernel. With one for each output, which later versions of TensorFlow use by default, the word
    # table is stored twice: the lookup takes only one scale, the product of the masked-LM head one for each word.
    converter._experimental_disable_per_channel_quantization_for_dense_layers = True
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        return converter.convert()
    except ConverterError as error:
        reason = next(iter(str(error).splitlines()), "it gives no reason")
        raise ValueError(f"TensorFlow Lite cannot take this model: {reason}") from error


def differences(
    flatbuffer: bytes, model: keras.Model, max_seq_length: int, max_predictions_per_seq: int = 20, seed: int = 0
) -> dict[str, float]:
    """For each output, the largest difference between a converted model and the model, on random tokens.

    Args:
      flatbuffer, model, max_seq_length, max_predictions_per_seq: as of `convert`.
      seed: of the tokens.
    """
    run = tf.lite.Interpreter(model_content=flatbuffer).get_signature_runner()
    inputs = random_inputs(model, 1, max_seq_length, max_predictions_per_seq, seed)
    return largest_differences(lambda inputs: run(**inputs), model, inputs)
