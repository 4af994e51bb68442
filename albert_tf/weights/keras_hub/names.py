"""Maps the release's names of variables to their places in Keras' weight files, for a backbone and its heads.

A layer is named after its class and its number among the layers of this class, and a variable by its number::

    layers/transformer_encoder_1/_feedforward_output_dense/vars/0

Queries, keys, values and the attention's output have a dimension for the heads: kernels [hidden, heads, size] and
[heads, size, hidden], biases [heads, size].
"""

from __future__ import annotations

import re

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable

_LAYER_NORM, _DENSE = ("gamma", "beta"), ("kernel", "bias")
_OUTSIDE_BLOCKS = {
    "bert/embeddings/word_embeddings": ("reversible_embedding", ("",)),
    "bert/embeddings/position_embeddings": ("position_embedding", ("",)),
    "bert/embeddings/token_type_embeddings": ("embedding", ("",)),
    "bert/embeddings/LayerNorm": ("layer_normalization", _LAYER_NORM),
    "bert/encoder/embedding_hidden_mapping_in": ("dense", _DENSE),
    "bert/pooler/dense": ("dense_1", _DENSE),
}
_IN_BLOCKS = {
    "attention_1/self/query": ("_self_attention_layer/query_dense", _DENSE),
    "attention_1/self/key": ("_self_attention_layer/key_dense", _DENSE),
    "attention_1/self/value": ("_self_attention_layer/value_dense", _DENSE),
    "attention_1/output/dense": ("_self_attention_layer/output_dense", _DENSE),
    "LayerNorm": ("_self_attention_layer_norm", _LAYER_NORM),
    "ffn_1/intermediate/dense": ("_feedforward_intermediate_dense", _DENSE),
    "ffn_1/intermediate/output/dense": ("_feedforward_output_dense", _DENSE),
    "LayerNorm_1": ("_feedforward_layer_norm", _LAYER_NORM),
}
_HEADS: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "classifier": {"": ("dense", ("output_weights", "output_bias"))},
    "pretrainer": {"cls/predictions": ("masked_lm_head", ("output_bias",)),
                   "cls/predictions/transform/dense": ("masked_lm_head/_intermediate_dense", _DENSE),
                   "cls/predictions/transform/LayerNorm": ("masked_lm_head/_intermediate_layer_norm", _LAYER_NORM)},
}
_BLOCK = "transformer_encoder"
# The kind of model (see from_pretrained) of keras-hub's classes. AlbertClassifier is an older name.
HEAD_OF_CLASS = dict(AlbertTextClassifier="classifier", AlbertClassifier="classifier", AlbertMaskedLM="pretrainer")


def backbone_names(config: AlbertConfig) -> dict[str, str]:
    """The places of a backbone's variables in model.weights.h5, by the release's names."""
    names = _places(_OUTSIDE_BLOCKS)
    for index in range(config.num_hidden_groups * config.inner_group_num):
        scope, layer = block_scope(*divmod(index, config.inner_group_num)), f"{_BLOCK}_{index}" if index else _BLOCK
        names.update(_places({f"{scope}/{variable}": (f"{layer}/{theirs}", variables)
                              for variable, (theirs, variables) in _IN_BLOCKS.items()}))
    return names


def head_names(head: str | None) -> dict[str, str]:
    """The places of a head's variables in task.weights.h5, by the release's names; empty without a head."""
    return _places(_HEADS.get(head or "", {}))


def shape_here(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in the release of a variable with this shape in keras-hub, before it is transposed."""
    block = block_variable(name)
    if not block or not re.match("attention_1/", block.name) or len(shape) < 2:
        return shape
    if len(shape) == 2:  # a bias, or the kernel of another file
        return (shape[0] * shape[1],) if name.endswith("/bias") else shape
    if block.name.startswith("attention_1/output/"):
        return (shape[0] * shape[1], *shape[2:])
    return (shape[0], shape[1] * shape[2], *shape[3:])


def is_transposed(name: str) -> bool:
    """Whether keras-hub stores a variable's transpose: the release's weights of a classifier are [labels, hidden]."""
    return name == "output_weights"


def _places(layers: dict[str, tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    return {f"{scope}/{variable}".strip("/"): f"layers/{layer}/vars/{number}"
            for scope, (layer, variables) in layers.items() for number, variable in enumerate(variables)}
