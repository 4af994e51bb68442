"""HubEncoder: a TF2 SavedModel from TF-Hub that replaces AlbertModel under any head except those of pre-training."""

from __future__ import annotations

import functools
import inspect

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.configured_model import ENCODER_INPUTS, encoder_input_specs, required
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.pretrainer import AlbertPretrainer

_OUTPUTS = ("pooled_output", "sequence_output", "encoder_outputs")


class HubEncoder(keras.Model):
    """A text encoder with TF-Hub's common interface. Its trainable variables are trained with those of the head.

    Call it with AlbertModel's inputs. It returns AlbertModel's pooled_output, sequence_output and encoder_outputs.
    """

    def __init__(self, path: str, **kwargs):
        super().__init__(**kwargs)
        self.built = True
        self.path = path
        try:
            self.module = tf.saved_model.load(path)
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise ValueError(f"{path} cannot be loaded as a SavedModel: {error}") from error
        trainable = {id(variable) for variable in getattr(self.module, "trainable_variables", ())}
        for variable in sorted(getattr(self.module, "variables", ()), key=lambda each: id(each) not in trainable):
            # A checkpoint has a variable by the name with which it is added.
            self.add_weight(variable.name.split(":")[0], variable.shape, variable.dtype,
                            trainable=id(variable) in trainable, getter=lambda *_, own=variable, **__: own)
        names = [variable.name for variable in self.weights]
        if len(set(names)) < len(names):
            raise ValueError(f"{path} has several variables with the same name, so its weights could not be saved")
        if not trainable:
            logging.warning("%s has no trainable variables: only the head is trained", path)

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """A config with the module's vocab_size, hidden_size and num_hidden_layers; other values are defaults."""
        outputs = self({name: tf.ones([1, 4], tf.int32) for name in ENCODER_INPUTS})
        tables = [variable.shape[0] for variable in self.weights if variable.shape.rank == 2]
        return AlbertConfig(vocab_size=max(tables, default=1), hidden_size=outputs["pooled_output"].shape[-1],
                            num_hidden_layers=len(outputs["encoder_outputs"]), num_attention_heads=1)

    def input_specs(self, batch_size=None, seq_length=None, num_predictions=None) -> dict[str, tf.TensorSpec]:
        """See ConfiguredModel.input_specs."""
        return encoder_input_specs(batch_size, seq_length)

    def call(self, inputs, training=False):
        """AlbertModel's pooled_output, sequence_output and encoder_outputs."""
        return self.encode(inputs, dropouts(inputs, training))

    def encode(self, inputs: dict, dropouts) -> dict:
        """The same as `call`, for use by a head. The SavedModel applies its own dropout."""
        input_ids, input_mask, segment_ids = required(inputs, ENCODER_INPUTS, "[batch, seq]")
        try:
            takes_training = "training" in inspect.signature(self.module.__call__).parameters
            outputs = self.module(dict(input_word_ids=input_ids, input_mask=input_mask, input_type_ids=segment_ids),
                                  **dict(training=dropouts.training) if takes_training else {})
            return {name: outputs[name] for name in _OUTPUTS}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path} is not a TF-Hub text encoder: it must accept input_word_ids, input_mask and "
                             f"input_type_ids, and return {', '.join(_OUTPUTS)}") from error


def use_module(model: keras.Model, path: str) -> HubEncoder:
    """Replaces a model's encoder by a SavedModel.

    Args:
      model: a model of albert_tf.modeling with a head, which must not be compiled yet.
    """
    if isinstance(model, AlbertPretrainer) or not hasattr(model, "albert"):
        raise ValueError(f"{path} runs its own graph: it can be the encoder of a model with another head, but "
                         f"its weights cannot be loaded into {type(model).__name__}")
    if getattr(model, "exit_heads", False):
        raise ValueError(f"{path} runs its own graph, whose layers cannot be computed one by one: it cannot have exit "
                         "heads")
    with model.distribute_strategy.scope():
        encoder = HubEncoder(path)
    width = encoder.config.hidden_size
    if width != model.config.hidden_size:
        raise ValueError(f"{path} is another model: its hidden_size is {width}, expected {model.config.hidden_size}")
    model.albert = encoder
    return encoder
