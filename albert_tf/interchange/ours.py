"""Our own checkpoints, whose keys are the paths of Keras objects: into a model of any kind that shares some of them."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.interchange.restoring import RestoreReport, restore
from albert_tf.interchange.tf1 import open_checkpoint

_END = "/.ATTRIBUTES/VARIABLE_VALUE"


def is_ours(prefix: str) -> bool:
    """Whether a checkpoint was written by tf.train.Checkpoint, and not by TensorFlow 1."""
    return "_CHECKPOINTABLE_OBJECT_GRAPH" in open_checkpoint(prefix).get_variable_to_shape_map()


def load_our_checkpoint(model: tf.keras.Model, prefix: str, init_from_group0: bool = False) -> RestoreReport:
    """Puts the model's part of one of our checkpoints into a model. Arguments and errors: as load_tf1_checkpoint."""
    reader = open_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    keys = {_release_name(key): key for key in shapes if _is_of_the_model(key)}
    return restore(model, {name: shapes[key] for name, key in keys.items()}, lambda name: reader.get_tensor(keys[name]),
                   prefix, init_from_group0)


def _is_of_the_model(key: str) -> bool:
    return key.startswith("model/") and key.endswith(_END) and ".OPTIMIZER_SLOT" not in key


def _release_name(key: str) -> str:
    """A key ends in the variable's own name, with its slashes written as ".S"."""
    return key[: -len(_END)].rpartition("/")[2].replace(".S", "/")
