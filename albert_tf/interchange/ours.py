"""Our own checkpoints, whose keys are the paths of Keras objects, as a source under the release's names.

So a checkpoint of one kind of model serves any other that shares some of its variables.
"""

from __future__ import annotations

import dataclasses

from albert_tf.interchange.source import Source

_END = "/.ATTRIBUTES/VARIABLE_VALUE"


def is_ours(checkpoint: Source) -> bool:
    """Whether a checkpoint that was opened by its own keys is tf.train.Checkpoint's, and not TensorFlow 1's."""
    return "_CHECKPOINTABLE_OBJECT_GRAPH" in checkpoint.shapes


def our_source(checkpoint: Source) -> Source:
    """The model's part of one of our checkpoints; optimizer, step and counters are left out."""
    keys = {_release_name(key): key for key in checkpoint.shapes if _is_of_the_model(key)}
    return dataclasses.replace(checkpoint, shapes={name: checkpoint.shapes[key] for name, key in keys.items()},
                               read=lambda name: checkpoint.read(keys[name]))


def _is_of_the_model(key: str) -> bool:
    return key.startswith("model/") and key.endswith(_END) and ".OPTIMIZER_SLOT" not in key


def _release_name(key: str) -> str:
    """A key ends in the variable's own name, with its slashes written as ".S"; that of a TF-Hub module's in ":0"."""
    return key[: -len(_END)].rpartition("/")[2].replace(".S", "/").split(":")[0]
