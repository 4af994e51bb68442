"""Reads and writes what makes a Hugging Face folder a CrossEncoder of sentence-transformers: the function of the score.

    config_sentence_transformers.json   (from version 6 on) "model_type": "CrossEncoder", "activation_fn"
    config.json                         (before) "sentence_transformers": {"activation_fn": ...}; all versions read it
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from albert_tf.modeling.pooling import ACTIVATIONS
from albert_tf.utils.json_files import read_json_object
from albert_tf.weights.hugging_face import CONFIG

_CONFIG = "config_sentence_transformers.json"
_PATHS = dict(sigmoid="torch.nn.modules.activation.Sigmoid", identity="torch.nn.modules.linear.Identity")
_VERSION = "4.0.1"  # of the form that is written
_BEFORE_VERSION_4 = "sbert_ce_default_activation_function"


def is_cross_encoder(folder: str) -> bool:
    """Whether sentence-transformers from version 6 on has saved a CrossEncoder here."""
    path = os.path.join(folder, _CONFIG)
    return tf.io.gfile.exists(path) and read_json_object(path).get("model_type") == "CrossEncoder"


def activation_fn_in(folder: str) -> str | None:
    """The function of the score, one of ACTIVATIONS; None if the folder is no CrossEncoder.

    Raises:
      ValueError: a file is damaged, or there is another function.
    """
    file, path = os.path.join(folder, CONFIG), None
    values = read_json_object(file)
    own = values.get("sentence_transformers")
    if is_cross_encoder(folder):
        file = os.path.join(folder, _CONFIG)
        path = read_json_object(file).get("activation_fn", _PATHS["sigmoid"])
    elif isinstance(own, dict):
        path = own.get("activation_fn")
    else:
        path = values.get(_BEFORE_VERSION_4)
    if path is None:
        return None
    name = str(path).rpartition(".")[2].lower()
    if name not in ACTIVATIONS:
        raise ValueError(f"{file}: the activation of a CrossEncoder must be one of {', '.join(_PATHS.values())}. "
                         f"Received: {path!r}")
    return name


def config_entries(activation_fn: str) -> dict[str, Any]:
    """The entries of config.json with the function of the score."""
    return dict(sentence_transformers=dict(activation_fn=_PATHS[activation_fn], version=_VERSION))
