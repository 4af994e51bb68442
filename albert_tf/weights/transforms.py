"""Functions that change the tensors of a stored model. Tensors are still read only when they are used.

A reader and a command apply them in this order::

    without_identity   in the readers of Hugging Face and keras-hub, if E == H: no projection
    first_layers       num_layers: the model is cut after one of its first layers
    unshared           unshare_layers: layers do not share weights
    reshaped           kept_layers, share_layers, embedding_size: fewer weights, or wider embeddings, as a start for
                       further training

`first_layers` applies `unshared` itself if its result cannot share.

Wider embeddings (`widened`) keep the columns that exist; new columns are random, and weights that read them start at
zero (compare Chen et al., 2016, Net2Net). A LayerNorm computes its mean and variance over all columns. New columns vary
little, so the old ones become larger by sqrt(new size / old size); their gammas undo this.

A BERT or an unshared ALBERT becomes an ALBERT (`factorized`, `shared`): its word table becomes one of E columns and a
projection, its layers become one or several groups, each the mean of its layers. This is a better start than random
weights: a short distillation recovers most of the rest (Bae et al., 2024, "Relaxed Recursive Transformers").
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Collection, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.modeling.settings import SentenceEncoderSettings
from albert_tf.utils.bounds import Bounds
from albert_tf.utils.progress import count_of
from albert_tf.weights.stored_model import StoredModel, StoredTensor

# What `reshaped` changes in a config.
RESHAPED = ("embedding_size", "num_hidden_layers", "num_hidden_groups", "cross_layer_sharing")
# Standard deviation of new columns of the embeddings: a fraction of what trained ones have (0.05 to 0.15).
_STDDEV = 0.02
_SEED = 12345  # of the random values of new columns
_TABLES = {name: f"bert/embeddings/{name}_embeddings" for name in ("word", "token_type", "position")}
_NORM, _HEAD = "bert/embeddings/LayerNorm/", "cls/predictions/transform/"
_MAPPING = "bert/encoder/embedding_hidden_mapping_in/"
# The axis with embedding_size columns.
_AXES = {**dict.fromkeys(_TABLES.values(), 1), _NORM + "gamma": 0, _NORM + "beta": 0, _MAPPING + "kernel": 0,
         _HEAD + "dense/kernel": 1, _HEAD + "dense/bias": 0, _HEAD + "LayerNorm/gamma": 0, _HEAD + "LayerNorm/beta": 0}
_SAMPLES = 20_000  # embeddings to which the projection is fitted


def without_identity(source: StoredModel) -> StoredModel:
    """The source without the projection of the embedding, which other formats have even if E == H: the identity."""
    size = source.config.hidden_size
    kernel, bias = (source.tensors[name].read().numpy() if name in source.tensors else None
                    for name in (_MAPPING + "kernel", _MAPPING + "bias"))
    if kernel is not None and not np.array_equal(kernel, np.eye(size)) or bias is not None and np.any(bias):
        raise ValueError(f"{source.path}: embedding_size equals hidden_size, but embedding_hidden_mapping_in is not "
                         "the identity: the release has no such model")
    return dataclasses.replace(source, tensors={
        name: tensor for name, tensor in source.tensors.items() if not name.startswith(_MAPPING)})


def first_layers(source: StoredModel, num_layers: int | None) -> StoredModel:
    """The source of a model of the first layers of another one (None: all). Warns if they were not trained for it."""
    if num_layers is None:
        return source
    config, depths = source.config, source.settings.of_class(SentenceEncoderSettings).distillation_depths
    Bounds(1, config.num_hidden_layers).check("num_layers", num_layers)
    if num_layers == config.num_hidden_layers:
        return source
    if num_layers not in depths:
        folder, name = os.path.split(source.path)
        _warn_of_depth(folder if name.startswith("model.ckpt") else source.path, config.num_hidden_layers, num_layers)
    groups = config.num_hidden_groups if config.cross_layer_sharing != "all" else (
        config.attention_blocks[num_layers - 1][0] // config.inner_group_num + 1)
    cut = config.replace(num_hidden_layers=num_layers, num_hidden_groups=groups)
    if cut.attention_blocks != config.attention_blocks[:num_layers]:  # it ends within a group
        source, cut = unshared(source), unshared_config(cut)
    used = {True: cut.num_attention_blocks, False: cut.num_ffn_blocks}

    def is_kept(name: str) -> bool:
        block = block_variable(name)
        return block is None or block.group * cut.inner_group_num + block.inner < used[block.is_of_attention]

    settings = source.settings
    if depths:
        settings = settings.replaced(distillation_depths=tuple(depth for depth in depths if depth < num_layers))
    return dataclasses.replace(source, optional_config=cut, settings=settings, tensors={
        name: tensor for name, tensor in source.tensors.items() if is_kept(name)})


@functools.cache  # a command opens the weights of a run several times
def _warn_of_depth(path: str, trained: int, num_layers: int) -> None:
    logging.warning("%s was trained with %d layers and is cut to the first %d, for which it may need further training",
                    path, trained, num_layers)


def unshared_config(config: AlbertConfig) -> AlbertConfig:
    """The config of a model with the same layers, but no shared weights."""
    return config.replace(cross_layer_sharing="none", num_hidden_groups=1)


def unshared(source: StoredModel) -> StoredModel:
    """The source of a model with the same outputs and without shared weights.

    A source without sharing is returned unchanged.
    """
    config = source.config
    if config.in_groups() == unshared_config(config).in_groups():
        return source
    return dataclasses.replace(source, optional_config=unshared_config(config), tensors={
        copy: tensor for name, tensor in source.tensors.items() for copy in _copies(name, config)})


def _copies(name: str, config: AlbertConfig) -> Iterator[str]:
    """The names of a variable's copies, one for each layer that uses it."""
    in_block = block_variable(name)
    if not in_block:
        yield name
        return
    group, inner, variable = in_block
    blocks = config.attention_blocks if in_block.is_of_attention else config.ffn_blocks
    for layer, used in enumerate(blocks):
        if group * config.inner_group_num + inner in used:
            yield f"{block_scope(layer, inner)}/{variable}"


def reshaped(
    source: StoredModel, embedding_size: int | None, num_hidden_groups: int | None, layers: Sequence[int] = ()
) -> StoredModel:
    """The source of a model of some layers, with layers that share weights in groups, and another embedding size.

    None and (): as in the source. Only embeddings that are as wide as the encoder, BERT's, can become narrower.
    """
    if layers:
        source = with_layers(source, layers)
    if num_hidden_groups is not None:
        source = shared(source, num_hidden_groups)
    if embedding_size is None:
        return source
    is_wide = source.config.embedding_size == source.config.hidden_size
    return (factorized if is_wide else widened)(source, embedding_size)


def with_layers(source: StoredModel, layers: Sequence[int]) -> StoredModel:
    """The source of a model of some layers, by their numbers from 1, of one whose layers do not share weights."""
    config = source.config
    _check_unshared(source)
    if list(layers) != sorted(set(layers)) or layers[-1] > config.num_hidden_layers:
        raise ValueError(f"--kept_layers must have rising numbers from 1 to {config.num_hidden_layers}, the number of "
                         f"layers of {source.path}. Received: {','.join(map(str, layers))}")
    indices = {number - 1: index for index, number in enumerate(layers)}
    tensors = {}
    for name, tensor in source.tensors.items():
        block = block_variable(name)
        if block is None:
            tensors[name] = tensor
        elif block.group in indices:
            tensors[f"{block_scope(indices[block.group], block.inner)}/{block.name}"] = tensor
    cut = unshared_config(config).replace(num_hidden_layers=len(layers))
    return dataclasses.replace(source, tensors=tensors, optional_config=cut)


def widened(source: StoredModel, embedding_size: int) -> StoredModel:
    """The source of a model with a larger embedding size."""
    config = source.config
    if not config.embedding_size < embedding_size:
        raise ValueError(f"{source.path} has embeddings of size {config.embedding_size}, which can only become larger. "
                         f"Received: {embedding_size}")
    if embedding_size == config.hidden_size:
        raise ValueError(f"{source.path}: embeddings of the hidden size ({config.hidden_size}) have no mapping to it, "
                         f"so that they cannot be the result. Received: {embedding_size}")
    tensors = dict(source.tensors)
    for name, axis in _AXES.items():
        if name in tensors:
            shape = tensors[name].shape
            tensors[name] = StoredTensor([*shape[:axis], embedding_size, *shape[axis + 1:]], functools.partial(
                _with_new_columns, name, tensors[name], embedding_size, config.initializer_range))
    return dataclasses.replace(source, tensors=tensors, optional_config=config.replace(embedding_size=embedding_size))


def _with_new_columns(name: str, tensor: StoredTensor, new: int, initializer_range: float) -> tf.Tensor:
    axis, value = _AXES[name], tensor.read().numpy()
    old = value.shape[axis]
    if name == _NORM + "gamma":
        value = value * (old / new) ** 0.5
    added = list(value.shape)
    added[axis] = new - old
    columns = np.zeros(added, value.dtype)
    if name.endswith("gamma"):
        columns += 1
    elif name in _TABLES.values() or name == _HEAD + "dense/kernel":
        stddev = _STDDEV if name in _TABLES.values() else initializer_range
        # Each variable has a generator, so that its numbers do not depend on which others are read, or when.
        rng = np.random.default_rng([_SEED, list(_AXES).index(name)])
        columns += np.clip(rng.standard_normal(added), -2, 2) * stddev
    return tf.constant(np.concatenate([value, columns], axis).astype(value.dtype))


def factorized(source: StoredModel, embedding_size: int) -> StoredModel:
    """The source of a model with embeddings narrower than its encoder, from embeddings as wide as the encoder.

    In ALBERT, the projection follows the LayerNorm of the embeddings; BERT has no projection. So the new
    tables are the old ones in the directions of their largest variance, turned so that their columns have the mean 0
    and LayerNorm subtracts nothing. The projection is the least-squares fit of the old outputs of LayerNorm for random
    pieces and positions.
    """
    config = source.config
    if not 2 <= embedding_size < config.hidden_size:
        raise ValueError(f"{source.path}: narrower embeddings must have a size from 2 to {config.hidden_size - 1}. "
                         f"Received: {embedding_size}")
    tables = {name: _centered(source.value(path).numpy()) for name, path in _TABLES.items()}
    gamma, beta = (source.value(_NORM + name).numpy() for name in ("gamma", "beta"))
    words = tables["word"] + tables["token_type"][0]
    sizes, directions = np.linalg.eigh(np.cov(words, rowvar=False))  # in rising order
    logging.info("embeddings of size %d keep %.2f of the word table's variance", embedding_size,
                 np.sum(sizes[1 - embedding_size:]) / np.sum(sizes))
    # [H, E]: the directions, and a rotation to columns with the sum 0 (E - 1 directions fit beside the ones).
    columns = directions[:, 1 - embedding_size:] @ _orthogonal_to_ones(embedding_size)
    narrow = {name: table @ columns for name, table in tables.items()}

    rng = np.random.default_rng(_SEED)
    samples = {name: rng.integers(0, len(tables[name]), _SAMPLES) for name in ("word", "position")}
    samples["token_type"] = np.zeros(_SAMPLES, int)
    before, after = (_normalized(np.sum([each[name][samples[name]] for name in _TABLES], axis=0), config.layer_norm_eps)
                     for each in (narrow, tables))
    fit, *_ = np.linalg.lstsq(np.column_stack([before, np.ones(_SAMPLES)]), after * gamma + beta, rcond=None)
    values = {_TABLES[name]: table for name, table in narrow.items()}
    values.update({_NORM + "gamma": np.ones(embedding_size), _NORM + "beta": np.zeros(embedding_size),
                   _MAPPING + "kernel": fit[:-1], _MAPPING + "bias": fit[-1]})
    return _with_values(source, values, config.replace(embedding_size=embedding_size))


def shared(source: StoredModel, num_hidden_groups: int) -> StoredModel:
    """The source of a model with layers in groups of equal size, which share the means of their weights."""
    config = source.config
    layers = config.num_hidden_layers
    _check_unshared(source)
    if config.inner_group_num > 1 or layers % num_hidden_groups:
        raise ValueError(f"{source.path} has {layers} layers of {count_of(config.inner_group_num, 'block')}, which "
                         f"cannot be {num_hidden_groups} groups of equal size")
    config = config.replace(cross_layer_sharing="all", num_hidden_groups=num_hidden_groups)
    blocks = {name: block for name in source.tensors if (block := block_variable(name))}
    values: dict[str, np.ndarray] = {}
    kept = []  # of the squared norm of each kernel
    for group, members in enumerate(np.split(np.arange(layers), num_hidden_groups)):
        for name in {block.name for block in blocks.values()}:
            own = np.stack([source.value(f"{block_scope(layer)}/{name}").numpy() for layer in members])
            mean = values[f"{block_scope(group)}/{name}"] = own.mean(axis=0)
            if name.endswith("/kernel"):
                kept.append(1 - np.sum((own - mean) ** 2) / np.sum(own**2))
    logging.info("%s of layers keep %.2f to %.2f of the kernels' squared norms", count_of(num_hidden_groups, "group"),
                 min(kept), max(kept))
    return _with_values(source, values, config, blocks)


def _check_unshared(source: StoredModel) -> None:
    config = source.config
    if min(config.num_attention_blocks, config.num_ffn_blocks) < config.num_hidden_layers:
        raise ValueError(f"{source.path} has layers that share their weights already")


def _with_values(
    source: StoredModel, values: Mapping[str, np.ndarray], config: AlbertConfig, without: Collection[str] = ()
) -> StoredModel:
    """A source with other values and another config."""
    tensors = {name: tensor for name, tensor in source.tensors.items() if name not in without}
    for name, value in values.items():
        tensors[name] = StoredTensor(value.shape, functools.partial(tf.constant, value, tf.float32))
    return dataclasses.replace(source, tensors=tensors, optional_config=config)


def _centered(table: np.ndarray) -> np.ndarray:
    """The rows less their means, which LayerNorm would subtract."""
    return table - table.mean(axis=1, keepdims=True)


def _normalized(rows: np.ndarray, epsilon: float) -> np.ndarray:
    """What LayerNorm makes of rows before it scales them."""
    rows = _centered(rows)
    return rows / np.sqrt(np.mean(rows**2, axis=1, keepdims=True) + epsilon)


def _orthogonal_to_ones(size: int) -> np.ndarray:
    """[size - 1, size]: orthogonal rows of length 1, each with the sum 0."""
    basis, _ = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, :-1]]))
    return basis[:, 1:].T
