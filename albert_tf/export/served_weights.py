"""Casts and concatenates the weights of a served model once, at export, and not for every request."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.albert_model import Embeddings
from albert_tf.modeling.encoder import Encoder


@contextlib.contextmanager
def made_once(model: keras.Model) -> Iterator[Callable[[], list[tf.Variable]]]:
    """Within the block, traced graphs read the results of weights_for_step from variables.

    In bfloat16 these variables are half as large as the weights that they replace, and computing them takes a tenth of
    the time of a short request. In float32 the results cost almost nothing, so nothing is replaced.

    Args:
      model: any model of albert_tf.modeling.

    Yields:
      A function that returns all variables that the traced graphs may read: the model's variables, some replaced.
    """
    layers = [layer for layer in model.submodules
              if isinstance(layer, (Encoder, Embeddings)) and layer.compute_dtype != "float32"]
    made = [_MadeOnce(layer.weights_for_step) for layer in layers]
    blocks: list[keras.layers.Layer] = [block for layer in layers if isinstance(layer, Encoder)
                                        for block in (*layer.attention_blocks, *layer.ffn_blocks)]
    replaced = {id(variable) for block in blocks for variable in block.variables}

    def variables() -> list[tf.Variable]:
        own = [variable for variable in model.variables if id(variable) not in replaced]
        return own + [variable for weights in made for variable in weights.variables]

    for layer, weights in zip(layers, made):
        layer.weights_for_step = weights  # type: ignore[method-assign]  # for this layer, until the block ends
    try:
        yield variables
    finally:
        for layer in layers:
            del layer.weights_for_step  # restores the method of the class


class _MadeOnce:
    """A layer's weights_for_step that computes its result in the first call and keeps it in variables."""

    def __init__(self, make: Callable):
        self._make, self._kept = make, None

    @property
    def variables(self) -> list[tf.Variable]:
        return tf.nest.flatten(self._kept) if self._kept is not None else []

    def __call__(self):
        if self._kept is None:
            with tf.init_scope():  # outside the graph that is traced
                self._kept = tf.nest.map_structure(lambda tensor: tf.Variable(tensor, trainable=False), self._make())
        return tf.nest.map_structure(tf.convert_to_tensor, self._kept)
