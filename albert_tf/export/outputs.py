"""What exports share: the precision, the outputs, and their differences from those of the original model."""

from __future__ import annotations

from typing import Callable, Mapping

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.configured_model import ConfiguredModel
from albert_tf.utils.outputs import write_bytes
from albert_tf.weights.heads import has_only_random_pooled_output, head_of

SERVED_PRECISIONS = ("float32", "mixed_bfloat16")
_INNER_OUTPUTS = ("embedding_output", "word_embedding_output")  # not exported, as lists of those of each layer


def exported_outputs(model: keras.Model, inputs: Mapping) -> dict:
    """The model's outputs without those of single layers, and without pooled_output if the pooler is random.

    The vectors of a sentence encoder have its vector_precision.
    """
    left_out = (*_INNER_OUTPUTS, *(["pooled_output"] if has_only_random_pooled_output(model) else []))
    outputs = model(inputs)
    if isinstance(model, ConfiguredModel):
        outputs = {**outputs, **model.exported_outputs(outputs)}
    return {name: output for name, output in outputs.items()
            if name not in left_out and not isinstance(output, (list, tuple))}


class WithOutputs:
    """A Keras model whose outputs `run` computes. Functions that predict from text take it like the model."""

    def __init__(self, model: keras.Model, run: Callable[[Mapping], Mapping], max_seq_length: int | None):
        self._model, self._run, self.max_seq_length, self.head = model, run, max_seq_length, head_of(model)

    def __getattr__(self, name: str):
        return getattr(self._model, name)

    @property
    def row_length(self) -> int:
        """The largest number of tokens of a row: max_seq_length, or all positions if it is None."""
        positions = self._model.config.max_position_embeddings
        return min(self.max_seq_length or positions, positions)

    def __call__(self, inputs: Mapping, training: bool = False) -> Mapping:
        """The outputs by name."""
        return self._run(inputs)


def random_inputs(model: keras.Model, batch_size: int, seq_length: int, num_predictions: int, seed: int) -> dict:
    """Random inputs of a model, without padding: int32 arrays by name."""
    random = np.random.default_rng(seed)
    specs = model.input_specs(batch_size, seq_length, num_predictions)
    inputs = {name: np.zeros(spec.shape.as_list(), np.int32) for name, spec in specs.items()}
    inputs["input_ids"] = random.integers(0, model.config.vocab_size, inputs["input_ids"].shape, np.int32)
    inputs["input_mask"] += 1
    if "masked_lm_positions" in inputs:
        inputs["masked_lm_positions"] = random.integers(0, seq_length, inputs["masked_lm_positions"].shape, np.int32)
    return inputs


def largest_differences(run: Callable[[dict], Mapping], model: keras.Model, inputs: dict) -> dict[str, float]:
    """The largest difference between the results of `run` and those of the model, for each output."""
    expected, actual = exported_outputs(model, inputs), run(inputs)
    return {name: float(np.max(np.abs(np.asarray(actual[name], np.float32) - tf.cast(expected[name], tf.float32))))
            for name in expected}


def write_and_compare(path: str, content: bytes, differences: dict[str, float]) -> None:
    """Writes an exported model, and prints its size and its differences from the original model."""
    write_bytes(path, content)
    print(f"{path}: {len(content) / 1e6:.1f} MB; largest difference from the model's outputs:")
    for name, difference in differences.items():
        print(f"    {name:<20}{difference:.2g}")


def with_precision(model: ConfiguredModel, precision: str | None) -> ConfiguredModel:
    """The model with the same weights, computing in one of SERVED_PRECISIONS; None for the model's own."""
    if not precision:
        return model
    if not isinstance(getattr(model, "albert", model), AlbertModel):
        raise ValueError("the precision cannot be set for a TF-Hub module that runs its own graph, which has its "
                         "own precision")
    policy = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(precision)
    try:
        copy = type(model).from_config(model.get_config())
    finally:
        keras.mixed_precision.set_global_policy(policy)
    copy.set_weights(model.get_weights())
    return copy
