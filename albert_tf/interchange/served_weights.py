"""Weights as a served model multiplies by them, made at export and not anew for every request."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.embeddings import Embeddings
from albert_tf.modeling.encoder import Encoder


@contextlib.contextmanager
def made_once(model: keras.Model) -> Iterator[Callable[[], list[tf.Variable]]]:
    """Within it, graphs that are traced read what a model makes of its weights for a step from variables.

    In bfloat16 these are half as large as the weights that they stand for, and making them takes a tenth of the time
    of a short request. In float32 hardly anything is made: nothing changes.

    Args:
      model: any of albert_tf.modeling.

    Gives a function: the variables of the model, those in the place of others among them, that such graphs may read.
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
        layer.weights_for_step = weights  # type: ignore[method-assign]  # of this layer, until it is exported
    try:
        yield variables
    finally:
        for layer in layers:
            del layer.weights_for_step  # the class has its own


class _MadeOnce:
    """A layer's weights_for_step, made when they are first wanted and from then on read from variables."""

    def __init__(self, make: Callable):
        self._make, self._kept = make, None

    @property
    def variables(self) -> list[tf.Variable]:
        return tf.nest.flatten(self._kept) if self._kept is not None else []

    def __call__(self):
        if self._kept is None:
            with tf.init_scope():  # and not in the graph that is traced
                self._kept = tf.nest.map_structure(lambda tensor: tf.Variable(tensor, trainable=False), self._make())
        return tf.nest.map_structure(tf.convert_to_tensor, self._kept)
