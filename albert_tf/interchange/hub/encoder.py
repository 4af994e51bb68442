"""HubEncoder: a TF2 SavedModel from TF-Hub in the place of AlbertModel, under any head but that of pre-training."""

from __future__ import annotations

import functools

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.inputs import ENCODER_INPUTS, encoder_input_specs, required
from albert_tf.modeling.pretrainer import AlbertPretrainer

_OUTPUTS = ("pooled_output", "sequence_output", "encoder_outputs")


class HubEncoder(keras.Model):
    """A text encoder of TF-Hub's common interface; what variables it has to train are trained with the head's.

    Args:
      path: of the SavedModel.

    Called as AlbertModel; returns its pooled_output, sequence_output and encoder_outputs.

    Raises:
      ValueError: the SavedModel cannot be loaded, or has two variables of one name; from the call, that it is no such
        encoder.
    """

    def __init__(self, path: str, **kwargs):
        import tensorflow_hub

        super().__init__(**kwargs)
        self.path = path
        try:
            module = tensorflow_hub.load(path)
            is_trainable = bool(getattr(module, "trainable_variables", ()))
            self.module = tensorflow_hub.KerasLayer(module, trainable=is_trainable)
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise ValueError(f"{path} cannot be loaded as a SavedModel: {error}") from error
        names = [variable.name for variable in self.module.weights]
        if len(set(names)) < len(names):
            raise ValueError(f"{path} has several variables of the same name: what is trained of it could not be saved")
        if not is_trainable:
            logging.warning("%s has no variables that can be trained: it stays as it is", path)
        self.built = True

    @functools.cached_property
    def config(self) -> AlbertConfig:
        """vocab_size, hidden_size and num_hidden_layers, by the module's variables and outputs; else the defaults."""
        outputs = self({name: tf.ones([1, 4], tf.int32) for name in ENCODER_INPUTS})
        tables = [variable.shape[0] for variable in self.weights if variable.shape.rank == 2]
        return AlbertConfig(vocab_size=max(tables, default=1), hidden_size=outputs["pooled_output"].shape[-1],
                            num_hidden_layers=len(outputs["encoder_outputs"]), num_attention_heads=1)

    def input_specs(self, batch_size=None, seq_length=None, num_predictions=None) -> dict[str, tf.TensorSpec]:
        """As ConfiguredModel.input_specs."""
        return encoder_input_specs(batch_size, seq_length)

    def call(self, inputs, training=False):
        """The outputs of AlbertModel, see there."""
        return self.encode(inputs, dropouts(inputs, training))

    def encode(self, inputs: dict, dropouts) -> dict:
        """`call`, as a head makes it; which units drop is the SavedModel's own affair."""
        input_ids, input_mask, segment_ids = required(inputs, ENCODER_INPUTS, "[batch, seq]")
        try:
            outputs = self.module(dict(input_word_ids=input_ids, input_mask=input_mask, input_type_ids=segment_ids),
                                  training=dropouts.training)
            return {name: outputs[name] for name in _OUTPUTS}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path} is no text encoder of TF-Hub: it must take input_word_ids, input_mask and "
                             f"input_type_ids, and give {', '.join(_OUTPUTS)}") from error


def use_module(model: keras.Model, path: str) -> HubEncoder:
    """Puts a SavedModel in the place of a model's encoder.

    Args:
      model: one of albert_tf.modeling with a head, before it is compiled.
      path: of the SavedModel.

    Raises:
      ValueError: the head needs more than the SavedModel gives, or is of another width.
    """
    if isinstance(model, AlbertPretrainer) or not hasattr(model, "albert"):
        raise ValueError(f"{path} is used as the encoder it is, and cannot become {type(model).__name__}")
    with model.distribute_strategy.scope():
        encoder = HubEncoder(path)
    width = encoder.config.hidden_size
    if width != model.config.hidden_size:
        raise ValueError(f"{path} is of another model: its hidden_size is {width}, and {model.config.hidden_size} is "
                         "wanted")
    model.albert = encoder
    return encoder
