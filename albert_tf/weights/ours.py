"""This package's own checkpoints as a Source with the release's names. Their keys are the paths of Keras objects.

With the release's names, a checkpoint of one kind of model can be loaded into any other that shares some of its
variables.
"""

from __future__ import annotations

import dataclasses

from albert_tf.training.checkpoints import saved_step
from albert_tf.weights.source import Source

_END = "/.ATTRIBUTES/VARIABLE_VALUE"


def is_ours(checkpoint: Source) -> bool:
    """Whether a checkpoint was written by tf.train.Checkpoint, and not by TensorFlow 1."""
    return "_CHECKPOINTABLE_OBJECT_GRAPH" in checkpoint.shapes


def our_source(checkpoint: Source) -> Source:
    """The model in one of this package's checkpoints, without optimizer, step and counters."""
    keys = {_release_name(key): key for key in checkpoint.shapes if _is_of_the_model(key)}
    return dataclasses.replace(checkpoint, shapes={name: checkpoint.shapes[key] for name, key in keys.items()},
                               read=lambda name: checkpoint.read(keys[name]),
                               read_step=lambda: saved_step(checkpoint.path))


def _is_of_the_model(key: str) -> bool:
    return key.startswith("model/") and key.endswith(_END) and ".OPTIMIZER_SLOT" not in key


def _release_name(key: str) -> str:
    """The variable's name, which ends its key. Slashes are written as ".S"; names in a TF-Hub module end with ":0"."""
    return key[: -len(_END)].rpartition("/")[2].replace(".S", "/").split(":")[0]
