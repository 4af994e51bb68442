"""The precision of a model that is exported, which need not be the one in which it was trained."""

from __future__ import annotations

from albert_tf import keras
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.configured_model import ConfiguredModel

SERVED_PRECISIONS = ("float32", "mixed_bfloat16")


def with_precision(model: ConfiguredModel, precision: str | None) -> ConfiguredModel:
    """The model with the same weights, computing in another precision.

    Args:
      model: the model to export.
      precision: one of SERVED_PRECISIONS; None for the model's own.

    Raises:
      ValueError: a precision is set for a model whose encoder is a TF2 module, whose graph has its own.
    """
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
