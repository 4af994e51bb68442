"""Unsharing: reads a model whose layers share weights as a model in which each layer has its own copy of them."""

from __future__ import annotations

import dataclasses
from typing import Iterator

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.weights.source import Source

# First parts of the variable names in an attention block; all others belong to the feed-forward block.
_ATTENTION = ("attention_1", "LayerNorm")


def unshared_config(config: AlbertConfig) -> AlbertConfig:
    """The config of a model with the same layers, none of which share weights."""
    return config.replace(cross_layer_sharing="none", num_hidden_groups=1)


def unshared(source: Source) -> Source:
    """The source of a model with the same outputs in which each layer has its own weights.

    A source without sharing is returned unchanged.

    Raises:
      ValueError: it is a TF2 module whose graph is run, so that its layers cannot be changed.
    """
    if source.module:
        raise ValueError(f"{source.path} is a TF2 module whose own graph runs: its layers cannot be unshared")
    config = source.config
    if config.in_groups() == unshared_config(config).in_groups():
        return source
    names = {new: name for name in source.shapes for new in _copies(name, config)}
    return dataclasses.replace(source, shapes={new: source.shapes[name] for new, name in names.items()},
                               read=lambda new: source.read(names[new]), read_config=lambda: unshared_config(config))


def _copies(name: str, config: AlbertConfig) -> Iterator[str]:
    """The names of a variable's copies, one for each layer that uses it."""
    in_block = block_variable(name)
    if not in_block:
        yield name
        return
    group, inner, variable = in_block
    is_attention = variable.partition("/")[0] in _ATTENTION
    blocks = config.attention_blocks if is_attention else config.ffn_blocks
    for layer, of_layer in enumerate(blocks):
        if group * config.inner_group_num + inner in of_layer:
            yield f"{block_scope(layer, inner)}/{variable}"
