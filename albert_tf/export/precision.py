"""The precision of a model that is exported, which need not be the one in which it was trained."""

from __future__ import annotations

import functools
import statistics
import time
from typing import Callable

import tensorflow as tf
from absl import logging

from albert_tf import keras
from albert_tf.export.saved_model import graph
from albert_tf.export.served_weights import made_once
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.configured_model import ConfiguredModel

FASTEST = "fastest"
SERVED_PRECISIONS = ("float32", "mixed_bfloat16", FASTEST)
_TOKENS, _TURNS = 32, 15  # of the sentence that is measured


def with_precision(model: ConfiguredModel, precision: str | None) -> ConfiguredModel:
    """The model with the same weights, computing in another precision.

    Args:
      model: the model to export.
      precision: one of SERVED_PRECISIONS; None for the model's own. FASTEST measures one sentence of 32 tokens on this
        machine in float32 and in bfloat16, in turns, and takes the faster one: bfloat16 is slower on processors
        without instructions for it.

    Raises:
      ValueError: a precision is set for a model whose encoder is a TF2 module, whose graph has its own.
    """
    if precision and not isinstance(getattr(model, "albert", model), AlbertModel):
        raise ValueError("the precision cannot be set for a TF-Hub module that runs its own graph, which has its "
                         "own precision")
    if precision != FASTEST:
        return _computing_in(precision, model) if precision else model
    models = {name: _computing_in(name, model) for name in SERVED_PRECISIONS if name != FASTEST}
    seconds = _seconds_of_a_sentence(models)
    fastest = min(seconds, key=lambda name: seconds[name])
    logging.info("one sentence takes %s: exported in %s",
                 ", ".join(f"{1000 * value:.1f} ms in {name}" for name, value in seconds.items()), fastest)
    return models[fastest]


def _computing_in(precision: str, model: ConfiguredModel) -> ConfiguredModel:
    policy = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(precision)
    try:
        copy = type(model).from_config(model.get_config())
    finally:
        keras.mixed_precision.set_global_policy(policy)
    copy.set_weights(model.get_weights())
    return copy


def _seconds_of_a_sentence(models: dict[str, ConfiguredModel]) -> dict[str, float]:
    """The median time of a sentence for each model. The first turn is not counted."""
    steps = {name: _step(model) for name, model in models.items()}
    turns = [{name: _seconds(step) for name, step in steps.items()} for _ in range(1 + _TURNS)]
    return {name: statistics.median(turn[name] for turn in turns[1:]) for name in steps}


def _step(model: ConfiguredModel) -> Callable[[], dict[str, tf.Tensor]]:
    """A function that computes one sentence as the exported model does."""
    specs = model.input_specs(1, min(_TOKENS, model.config.max_position_embeddings), 1)
    inputs = {name: tf.ones(spec.shape, spec.dtype) for name, spec in specs.items()}
    with made_once(model) as variables:
        step = graph(lambda **inputs: model.head_outputs(model(inputs)), **specs)
        step.weights = variables()  # which the graph only refers to
    return functools.partial(step, **inputs)


def _seconds(step: Callable[[], dict[str, tf.Tensor]]) -> float:
    started = time.perf_counter()
    for output in step().values():
        output.numpy()
    return time.perf_counter() - started
