"""`widened`: weights with a larger embedding size, as a start for further training.

A wider model starts close to the narrow one (compare Chen et al., 2016, Net2Net): the columns that exist keep their
values, new columns are random, and what reads the new columns starts at zero. A layer normalization computes its mean
and variance over all columns. New ones vary little, so that the old ones come out larger by sqrt(new size / old size),
which their gammas undo. So the encoder's outputs change little. The masked-LM head changes more, since its new columns
are as large as the old ones; it has adapted after some hundred steps.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.weights.stored_model import StoredModel

# Standard deviation of new columns of the embeddings: a fraction of what trained ones have (0.05 to 0.15).
_STDDEV = 0.02
_SEED = 12345  # of the random values of new columns


def widened(source: StoredModel, embedding_size: int) -> StoredModel:
    """The source of a model with a larger embedding size.

    Args:
      embedding_size: E of the new model. It is not the hidden size: there would be no mapping.
    """
    if source.module:
        raise ValueError(f"{source.path} is a TF2 module whose own graph runs: its embeddings cannot be widened")
    config = source.config
    if not config.embedding_size < embedding_size:
        raise ValueError(f"{source.path} has embeddings of size {config.embedding_size}, which can only become larger. "
                         f"Received: {embedding_size}")
    if config.hidden_size in (config.embedding_size, embedding_size):
        raise ValueError(f"{source.path}: embeddings of the hidden size ({config.hidden_size}) have no mapping to it, "
                         f"so that they cannot be widened, or be the result. Received: {embedding_size}")
    axes = {name: axis for name, axis in _AXES.items() if name in source.shapes}
    shapes = {name: [*shape[:axes[name]], embedding_size, *shape[axes[name] + 1:]] if name in axes else shape
              for name, shape in source.shapes.items()}

    def read(name: str) -> tf.Tensor:
        value = source.read(name)
        return _with_new_columns(name, value.numpy(), shapes[name], config.initializer_range) if name in axes else value

    return dataclasses.replace(source, shapes=shapes, read=read,
                               read_config=lambda: config.replace(embedding_size=embedding_size))


_EMBEDDINGS = [f"bert/embeddings/{name}_embeddings" for name in ("word", "token_type", "position")]
_NORM, _HEAD = "bert/embeddings/LayerNorm/", "cls/predictions/transform/"
# The axis with embedding_size columns.
_AXES = {**dict.fromkeys(_EMBEDDINGS, 1), _NORM + "gamma": 0, _NORM + "beta": 0,
         "bert/encoder/embedding_hidden_mapping_in/kernel": 0, _HEAD + "dense/kernel": 1, _HEAD + "dense/bias": 0,
         _HEAD + "LayerNorm/gamma": 0, _HEAD + "LayerNorm/beta": 0}


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
    elif name in _EMBEDDINGS or name == _HEAD + "dense/kernel":
        stddev = _STDDEV if name in _EMBEDDINGS else initializer_range
        # Each variable has random numbers of its own, whatever is read and in which order.
        rng = np.random.default_rng([_SEED, list(_AXES).index(name)])
        columns += np.clip(rng.standard_normal(added), -2, 2) * stddev
    return tf.constant(np.concatenate([value, columns], axis).astype(value.dtype))
