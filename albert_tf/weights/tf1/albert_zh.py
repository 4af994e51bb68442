"""Checkpoints of brightmart/albert_zh, whose layers are named "layer_shared", as a source under the release's names.

albert_zh projects word embeddings [V, E] to the hidden size H before it adds segments and positions [., H], and the
release after it. So a checkpoint is read as a model with E = H, whose word table [V, H] is the product of albert_zh's
table and projection. The masked-LM head of albert_zh multiplies by the same product. The outputs are equal, and the
word table is larger than in the checkpoint.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope
from albert_tf.utils.files import errors_at
from albert_tf.utils.json_files import read_json_object
from albert_tf.weights.stored_model import StoredModel
from albert_tf.weights.tf1.bert import LAYERS

_SHARED = "bert/encoder/layer_shared/"
_WORDS = "bert/embeddings/word_embeddings"
_PROJECTION = f"{_WORDS}_2"
_CONFIGS = "*config*.json"  # albert_config_base.json, albert_config_tiny.json, ...


def with_release_names(checkpoint: StoredModel) -> StoredModel:
    """A checkpoint of albert_zh with the release's variable names, and the config in its folder.

    Raises:
      ValueError: the word table or its projection is missing, or their shapes do not fit together.
    """
    keys = {_release_name(key): key for key in checkpoint.shapes if not key.startswith(_PROJECTION)}
    table, projection = (list(checkpoint.shapes.get(key, ())) for key in (_WORDS, _PROJECTION))
    if len(table) != 2 or len(projection) != 2 or table[1] != projection[0]:
        raise ValueError(f"{checkpoint.path}: {_WORDS} must be [V, E] and {_PROJECTION} [E, H]. Received shapes: "
                         f"{table} and {projection}")
    source = checkpoint.renamed(keys, read_config=lambda: _config(checkpoint.path))

    def read(name: str) -> tf.Tensor:
        if name == _WORDS:
            return tf.matmul(checkpoint.read(_WORDS), checkpoint.read(_PROJECTION))  # [V, H]
        return source.read(name)

    return dataclasses.replace(source, shapes={**source.shapes, _WORDS: [table[0], projection[1]]}, read=read)


def _release_name(key: str) -> str:
    """The release's name of a variable; variables outside of the layers have the same name there."""
    if not key.startswith(_SHARED):
        return key
    layer, _, variable = key[len(_SHARED):].rpartition("/")
    return next((f"{block_scope(0)}/{ours}/{variable}" for ours, theirs in LAYERS.items() if theirs == layer), key)


def _config(prefix: str) -> AlbertConfig:
    directory = os.path.dirname(prefix)
    names = fnmatch.filter(tf.io.gfile.listdir(directory or "."), _CONFIGS)
    names = [name for name in names if not name.startswith("tokenizer")]
    if len(names) != 1:
        raise ValueError(f"{directory or '.'} must have one config of the model ({_CONFIGS}). "
                         f"Received: {', '.join(sorted(names)) or 'none'}")
    path = os.path.join(directory, names[0])
    values = read_json_object(path)
    norm = values.pop("ln_type", "postln")
    if norm != "postln":
        raise ValueError(f"{path}: only LayerNorm after each block can be read. Received: ln_type={norm!r}")
    with errors_at(path):
        return AlbertConfig.from_dict(dict(values, embedding_size=values.get("hidden_size")))
