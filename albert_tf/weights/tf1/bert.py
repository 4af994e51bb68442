"""Checkpoints of google-research/bert and of brightmart/albert_zh, whose variables have names of their own.

BERT has other names than ALBERT's release in the encoder, and bert_config.json. albert_zh has the same names of layers,
in "layer_shared". It projects word embeddings [V, E] to the hidden size H before it adds segments and positions [., H],
and the release after it. So a checkpoint is read as a model with E = H, whose word table [V, H] is the product of
albert_zh's table and projection. The masked-LM head of albert_zh multiplies by the same product. The outputs are equal,
and the word table is larger than in the checkpoint.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import os
import re

import tensorflow as tf
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.utils.files import errors_at, read_json_object
from albert_tf.utils.outputs import write_text
from albert_tf.weights.stored_model import StoredModel

CONFIG_NAME, PREFIX = "bert_config.json", "bert_model.ckpt"
_LAYER = re.compile(r"bert/encoder/layer_(\d+)/(.+)/(\w+)")
# The names of a block's layers in ALBERT's release, and in BERT's release.
LAYERS = {
    "attention_1/self/query": "attention/self/query",
    "attention_1/self/key": "attention/self/key",
    "attention_1/self/value": "attention/self/value",
    "attention_1/output/dense": "attention/output/dense",
    "LayerNorm": "attention/output/LayerNorm",
    "ffn_1/intermediate/dense": "intermediate/dense",
    "ffn_1/intermediate/output/dense": "output/dense",
    "LayerNorm_1": "output/LayerNorm",
}
_OURS = {theirs: ours for ours, theirs in LAYERS.items()}
# Names of albert_zh.
_SHARED = "bert/encoder/layer_shared/"
_WORDS = "bert/embeddings/word_embeddings"
_PROJECTION = f"{_WORDS}_2"
_CONFIGS = "*config*.json"  # albert_config_base.json, albert_config_tiny.json, ...


def with_release_names(checkpoint: StoredModel) -> StoredModel:
    """A checkpoint of BERT with the release's variable names, and with the bert_config.json next to it."""
    keys = {release_name_of(key): key for key in checkpoint.shapes}
    config_path = os.path.join(os.path.dirname(checkpoint.path), CONFIG_NAME)
    return checkpoint.renamed(keys, read_config=lambda: AlbertConfig.from_json_file(config_path, is_bert=True))


def write_bert_config(config: AlbertConfig, directory: str) -> None:
    """Writes bert_config.json."""
    if not config.is_bert:
        raise ValueError("only a model with cross_layer_sharing none and an embedding_size that equals hidden_size is "
                         f"a BERT. Received: cross_layer_sharing={config.cross_layer_sharing!r}, "
                         f"embedding_size={config.embedding_size}, hidden_size={config.hidden_size}")
    if config.hidden_act == "gelu_exact":  # Hugging Face's configs have it also for weights that Google trained
        logging.warning("google-research/bert computes gelu with the tanh approximation, this model with the error "
                        "function: outputs will differ slightly there")
        config = config.replace(hidden_act="gelu")
    values = config.to_bert_dict()
    write_text(os.path.join(directory, CONFIG_NAME), json.dumps(values, indent=2, sort_keys=True) + "\n")


def release_name_of(key: str) -> str:
    """The name in ALBERT's release of a variable of BERT's release. Names outside the layers are equal."""
    match = _LAYER.fullmatch(key)
    if not match or match[2] not in _OURS:
        return key
    return f"{block_scope(int(match[1]))}/{_OURS[match[2]]}/{match[3]}"


def bert_name_of(name: str) -> str:
    """The reverse of release_name_of."""
    block = block_variable(name)
    if not block or block.inner:
        return name
    layer, _, variable = block.name.rpartition("/")
    return f"bert/encoder/layer_{block.group}/{LAYERS[layer]}/{variable}"


def zh_with_release_names(checkpoint: StoredModel) -> StoredModel:
    """A checkpoint of albert_zh with the release's variable names, and the config in its folder."""
    keys = {_zh_release_name(key): key for key in checkpoint.shapes if not key.startswith(_PROJECTION)}
    table, projection = (list(checkpoint.shapes.get(key, ())) for key in (_WORDS, _PROJECTION))
    if len(table) != 2 or len(projection) != 2 or table[1] != projection[0]:
        raise ValueError(f"{checkpoint.path}: {_WORDS} must be [V, E] and {_PROJECTION} [E, H]. Received shapes: "
                         f"{table} and {projection}")
    source = checkpoint.renamed(keys, read_config=lambda: _zh_config(checkpoint.path))

    def read(name: str) -> tf.Tensor:
        if name == _WORDS:
            return tf.matmul(checkpoint.read(_WORDS), checkpoint.read(_PROJECTION))  # [V, H]
        return source.read(name)

    return dataclasses.replace(source, shapes={**source.shapes, _WORDS: [table[0], projection[1]]}, read=read)


def _zh_release_name(key: str) -> str:
    """The release's name of a variable; variables outside of the layers have the same name there."""
    if not key.startswith(_SHARED):
        return key
    layer, _, variable = key[len(_SHARED):].rpartition("/")
    return next((f"{block_scope(0)}/{ours}/{variable}" for ours, theirs in LAYERS.items() if theirs == layer), key)


def _zh_config(prefix: str) -> AlbertConfig:
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
