"""Weights with another embedding size, or with layers that share, as a start for further training.

Wider embeddings (`widened`): a wider model starts close to the narrow one (compare Chen et al., 2016, Net2Net): the
columns that exist keep their values, new columns are random, and what reads the new columns starts at zero. A layer
normalization computes its mean and variance over all columns. New ones vary little, so that the old ones come out
larger by sqrt(new size / old size), which their gammas undo. So the encoder's outputs change little. The masked-LM head
changes more, since its new columns are as large as the old ones; it has adapted after some hundred steps.

A BERT or an unshared ALBERT becomes an ALBERT (`factorized`, `shared`): the word table becomes one of E columns and a
projection, by a singular value decomposition; the layers become one or several groups, each the mean of its layers, the
least-squares fit. Little of a trained model's matrices is kept this way, and yet it is a better start than random
weights: a short distillation recovers most of the rest (Bae et al., 2024, "Relaxed Recursive Transformers").
"""

from __future__ import annotations

import dataclasses
from typing import Collection, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.modeling.encoder import block_scope, block_variable
from albert_tf.modeling.layers import LAYER_NORM_EPSILON
from albert_tf.utils.progress import count_of
from albert_tf.weights.stored_model import StoredModel

# What `reshaped` changes in a config.
RESHAPED = ("embedding_size", "num_hidden_groups", "cross_layer_sharing")
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


def reshaped(source: StoredModel, embedding_size: int | None, num_hidden_groups: int | None) -> StoredModel:
    """The source of a model with another embedding size, and with layers that share their weights.

    Args:
      embedding_size: E of the new model; None for that of the source. It is not the hidden size: there would be no
        mapping. Only embeddings that are as wide as the encoder, BERT's, can become narrower.
      num_hidden_groups: the number of groups of layers, each of which shares its weights; None for the source's layers.

    Raises:
      ValueError: the source has another embedding size than one that can become the new one, or has
        layers that share already, or that the groups do not divide.
    """
    if num_hidden_groups is not None:
        source = shared(source, num_hidden_groups)
    if embedding_size is None:
        return source
    is_wide = source.config.embedding_size == source.config.hidden_size
    return (factorized if is_wide else widened)(source, embedding_size)


def widened(source: StoredModel, embedding_size: int) -> StoredModel:
    """The source of a model with a larger embedding size."""
    config = source.config
    if not config.embedding_size < embedding_size:
        raise ValueError(f"{source.path} has embeddings of size {config.embedding_size}, which can only become larger. "
                         f"Received: {embedding_size}")
    if embedding_size == config.hidden_size:
        raise ValueError(f"{source.path}: embeddings of the hidden size ({config.hidden_size}) have no mapping to it, "
                         f"so that they cannot be the result. Received: {embedding_size}")
    axes = {name: axis for name, axis in _AXES.items() if name in source.shapes}
    shapes = {name: [*shape[:axes[name]], embedding_size, *shape[axes[name] + 1:]] if name in axes else shape
              for name, shape in source.shapes.items()}

    def read(name: str) -> tf.Tensor:
        value = source.read(name)
        return _with_new_columns(name, value.numpy(), shapes[name], config.initializer_range) if name in axes else value

    return dataclasses.replace(source, shapes=shapes, read=read,
                               read_config=lambda: config.replace(embedding_size=embedding_size))


def _with_new_columns(name: str, value: np.ndarray, shape: Sequence[int], initializer_range: float) -> tf.Tensor:
    axis = _AXES[name]
    old, new = value.shape[axis], shape[axis]
    if name == _NORM + "gamma":
        value = value * (old / new) ** 0.5
    added = list(value.shape)
    added[axis] = new - old
    columns = np.zeros(added, value.dtype)
    if name.endswith("gamma"):
        columns += 1
    elif name in _TABLES.values() or name == _HEAD + "dense/kernel":
        stddev = _STDDEV if name in _TABLES.values() else initializer_range
        # Each variable has random numbers of its own, whatever is read and in which order.
        rng = np.random.default_rng([_SEED, list(_AXES).index(name)])
        columns += np.clip(rng.standard_normal(added), -2, 2) * stddev
    return tf.constant(np.concatenate([value, columns], axis).astype(value.dtype))


def factorized(source: StoredModel, embedding_size: int) -> StoredModel:
    """The source of a model whose embeddings are narrower than its encoder; those of the source are as wide.

    In ALBERT, LayerNorm stands before the projection and in BERT at its place. So the new tables are the old ones in
    the directions of their largest variance, turned so that their columns have the mean 0 and LayerNorm subtracts
    nothing; the projection is the least-squares fit of the old outputs of LayerNorm for random pieces and positions.
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
    # [H, E]: the directions, and a rotation to columns whose sum is 0 (E - 1 directions fit beside the ones).
    columns = directions[:, 1 - embedding_size:] @ _orthogonal_to_ones(embedding_size)
    narrow = {name: table @ columns for name, table in tables.items()}

    rng = np.random.default_rng(_SEED)
    places = {name: rng.integers(0, len(tables[name]), _SAMPLES) for name in ("word", "position")}
    places["token_type"] = np.zeros(_SAMPLES, int)
    before, after = (_normalized(np.sum([each[name][places[name]] for name in _TABLES], axis=0))
                     for each in (narrow, tables))
    fit, *_ = np.linalg.lstsq(np.column_stack([before, np.ones(_SAMPLES)]), after * gamma + beta, rcond=None)
    values = {_TABLES[name]: table for name, table in narrow.items()}
    values.update({_NORM + "gamma": np.ones(embedding_size), _NORM + "beta": np.zeros(embedding_size),
                   _MAPPING + "kernel": fit[:-1], _MAPPING + "bias": fit[-1]})
    return _with_values(source, values, config.replace(embedding_size=embedding_size))


def shared(source: StoredModel, num_hidden_groups: int) -> StoredModel:
    """The source of a model whose layers share their weights, their means, in groups of equal size."""
    config = source.config
    layers = config.num_hidden_layers
    if config.num_attention_blocks < layers or config.num_ffn_blocks < layers:
        raise ValueError(f"{source.path} has layers that share their weights already")
    if config.inner_group_num > 1 or layers % num_hidden_groups:
        raise ValueError(f"{source.path} has {layers} layers of {count_of(config.inner_group_num, 'block')}, which "
                         f"cannot be {num_hidden_groups} groups of equal size")
    config = config.replace(cross_layer_sharing="all", num_hidden_groups=num_hidden_groups)
    blocks = {name: block for name in source.shapes if (block := block_variable(name))}
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


def _with_values(
    source: StoredModel, values: Mapping[str, np.ndarray], config: AlbertConfig, without: Collection[str] = ()
) -> StoredModel:
    """A source with other values and another config."""
    tensors = {name: tf.constant(value, tf.float32) for name, value in values.items()}
    shapes = {name: shape for name, shape in source.shapes.items() if name not in without}
    shapes.update({name: value.shape.as_list() for name, value in tensors.items()})
    return dataclasses.replace(source, shapes=shapes, read_config=lambda: config,
                               read=lambda name: tensors[name] if name in tensors else source.read(name))


def _centered(table: np.ndarray) -> np.ndarray:
    """The rows less their means, which LayerNorm would subtract."""
    return table - table.mean(axis=1, keepdims=True)


def _normalized(rows: np.ndarray) -> np.ndarray:
    """What LayerNorm makes of rows before it scales them."""
    rows = _centered(rows)
    return rows / np.sqrt(np.mean(rows**2, axis=1, keepdims=True) + LAYER_NORM_EPSILON)


def _orthogonal_to_ones(size: int) -> np.ndarray:
    """[size - 1, size]: orthogonal rows of length 1 whose sums are 0."""
    basis, _ = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, :-1]]))
    return basis[:, 1:].T
