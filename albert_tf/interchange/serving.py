"""SavedModels that answer: what a task's script writes with --export_dir.

A process that serves them needs tensorflow and tensorflow_text, which registers the ops of the tokenization, and
nothing of ours.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Mapping, Sequence

import tensorflow as tf

from albert_tf import keras
from albert_tf.files import folder_written_whole
from albert_tf.interchange.served_weights import made_once
from albert_tf.modeling.inputs import ENCODER_INPUTS
from albert_tf.text.graph_tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer

RAW_TEXT, IDS, EXAMPLES = "serving_default", "ids", "examples"


@dataclasses.dataclass(frozen=True)
class TextSignature:
    """A signature that takes strings.

    Args:
      inputs: the names and shapes of the strings: dict(text_a=[None], text_b=[None]).
      pack: from a GraphTokenizer and the strings by name to the model's inputs, int32 [batch, seq]. It must cut what
        is too long for the model.
      answer: see export_model.
    """

    inputs: Mapping[str, Sequence[int | None]]
    pack: Callable[..., dict]
    answer: Callable[[dict, dict, dict], dict] | None = None


def export_model(
    export_dir: str,
    model: keras.Model,
    tokenizer: FullTokenizer,
    features: Mapping[str, tf.io.FixedLenFeature],
    outputs: Callable[[dict], dict],
    text_inputs: Mapping[str, Sequence[int | None]],
    pack: Callable[..., dict],
    answer: Callable[[dict, dict, dict], dict] | None = None,
    more_texts: Mapping[str, TextSignature] | None = None,
) -> None:
    """Writes a SavedModel with three signatures, whose outputs are the same:

      serving_default   raw text: a string tensor of each name in text_inputs
      ids               an int32 tensor [batch, length] of each name in features, of any length that the model takes
      examples          serialized tf.Examples with the features, string [batch], as in the release

    The vocabulary is among its assets.

    Args:
      export_dir: where it goes, written whole; a SavedModel that is there is replaced.
      model: any model of albert_tf.modeling.
      tokenizer: of the model's vocabulary.
      features: what the model takes, as it stands in the records: dict(input_ids=tf.io.FixedLenFeature([128],
        tf.int64), ...).
      outputs: what is served of the model's outputs: from the dict that the model returns, a dict of tensors
        [batch, ...].
      text_inputs: the names and shapes of the raw texts: dict(text_a=[None], text_b=[None]).
      pack: from a GraphTokenizer and the texts by name to the model's inputs, int32 [batch, seq]; data/graph_packing.py
        has it for one and two texts. It must cut what is too long for the model.
      answer: from (texts by name, what `pack` gave, what `outputs` gave) to what is served for raw text, where that is
        not what `outputs` gives: a text cut out of the input by its offsets.
      more_texts: further signatures that take strings, by name.

    Raises:
      ValueError: there is something at export_dir that is not an earlier export.

    Example::

      export_model("served", model, tokenizer, sequence_features(128),
                   outputs=lambda found: dict(probabilities=tf.nn.softmax(found["logits"])),
                   text_inputs=dict(text_a=[None], text_b=[None]),
                   pack=lambda graph_tokenizer, text_a, text_b: pack_texts(graph_tokenizer, 128, text_a, text_b))
    """
    module = tf.Module()
    module.tokenizer = graph_tokenizer = GraphTokenizer(tokenizer)
    module.vocabulary = tf.saved_model.Asset(tokenizer.vocabulary_file)

    def from_inputs(inputs: dict) -> dict:
        return outputs(model({name: tf.cast(tensor, tf.int32) for name, tensor in inputs.items()}))

    def from_text(signature: TextSignature, **texts) -> dict:
        inputs = signature.pack(graph_tokenizer, **texts)
        found = from_inputs({name: inputs[name] for name in features})
        return signature.answer(texts, inputs, found) if signature.answer else found

    def from_examples(examples: tf.Tensor) -> dict:
        return from_inputs(tf.io.parse_example(examples, dict(features)))

    def text_graph(signature: TextSignature):
        specs = {name: tf.TensorSpec(shape, tf.string, name) for name, shape in signature.inputs.items()}
        return graph(functools.partial(from_text, signature), **specs)

    texts = {RAW_TEXT: TextSignature(text_inputs, pack, answer), **(more_texts or {})}
    id_specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in features}
    example_spec = tf.TensorSpec([None], tf.string, "examples")
    with made_once(model) as variables:
        signatures = {
            **{name: text_graph(signature) for name, signature in texts.items()},
            IDS: graph(lambda **inputs: from_inputs(inputs), **id_specs),
            EXAMPLES: graph(from_examples, example_spec),
        }
        module.weights = variables()  # and not the Keras model: SavedModel would keep much more than is served
    with folder_written_whole(export_dir) as temporary:
        tf.saved_model.save(module, temporary, signatures)


def graph(function: Callable, *specs, **named_specs):
    """The graph of a function without control flow that depends on tensors, for inputs of these specs.

    Without AutoGraph, which would read the function's source again: it may have been edited since the script started.
    """
    return tf.function(function, autograph=False).get_concrete_function(*specs, **named_specs)


def sequence_features(max_seq_length: int, num_windows: int = 1) -> dict[str, tf.io.FixedLenFeature]:
    """What every encoder takes, as it stands in records of that length; several windows are side by side there."""
    shape = [max_seq_length] if num_windows == 1 else [num_windows, max_seq_length]
    return {name: tf.io.FixedLenFeature(shape, tf.int64) for name in ENCODER_INPUTS}
