"""ConfiguredModel: the base class of all models, which makes Keras' save, load, clone, compile and fit work."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Mapping

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.settings import Settings


class ConfiguredModel(keras.Model):
    """A Keras model that is built from an AlbertConfig. The constructor makes all of its variables.

    A subclass is decorated with `register`, lists the outputs of its head in HEAD_OUTPUTS, and names the class of its
    settings. Its constructor takes settings by their names; further arguments are attributes of a model.

    In compile and fit, a loss or metric is applied to the head's output. For a head with several outputs, losses,
    metrics, labels and sample weights are dicts by the output's name, or one value for all outputs. predict and export
    return the head's outputs only.

    Attributes:
      settings: what the model is told besides its config and the arguments that are attributes.
    """

    HEAD_OUTPUTS: tuple[str, ...] = ()
    SETTINGS: type[Settings]
    # Whether the outputs of the head depend on the pooler.
    uses_pooler: bool = False

    def __init__(self, config: AlbertConfig, **keywords):
        settings = {name: keywords.pop(name) for name in self.SETTINGS.argument_names() if name in keywords}
        super().__init__(**keywords)
        self.config, self.settings = config, self.SETTINGS(**settings)

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """The names of the constructor's arguments besides the config: its own, and the settings."""
        own = [name for name, each in inspect.signature(cls).parameters.items() if each.kind != each.VAR_KEYWORD]
        return tuple(dict.fromkeys([*own[1:], *cls.SETTINGS.argument_names()]))

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments besides the config, by name."""
        settings = self.SETTINGS.names()
        return {name: getattr(self.settings if name in settings else self, name) for name in self.argument_names()}

    @property
    def row_length(self) -> int:
        """The largest number of tokens of a row when raw text is read."""
        return self.settings.row_length(self.config)

    def build(self, input_shape=None):
        """Does nothing, since the constructor has made all variables."""
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, for Keras. Raises ValueError if the model has low-rank adapters."""
        if any("/lora_" in weight.name for weight in self.weights):
            raise ValueError("a model with low-rank adapters cannot be saved or cloned: first add them to its kernels, "
                             "by merge_adapters in albert_tf.modeling.adapters")
        return dict(name=self.name, trainable=self.trainable, config=self.config.to_dict(), **self.arguments())

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
        """The same as in Keras, but raises ValueError within a model of Keras 3, which would not train our weights."""
        keras_3 = sys.modules.get("keras.src.backend.common.global_state")  # of Keras 3 alone
        if keras_3 and keras_3.get_global_attribute("current_call_ctx"):
            raise ValueError("this model is of Keras 2 and cannot be part of a model of Keras 3: take layers and "
                             "models of `from albert_tf import keras`")
        return super().__call__(inputs, *args, **kwargs)

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
        outputs = {name: outputs[name] for name in self.HEAD_OUTPUTS if name in outputs}
        are_named = isinstance(labels, dict) or isinstance(self.compiled_loss._user_losses, dict)
        return outputs if len(outputs) > 1 or are_named else next(iter(outputs.values()))


def copy_of(model: ConfiguredModel) -> ConfiguredModel:
    """A model with the same arguments and weights, in the precision of the global policy and without an optimizer.

    Weights are found by their names, since a frozen layer within others changes the order of `model.weights`.
    """
    weights = {weight.name: weight for weight in model.weights}
    copy = type(model).from_config(model.get_config())
    for weight in copy.weights:
        weight.assign(weights[weight.name])
    return copy


def register(model_class: type) -> type:
    """Class decorator that registers a model class, so that Keras finds it when it loads a saved model."""
    return keras.saving.register_keras_serializable(package="albert_tf")(model_class)


ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def encoder_input_specs(batch_size: int | None = None, seq_length: int | None = None) -> dict[str, tf.TensorSpec]:
    """The specs of the encoder's inputs, int32 [batch_size, seq_length] each; None means any size."""
    return {name: tf.TensorSpec([batch_size, seq_length], tf.int32, name) for name in ENCODER_INPUTS}


def as_rows(inputs: Mapping, several: str) -> tuple[dict[str, tf.Tensor], int | tf.Tensor | None]:
    """The encoder's inputs with one sequence in each row.

    Args:
      inputs: [batch, seq], or with several sequences side by side, [batch, n, seq].

    Returns:
      the inputs as [batch * n, seq], and n; None in place of n if the inputs were [batch, seq].
    """
    has_several = (isinstance(inputs, Mapping) and "input_ids" in inputs
                   and tf.convert_to_tensor(inputs["input_ids"]).shape.rank == 3)
    tensors = required(inputs, ENCODER_INPUTS, f"[batch, {several}, seq]" if has_several else "[batch, seq]")
    if not has_several:
        return dict(zip(ENCODER_INPUTS, tensors)), None
    static, shape = tensors[0].shape, tf.shape(tensors[0])
    count, seq = (shape[axis] if static[axis] is None else static[axis] for axis in (1, 2))
    return {name: tf.reshape(tensor, [-1, seq]) for name, tensor in zip(ENCODER_INPUTS, tensors)}, count


def side_by_side(rows: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """The reverse of as_rows, for a tensor with static sizes behind the rows: [batch * n, ...] to [batch, n, ...]."""
    return tf.reshape(rows, [-1, count, *rows.shape[1:]])


def required(inputs: Mapping, names: tuple[str, ...], shape: str) -> list[tf.Tensor]:
    """Returns the tensors with the given names, which must all have the same shape.

    Args:
      shape: the required shape in words, such as "[batch, seq]". Only its rank is checked.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(f"the model takes a dict of {', '.join(names)}, ..., which the tokenizer makes of texts. "
                         f"Received: {type(inputs).__name__}")
    missing = [name for name in names if name not in inputs]
    if missing:
        raise ValueError(f"missing input: {', '.join(missing)}. Received: {', '.join(inputs)}")
    tensors = [tf.convert_to_tensor(inputs[name]) for name in names]
    for name, tensor in zip(names, tensors):
        if tensor.shape.rank != shape.count(",") + 1 or not tensor.shape.is_compatible_with(tensors[0].shape):
            like = f"; {names[0]} of shape {tensors[0].shape}" if tensor is not tensors[0] else ""
            raise ValueError(f"{name} must be {shape}. Received: {name} of shape {tensor.shape}{like}")
    return tensors
