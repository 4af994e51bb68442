"""Checkpoints of google-research/bert: other names than ALBERT's release in the encoder, and bert_config.json."""

from __future__ import annotations

import json
import os
import re

from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
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


def with_release_names(checkpoint: StoredModel) -> StoredModel:
    """A checkpoint of BERT with the release's variable names, and with the bert_config.json next to it."""
    keys = {release_name_of(key): key for key in checkpoint.shapes}
    config_path = os.path.join(os.path.dirname(checkpoint.path), CONFIG_NAME)
    return checkpoint.renamed(keys, read_config=lambda: AlbertConfig.from_json_file(config_path, is_bert=True))


def write_bert_config(config: AlbertConfig, directory: str) -> None:
    """Writes bert_config.json.

    Raises:
      ValueError: the model is not a BERT.
    """
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
