"""Exports SavedModels that take raw text (--export_dir of the scripts).

A process that serves them needs only tensorflow and tensorflow_text, which registers the ops of the tokenization.
Other exports also use the functions for precision, outputs and comparison with the original model.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.albert_model import ENCODER_INPUTS, ConfiguredModel, Embeddings, copy_of
from albert_tf.modeling.encoder import AttentionBlock, FeedForwardBlock
from albert_tf.modeling.layers import layers_in
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.manifests import output_folder
from albert_tf.utils.outputs import folder_of_this_process, write_text
from albert_tf.weights.heads import has_only_random_pooled_output

LABEL_NAMES = "label_names.txt"  # in an export's assets: the names of the labels, one per line
RAW_TEXT, IDS, EXAMPLES = "serving_default", "ids", "examples"
_INNER_OUTPUTS = ("embedding_output", "word_embedding_output")  # not exported, as are lists with an output per layer


@dataclasses.dataclass(frozen=True)
class TextSignature:
    """A signature that takes strings.

    Args:
      inputs: names and shapes of the strings.
      pack: function of a GraphTokenizer and the strings by name that returns the model's inputs, int32 [batch, seq];
        text/graph/packing.py has it for one and two texts. It must truncate texts that are too long for the model.
      answer: function of (the strings by name, the result of `pack`, the outputs for it) that returns the outputs, if
        they differ from those for ids: for example a part of the input text. None: they do not differ.
    """

    inputs: Mapping[str, Sequence[int | None]]
    pack: Callable[..., dict]
    answer: Callable[[dict, dict, dict], dict] | None = None


def export_model(
    export_dir: str, model: keras.Model, tokenizer: FullTokenizer, features: Mapping[str, tf.io.FixedLenFeature],
    outputs: Callable[[dict], dict], text: TextSignature, more_texts: Mapping[str, TextSignature] | None = None,
    label_names: Sequence[str] | None = None,
) -> None:
    """Writes a SavedModel with three signatures, besides `more_texts`:

      serving_default   raw text: `text`
      ids               an int32 tensor [batch, length] for each name in features; any length up to the model's limit
      examples          serialized tf.Examples with the features, string [batch], as in the release

    The vocabulary is among its assets, and so are the names of the labels if there are any (label_names.txt).
    `features` are the model's inputs as features of a tf.Example (see sequence_features). `outputs` makes the outputs
    to serve, tensors [batch, ...] by name, from those of the model.
    """
    module = tf.Module()
    module.tokenizer = GraphTokenizer(tokenizer)
    module.vocabulary = tf.saved_model.Asset(tokenizer.vocabulary_file)
    texts = {RAW_TEXT: text, **(more_texts or {})}
    with weights_computed_once(model) as variables:
        signatures = _signatures(model, module.tokenizer, features, outputs, texts)
        module.weights = variables()  # not the Keras model: much more would be saved than is served
    with output_folder(export_dir) as temporary:
        if label_names:
            label_file = os.path.join(folder_of_this_process(), LABEL_NAMES)
            write_text(label_file, "".join(f"{name}\n" for name in label_names))
            module.label_names = tf.saved_model.Asset(label_file)
        tf.saved_model.save(module, temporary, signatures)


def _signatures(
    model: keras.Model, graph_tokenizer: GraphTokenizer, features: Mapping[str, tf.io.FixedLenFeature],
    outputs: Callable[[dict], dict], texts: Mapping[str, TextSignature],
) -> dict[str, Callable]:
    """The graphs of export_model's signatures, by name."""
    def from_inputs(inputs: dict) -> dict:
        return outputs(model({name: tf.cast(tensor, tf.int32) for name, tensor in inputs.items()}))

    def text_graph(signature: TextSignature) -> tf.types.experimental.ConcreteFunction:
        def from_text(**strings: tf.Tensor) -> dict:
            inputs = signature.pack(graph_tokenizer, **strings)
            served = from_inputs({name: inputs[name] for name in features})
            return signature.answer(strings, inputs, served) if signature.answer else served

        return graph(from_text, **{name: tf.TensorSpec(shape, tf.string, name)
                                   for name, shape in signature.inputs.items()})

    id_specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in features}
    return {
        **{name: text_graph(signature) for name, signature in texts.items()},
        IDS: graph(lambda **inputs: from_inputs(inputs), **id_specs),
        EXAMPLES: graph(lambda examples: from_inputs(tf.io.parse_example(examples, dict(features))),
                        tf.TensorSpec([None], tf.string, "examples")),
    }


def best_label(logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """The outputs of a model that chooses one of several labels, from logits [batch, labels]."""
    return dict(probabilities=tf.nn.softmax(logits), predictions=tf.argmax(logits, -1, output_type=tf.int32))


def graph(
    function: Callable, *specs: tf.TypeSpec, **named_specs: tf.TypeSpec
) -> tf.types.experimental.ConcreteFunction:
    """Traces the graph of a function for inputs of these specs. Its control flow must not depend on tensors.

    AutoGraph is off, since it would read the function's source file again, which may have changed.
    """
    return tf.function(function, autograph=False).get_concrete_function(*specs, **named_specs)


def sequence_features(max_seq_length: int, num_windows: int = 1) -> dict[str, tf.io.FixedLenFeature]:
    """The encoder's inputs as features of a tf.Example with num_windows rows of max_seq_length tokens."""
    shape = [max_seq_length] if num_windows == 1 else [num_windows, max_seq_length]
    return {name: tf.io.FixedLenFeature(shape, tf.int64) for name in ENCODER_INPUTS}


class BatchedModel:
    """A model for export_model that computes rows in batches, so that its memory does not grow with their number.

    `outputs` has names and data types of the outputs to return, [rows, ...] each.
    """

    def __init__(self, model: keras.Model, outputs: Mapping[str, tf.DType], batch_size: int):
        self._model, self._outputs, self._batch_size = model, outputs, batch_size

    @property
    def variables(self) -> list[tf.Variable]:
        """The model's variables."""
        return self._model.variables

    def __call__(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The model's outputs for all rows, computed batch by batch."""
        num_rows = tf.shape(next(iter(inputs.values())))[0]
        # Batches have nearly equal sizes, so that the padding has fewer rows than there are batches.
        num_batches = tf.maximum(-(-num_rows // self._batch_size), 1)
        size = -(-num_rows // num_batches)

        def batched(values: tf.Tensor) -> tf.Tensor:
            filled = tf.pad(values, [[0, num_batches * size - num_rows], [0, 0]])
            return tf.reshape(filled, [num_batches, size, tf.shape(values)[1]])

        def unbatched(values: tf.Tensor) -> tf.Tensor:
            shape = tf.concat([[num_batches * size], tf.shape(values)[2:]], axis=0)
            return tf.ensure_shape(tf.reshape(values, shape)[:num_rows], [None, *values.shape[2:]])

        def outputs_of(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            outputs = self._model(batch)
            return {name: outputs[name] for name in self._outputs}

        outputs = tf.map_fn(outputs_of, {name: batched(values) for name, values in inputs.items()},
                            fn_output_signature=dict(self._outputs), parallel_iterations=1)
        return {name: unbatched(values) for name, values in outputs.items()}


@contextlib.contextmanager
def weights_computed_once(model: keras.Model) -> Iterator[Callable[[], list[tf.Variable]]]:
    """Within the block, graphs that are traced read the results of weights_for_step from variables.

    In bfloat16 these variables are half as large as the weights that they replace, and computing them takes a tenth of
    the time of a short request. In float32 nothing is replaced. Yields a function that returns all variables that the
    graphs may read.
    """
    layers = [layer for layer in layers_in(model)
              if isinstance(layer, (AttentionBlock, FeedForwardBlock, Embeddings)) and layer.compute_dtype != "float32"]
    computed = [_ComputedOnce(layer.weights_for_step) for layer in layers]
    replaced = {id(variable) for layer in layers if not isinstance(layer, Embeddings)
                for variable in keras.tf_variables(layer)}

    def variables() -> list[tf.Variable]:
        kept = [variable for variable in keras.tf_variables(model) if id(variable) not in replaced]
        return kept + [variable for weights in computed for variable in weights.variables()]

    for layer, weights in zip(layers, computed):
        layer.weights_for_step = weights  # type: ignore[method-assign]  # for this layer, until the block ends
    try:
        yield variables
    finally:
        for layer in layers:
            del layer.weights_for_step  # restores the method of the class


class _ComputedOnce:
    """A layer's weights_for_step that computes its results in the first call and keeps them in variables."""

    def __init__(self, make: Callable):
        self._make = make
        self._kept: Any = None

    def variables(self) -> list[tf.Variable]:
        return [] if self._kept is None else tf.nest.flatten(self._kept)

    def __call__(self) -> Any:
        if self._kept is None:
            with tf.init_scope():  # outside the graph that is traced
                self._kept = tf.nest.map_structure(lambda tensor: tf.Variable(tensor, trainable=False), self._make())
        return tf.nest.map_structure(tf.convert_to_tensor, self._kept)


def exported_outputs(model: keras.Model, inputs: Mapping) -> dict:
    """The outputs for the whole model, without pooled_output if the pooler is random."""
    left_out = (*_INNER_OUTPUTS, *(["pooled_output"] if has_only_random_pooled_output(model) else []))
    return {name: output for name, output in model(inputs).items()
            if name not in left_out and not isinstance(output, (list, tuple))}


class ModelWithRunner:
    """A Keras model with outputs that `run` computes. Functions that predict from text take it like the model."""

    def __init__(self, model: keras.Model, run: Callable[[Mapping], Mapping], max_seq_length: int | None):
        self._model, self._run, self.config = model, run, model.config
        self.settings = model.settings.replaced(max_seq_length=max_seq_length)
        self.row_length = self.settings.row_length(model.config)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

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
    """The largest difference between `run` and the model, for each output."""
    expected, actual = exported_outputs(model, inputs), run(inputs)
    return {name: float(np.max(np.abs(np.asarray(actual[name], np.float32) - tf.cast(expected[name], tf.float32))))
            for name in actual}


def print_differences(path: str, content: bytes, differences: dict[str, float]) -> None:
    """Prints the size of an exported model and its differences from the original model."""
    print(f"{path}: {len(content) / 1e6:.1f} MB; largest difference from the model's outputs:")
    for name, difference in differences.items():
        print(f"    {name:<20}{difference:.2g}")


def with_precision(model: ConfiguredModel, precision: str | None) -> ConfiguredModel:
    """The model with the same weights, computing in float32 or mixed_bfloat16; None for no change."""
    if not precision:
        return model
    policy = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(precision)
    try:
        return copy_of(model)
    finally:
        keras.mixed_precision.set_global_policy(policy)
