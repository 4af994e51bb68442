"""The release's names of variables and Hugging Face's names of tensors: one table, read in both directions."""

from __future__ import annotations

import re

# A layer's variables, as the release calls those that Hugging Face calls weight and bias.
_DENSE, _NORM, _OUTPUT = ("kernel", "bias"), ("gamma", "beta"), ("output_weights", "output_bias")


def _names(layers: dict[str, tuple[str, tuple[str, str]]]) -> dict[str, str]:
    """From layers to their variables: both names of each."""
    return {f"{scope}/{variable}".lstrip("/"): f"{layer}.{theirs}"
            for scope, (layer, variables) in layers.items() for variable, theirs in zip(variables, ("weight", "bias"))}


_OUTSIDE_BLOCKS = {
    "bert/embeddings/word_embeddings": "albert.embeddings.word_embeddings.weight",
    "bert/embeddings/token_type_embeddings": "albert.embeddings.token_type_embeddings.weight",
    "bert/embeddings/position_embeddings": "albert.embeddings.position_embeddings.weight",
    "cls/predictions/output_bias": "predictions.bias",
    **_names({
        "bert/embeddings/LayerNorm": ("albert.embeddings.LayerNorm", _NORM),
        "bert/encoder/embedding_hidden_mapping_in": ("albert.encoder.embedding_hidden_mapping_in", _DENSE),
        "bert/pooler/dense": ("albert.pooler", _DENSE),
        "cls/predictions/transform/dense": ("predictions.dense", _DENSE),
        "cls/predictions/transform/LayerNorm": ("predictions.LayerNorm", _NORM),
        "cls/seq_relationship": ("sop_classifier.classifier", _OUTPUT),
        "cls/squad": ("qa_outputs", _OUTPUT),
        "": ("classifier", _OUTPUT),
    }),
}
_IN_BLOCKS = _names({
    "attention_1/self/query": ("attention.query", _DENSE),
    "attention_1/self/key": ("attention.key", _DENSE),
    "attention_1/self/value": ("attention.value", _DENSE),
    "attention_1/output/dense": ("attention.dense", _DENSE),
    "LayerNorm": ("attention.LayerNorm", _NORM),
    "ffn_1/intermediate/dense": ("ffn", _DENSE),
    "ffn_1/intermediate/output/dense": ("ffn_output", _DENSE),
    "LayerNorm_1": ("full_layer_layer_norm", _NORM),
})
_BLOCK = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/(.+)")
_THEIR_BLOCK = re.compile(r"albert\.encoder\.albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\.(.+)")
_THEIRS_OUTSIDE_BLOCKS = {theirs: ours for ours, theirs in _OUTSIDE_BLOCKS.items()}
_THEIRS_IN_BLOCKS = {theirs: ours for ours, theirs in _IN_BLOCKS.items()}


def hugging_face_name(name: str) -> str | None:
    """Hugging Face's name, in a model with a head, of a variable of the release; None where it has none."""
    block = _BLOCK.fullmatch(name)
    if not block:
        return _OUTSIDE_BLOCKS.get(name)
    group, inner, variable = block.groups()
    theirs = _IN_BLOCKS.get(variable)
    return theirs and f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.{theirs}"


def release_name_of(key: str) -> str | None:
    """The release's name of a tensor of a model with a head of Hugging Face's; None where it has none."""
    block = _THEIR_BLOCK.fullmatch(key)
    if not block:
        return _THEIRS_OUTSIDE_BLOCKS.get(key)
    group, inner, tensor = block.groups()
    ours = _THEIRS_IN_BLOCKS.get(tensor)
    return ours and f"bert/encoder/transformer/group_{group}/inner_group_{inner}/{ours}"


def is_transposed(name: str) -> bool:
    """Whether Hugging Face stores a variable's transpose: its weights are [outputs, inputs], kernels the reverse."""
    return name.endswith("/kernel")
