"""ConfiguredModel: the base class of all models, which makes Keras' save, load, clone, compile and fit work."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.inputs import encoder_input_specs, refuse_texts
from albert_tf.utils.files import check_one_line


class ConfiguredModel(keras.Model):
    """A Keras model that is built from an AlbertConfig. The constructor makes all of its variables.

    A subclass is decorated with `register`, lists the outputs of its head in HEAD_OUTPUTS, lists further arguments of
    its constructor in ARGUMENTS, and has each of them as an attribute.

    In compile and fit, a loss or metric is applied to the head's output. For a head with several outputs, losses,
    metrics, labels and sample weights are dicts by the output's name, or one value for all outputs. predict and export
    return the head's outputs only.

    Args:
      config: the model's config.
      max_seq_length: the largest number of tokens of a row when raw text is read; None: the default of the code
        that reads it. The model itself takes rows of any length.
    """

    HEAD_OUTPUTS: tuple[str, ...] = ()
    ARGUMENTS: tuple[str, ...] = ()

    def __init__(self, config: AlbertConfig, max_seq_length: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.config, self.max_seq_length = config, max_seq_length

    @property
    def row_length(self) -> int:
        """The largest number of tokens of a row: max_seq_length, or all positions if it is None."""
        positions = self.config.max_position_embeddings
        return min(self.max_seq_length or positions, positions)

    def build(self, input_shape=None):
        """Does nothing, since the constructor has made all variables."""
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, for Keras."""
        arguments = {name: getattr(self, name) for name in ("max_seq_length", *self.ARGUMENTS)}
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
        """Names, shapes and types of the inputs for predictions. All are int32.

        Args:
          batch_size: number of examples; None for any number.
          seq_length: tokens of each row; None for any number.
          num_predictions: masked_lm_positions of each example (AlbertPretrainer only); None for any number.
        """
        return encoder_input_specs(batch_size, seq_length)

    def export(self, filepath, **kwargs):
        """Writes a SavedModel. Its endpoint `serve` maps a dict of inputs of any length to the head's outputs."""
        archive = keras.export.ExportArchive()
        archive.track(self)
        archive.add_endpoint("serve", lambda inputs: self.exported_outputs(self(inputs)), [self.input_specs()])
        archive.write_out(filepath, **kwargs)

    def __call__(self, inputs, *args, **kwargs):
        """The same as in Keras, but raises ValueError for texts, in one line."""
        refuse_texts(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def fit(self, x=None, *args, **kwargs):
        """The same as in Keras, but raises ValueError for texts, in one line."""
        refuse_texts(x)
        return super().fit(x, *args, **kwargs)

    def evaluate(self, x=None, *args, **kwargs):
        """The same as in Keras, but raises ValueError for texts, in one line."""
        refuse_texts(x)
        return super().evaluate(x, *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """The same as in Keras, but raises ValueError for texts, in one line."""
        refuse_texts(x)
        return super().predict(x, *args, **kwargs)

    def predict_step(self, data):
        """The same as in Keras, but returns the outputs of the head only."""
        return self.head_outputs(super().predict_step(data))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
        """The same as in Keras, for the outputs of the head."""
        return super().compute_loss(x, y, self._compiled_outputs(y_pred, y), sample_weight)

    def compute_metrics(self, x, y, y_pred, sample_weight):
        """The same as in Keras, for the outputs of the head."""
        return super().compute_metrics(x, y, self._compiled_outputs(y_pred, y), sample_weight)

    def head_outputs(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of the head, without those of the encoder."""
        return {name: outputs[name] for name in self.HEAD_OUTPUTS if name in outputs}

    def exported_outputs(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of the head that an export has."""
        return self.head_outputs(outputs)

    def _compiled_outputs(self, outputs, labels):
        """The arguments of losses and metrics: a dict, or the tensor itself for a single output without a name."""
        outputs = self.head_outputs(outputs)
        are_named = isinstance(labels, dict) or isinstance(self.compiled_loss._user_losses, dict)
        return outputs if len(outputs) > 1 or are_named else next(iter(outputs.values()))


def register(model_class: type) -> type:
    """Class decorator that registers a model class, so that Keras finds it when it loads a saved model."""
    return keras.saving.register_keras_serializable(package="albert_tf")(model_class)


def checked_label_names(label_names: Sequence[str] | None, num_labels: int) -> tuple[str, ...] | None:
    """The names of a classifier's labels as a tuple.

    Raises:
      ValueError: their number is not num_labels, or a name has a line break: names are stored one per line.
    """
    if label_names is None:
        return None
    if len(label_names) != num_labels:
        raise ValueError(f"label_names must have num_labels={num_labels} names. Received: {len(label_names)}")
    for name in label_names:
        check_one_line(name, "a name in label_names")
    return tuple(label_names)
