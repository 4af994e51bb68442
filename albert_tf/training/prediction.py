"""Predictions of a model for the examples of a data set, in their order."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf import keras
from albert_tf.data.batching import EvaluationData
from albert_tf.training.objective import Batch, Tensors
from albert_tf.training.strategy import distributed, gathered
from albert_tf.training.trainer import in_parts, on_batches

# The predictions of one or several checkpoints (--ensemble_checkpoints): for each, one value per example by name.
Predictions = list  # list[dict[str, list[np.ndarray]]]


class Predictor:
    """Runs a model over examples, without dropout.

    `predictions` is a function of the model's outputs and the batch that returns predictions by name, such as
    Objective.predictions. For `parts` see trainer.py.
    """

    def __init__(self, model: keras.Model, predictions: Callable[[Tensors, Batch], Tensors],
                 strategy: tf.distribute.Strategy, jit_compile: bool = False, parts: int = 1):
        self._strategy = strategy
        of_part = tf.function(
            lambda batch: dict(predictions(model(batch, training=False), batch), example=batch["example"]),
            autograph=False, jit_compile=jit_compile or None)
        self._on_replicas = on_batches(lambda batch: strategy.run(in_parts, (of_part, batch, parts)), strategy,
                                       jit_compile)

    def __call__(self, data: EvaluationData) -> dict[str, list[np.ndarray]]:
        """The predictions by name: one value per example, in their order.

        A prediction with one value per token has the length to which its batch was padded, which can exceed the
        example's length. Raises ValueError if the data ends before its last batch.
        """
        return in_order(self._batches(data), data.size)

    def _batches(self, data: EvaluationData) -> Iterator[dict[str, np.ndarray]]:
        """The predictions of each batch, over all replicas."""
        iterator = iter(distributed(self._strategy, data.batches)) if data.steps else iter(())
        for step in range(data.steps):
            try:
                outputs = self._on_replicas(iterator)
            except (StopIteration, tf.errors.OutOfRangeError) as error:
                raise ValueError(f"evaluation ended after {step} of {data.steps} batches: the data has changed since "
                                 "the run started") from error
            yield {name: gathered(self._strategy, values) for name, values in outputs.items()}


def in_order(batches: Iterable[dict[str, np.ndarray]], size: int) -> dict[str, list]:
    """The predictions of `size` examples, by name, from batches with `example`, their numbers; -1 is none."""
    predictions: dict[str, list] = {}
    for batch in batches:
        examples = batch.pop("example")
        for name, values in batch.items():
            of_table = predictions.setdefault(name, [None] * size)
            for example, value in zip(examples, values):
                if example >= 0:
                    of_table[example] = value
    return predictions


def mean_of(predictions: Sequence[dict[str, list[np.ndarray]]], name: str) -> np.ndarray:
    """The mean of one prediction over several checkpoints (Lan et al., 2020, section 4.9): [examples, ...]."""
    return np.mean([np.stack(each[name]) for each in predictions], axis=0)


def check_finite_outputs(outputs: np.ndarray) -> None:
    """Raises ValueError if one of a model's outputs is NaN or infinite."""
    if not np.isfinite(outputs).all():
        raise ValueError("the model's outputs are NaN or infinite: training has diverged, lower --learning_rate")
