"""ConfiguredModel: what Keras needs of all models here, so that save, load, clone, compile and fit work."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.inputs import encoder_input_specs


class ConfiguredModel(keras.Model):
    """A Keras model that is built from an AlbertConfig and has all of its variables from the start.

    A subclass registers itself with `register`, names its own outputs in HEAD_OUTPUTS, and mirrors each further
    argument of its constructor as an attribute that ARGUMENTS names.

    Args:
      config: of the encoder.

    compile and fit: a loss or metric is applied to the head's output. Where a head has several outputs, losses,
    metrics, labels and sample weights are dicts by output, or one value for all of them. predict and export give the
    head's outputs alone.
    """

    HEAD_OUTPUTS: tuple[str, ...] = ()
    ARGUMENTS: tuple[str, ...] = ()

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    def build(self, input_shape=None):
        """Does nothing: the constructor has made all variables."""
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, for Keras."""
        arguments = {name: getattr(self, name) for name in self.ARGUMENTS}
        return dict(name=self.name, trainable=self.trainable, config=self.config.to_dict(), **arguments)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> ConfiguredModel:
        """The model that `get_config` describes."""
        arguments = dict(config)
        trainable = arguments.pop("trainable", True)
        model = cls(AlbertConfig.from_dict(arguments.pop("config")), **arguments)
        model.trainable = trainable
        return model

    def input_specs(
        self, batch_size: int | None = None, seq_length: int | None = None, num_predictions: int | None = None
    ) -> dict[str, tf.TensorSpec]:
        """Names and shapes of the inputs that predictions need, all int32; None stands for any number.

        Args:
          batch_size: examples.
          seq_length: tokens of each row.
          num_predictions: masked_lm_positions of an example, of a pre-trainer.
        """
        return encoder_input_specs(batch_size, seq_length)

    def export(self, filepath, **kwargs):
        """Writes a SavedModel with the endpoint `serve`, from a dict of inputs of any length to the head's outputs."""
        archive = keras.export.ExportArchive()
        archive.track(self)
        archive.add_endpoint("serve", lambda inputs: self.head_outputs(self(inputs)), [self.input_specs()])
        archive.write_out(filepath, **kwargs)

    def predict_step(self, data):
        """Keras' own, with the outputs of the head alone."""
        return self.head_outputs(super().predict_step(data))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
        """Keras' own, over the outputs that have a loss."""
        return super().compute_loss(x, y, self._compiled_outputs(y_pred, y), sample_weight)

    def compute_metrics(self, x, y, y_pred, sample_weight):
        """Keras' own, over the outputs that have a metric."""
        return super().compute_metrics(x, y, self._compiled_outputs(y_pred, y), sample_weight)

    def head_outputs(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of the head, without those of the encoder below it."""
        return {name: outputs[name] for name in self.HEAD_OUTPUTS if name in outputs}

    def _compiled_outputs(self, outputs, labels):
        """The outputs that losses and metrics see: the tensor itself where there is one and nobody says its name."""
        outputs = self.head_outputs(outputs)
        are_named = isinstance(labels, dict) or isinstance(self.compiled_loss._user_losses, dict)
        return outputs if len(outputs) > 1 or are_named else next(iter(outputs.values()))


def register(model_class: type) -> type:
    """Class decorator: Keras finds the class by its name when it loads a model."""
    return keras.saving.register_keras_serializable(package="albert_tf")(model_class)
