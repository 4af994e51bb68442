"""Maps the release's names of variables to Hugging Face's names of tensors, and back: one table per model type."""

from __future__ import annotations

import re

from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.weights.heads import DENSE, HEADS, LAYER_NORM

# Layers outside the blocks: the release's scope, Hugging Face's layer, the release's names of its weight and bias.
_OUTSIDE_BLOCKS = {
    "bert/embeddings/word_embeddings": ("embeddings.word_embeddings", ("", None)),
    "bert/embeddings/token_type_embeddings": ("embeddings.token_type_embeddings", ("", None)),
    "bert/embeddings/position_embeddings": ("embeddings.position_embeddings", ("", None)),
    "bert/embeddings/LayerNorm": ("embeddings.LayerNorm", LAYER_NORM),
}


class NameTable:
    """The names of one of Hugging Face's model types.

    Args:
      model_type: "albert" or "bert", as in config.json. In a model with a head, names start with it.
      outside_blocks: more layers outside the blocks, as in _OUTSIDE_BLOCKS.
      block: Hugging Face's name of a block, with {group} and {inner}.
      in_blocks: the layers of a block, as in _OUTSIDE_BLOCKS.
    """

    def __init__(self, model_type: str, outside_blocks: dict, block: str, in_blocks: dict):
        self.prefix = f"{model_type}."
        encoder = {scope: (self.prefix + layer, variables)
                   for scope, (layer, variables) in {**_OUTSIDE_BLOCKS, **outside_blocks}.items()}
        head_layers = {head.name: head.layers.get(model_type, {}) for head in HEADS}
        heads = {scope: layer for layers in head_layers.values() for scope, layer in layers.items()}
        self._outside, self._inside = _names({**encoder, **heads}), _names(in_blocks)
        # Two of Hugging Face's heads have the same name: "classifier" classifies texts or tokens. Unless the head is
        # known, the first one is used.
        self._ours_outside, self._ours_inside = map(_reversed, (self._outside, self._inside))
        self._ours_of_head = {name: _reversed(_names(layers)) for name, layers in head_layers.items()}
        self._block = self.prefix + block
        pattern = re.escape(self._block).replace(r"\{group\}", r"(?P<group>\d+)").replace(
            r"\{inner\}", r"(?P<inner>\d+)")
        self._their_block = re.compile(pattern + r"\.(?P<tensor>.+)")

    def theirs(self, name: str) -> str | None:
        """Hugging Face's name, in a model with a head, of a variable of the release; None if there is none."""
        block = block_variable(name)
        if not block:
            return self._outside.get(name)
        tensor = self._inside.get(block.name)
        return tensor and f"{self._block.format(group=block.group, inner=block.inner)}.{tensor}"

    def ours(self, key: str, head: str | None = None) -> str | None:
        """The release's name of a tensor of a Hugging Face model with a head; None if there is none."""
        block = self._their_block.fullmatch(key)
        if not block:
            return self._ours_of_head.get(head or "", {}).get(key) or self._ours_outside.get(key)
        variable = self._ours_inside.get(block["tensor"])
        inner = block.groupdict().get("inner", 0)
        return variable and f"{block_scope(int(block['group']), int(inner))}/{variable}"


def _names(layers: dict[str, tuple[str, tuple[str | None, str | None]]]) -> dict[str, str]:
    """Expands layers to their variables: Hugging Face's name by the release's name.

    A layer has two names of variables, for weight and bias: "" is a variable with the name of the scope itself, and
    None means that there is no such variable.
    """
    return {f"{scope}/{variable}".strip("/"): f"{layer}.{theirs}"
            for scope, (layer, variables) in layers.items() for variable, theirs in zip(variables, ("weight", "bias"))
            if variable is not None}


def _reversed(names: dict[str, str]) -> dict[str, str]:
    """Hugging Face's names to the release's; of several variables with the same tensor, the first one."""
    return {theirs: ours for ours, theirs in reversed(names.items())}


NAMES = {
    "albert": NameTable(
        "albert",
        {"bert/encoder/embedding_hidden_mapping_in": ("encoder.embedding_hidden_mapping_in", DENSE),
         "bert/pooler/dense": ("pooler", DENSE)},
        "encoder.albert_layer_groups.{group}.albert_layers.{inner}",
        {"attention_1/self/query": ("attention.query", DENSE),
         "attention_1/self/key": ("attention.key", DENSE),
         "attention_1/self/value": ("attention.value", DENSE),
         "attention_1/output/dense": ("attention.dense", DENSE),
         "LayerNorm": ("attention.LayerNorm", LAYER_NORM),
         "ffn_1/intermediate/dense": ("ffn", DENSE),
         "ffn_1/intermediate/output/dense": ("ffn_output", DENSE),
         "LayerNorm_1": ("full_layer_layer_norm", LAYER_NORM)}),
    # BERT's layers are groups of their own, with one block each.
    "bert": NameTable(
        "bert",
        {"bert/pooler/dense": ("pooler.dense", DENSE)},
        "encoder.layer.{group}",
        {"attention_1/self/query": ("attention.self.query", DENSE),
         "attention_1/self/key": ("attention.self.key", DENSE),
         "attention_1/self/value": ("attention.self.value", DENSE),
         "attention_1/output/dense": ("attention.output.dense", DENSE),
         "LayerNorm": ("attention.output.LayerNorm", LAYER_NORM),
         "ffn_1/intermediate/dense": ("intermediate.dense", DENSE),
         "ffn_1/intermediate/output/dense": ("output.dense", DENSE),
         "LayerNorm_1": ("output.LayerNorm", LAYER_NORM)}),
}


def is_transposed(name: str) -> bool:
    """Whether Hugging Face stores a variable's transpose: weights there are [outputs, inputs], kernels the reverse."""
    return name.endswith("/kernel")
