"""Converts the encoder, or any model with a head, to a .tflite file, which LiteRT runs: the package ai_edge_litert.

LiteRT is the new name of TensorFlow Lite. TensorFlow still has the converter, and deprecates its interpreter.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from albert_tf import keras
from albert_tf.export.saved_model import exported_outputs, graph, largest_differences, random_inputs
from albert_tf.text.packing import concatenated
from albert_tf.utils import imports
from albert_tf.utils.files import scratch_folder


def convert(
    model: keras.Model, precision: str, max_seq_length: int | Sequence[int], max_predictions_per_seq: int = 20
) -> bytes:
    """Converts a model to a flatbuffer with a signature for one input of a fixed length, or with several of them.

    The inputs have the model's names and are int32 [1, length], or [1, num_choices, length] for multiple choice; for
    outputs see exported_outputs. Shorter inputs must be padded to max_seq_length. Several lengths have a signature
    length_N each, which share the weights. An op that TensorFlow Lite does not support is an error.
    """

    def function(length: int) -> Any:
        specs = model.input_specs(1, length, max_predictions_per_seq)
        return graph(lambda **inputs: exported_outputs(model, inputs), **specs)

    module = tf.Module()
    module.weights = keras.tf_variables(model)
    signatures = {name: function(length) for name, length in _signatures(max_seq_length).items()}
    # from_concrete_functions writes a SavedModel, too, but gives a model without signatures where it cannot.
    with scratch_folder() as folder:
        tf.saved_model.save(module, folder, signatures)
        return _run_converter(tf.lite.TFLiteConverter.from_saved_model(folder, [*signatures]), precision)


def _signatures(max_seq_length: int | Sequence[int]) -> dict[str, int]:
    """The length of each signature's inputs."""
    if isinstance(max_seq_length, int):
        return {"serving_default": max_seq_length}
    return {f"length_{length}": length for length in max_seq_length}


def _run_converter(converter: tf.lite.TFLiteConverter, precision: str) -> bytes:
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


def runner(flatbuffer: bytes, max_seq_length: int | Sequence[int]) -> Callable[[Mapping], dict[str, np.ndarray]]:
    """A function from the model's inputs, [batch, ..., seq], to its outputs, which computes the examples one by one.

    Inputs are padded to max_seq_length, or to the largest of several. Like the model, it ignores further inputs.
    """
    signatures = _signatures(max_seq_length)
    signature = max(signatures, key=signatures.__getitem__)
    length = signatures[signature]
    with imports.without_lines_of_cpp(all_lines=True):  # it logs which delegate it has
        run = interpreter_of(flatbuffer).get_signature_runner(signature)

    def padded(name: str, values: np.ndarray) -> np.ndarray:
        if name == "masked_lm_positions":
            return values
        padding = [(0, 0)] * (values.ndim - 1) + [(0, length - values.shape[-1])]
        return np.pad(values, padding, constant_values=1 if name == "p_mask" else 0)

    def run_batch(inputs: Mapping) -> dict[str, np.ndarray]:
        rows = {name: padded(name, np.asarray(inputs[name], np.int32)) for name in run.get_input_details()}
        return concatenated(run(**{name: values[row : row + 1] for name, values in rows.items()})
                            for row in range(len(inputs["input_ids"])))

    return run_batch


def differences(
    flatbuffer: bytes, model: keras.Model, max_seq_length: int | Sequence[int], max_predictions_per_seq: int = 20,
    seed: int = 0,
) -> dict[str, float]:
    """For each output, the largest difference between a converted model and the model, over all lengths."""
    largest: dict[str, float] = {}
    with imports.without_lines_of_cpp(all_lines=True):  # it logs which delegate it has
        interpreter = interpreter_of(flatbuffer)
        for name, length in _signatures(max_seq_length).items():
            run = interpreter.get_signature_runner(name)
            found = largest_differences(lambda inputs, run=run: run(**inputs), model,  # type: ignore[misc]
                                        random_inputs(model, 1, length, max_predictions_per_seq, seed))
            largest = {output: float(np.max([value, largest.get(output, 0.0)])) for output, value in found.items()}
    return largest


def interpreter_of(flatbuffer: bytes) -> Any:
    """An interpreter of a flatbuffer, by ai_edge_litert or, without this package, by TensorFlow."""
    if importlib.util.find_spec("ai_edge_litert"):
        from ai_edge_litert.interpreter import Interpreter

        return Interpreter(model_content=flatbuffer)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated")  # TensorFlow 2.21 has it
        return tf.lite.Interpreter(model_content=flatbuffer)
