"""Predictions: the outputs of a model for a table of features."""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.batching import evaluation_rows, table_batches
from albert_tf.data.feature_table import FeatureTable
from albert_tf.training.strategy import distributed
from albert_tf.training.task import PredictingTask
from albert_tf.training.trainer import in_parts, on_batches

# The predictions of one or several checkpoints (--ensemble_checkpoints): for each a dict by name of one value per
# example.
Predictions = list  # list[dict[str, list[np.ndarray]]]
Predict = Callable[[FeatureTable], Predictions]
# Evaluates a checkpoint: a function that is called with one like FineTuning.predict, with which it gets the predictions
# for the tables that it needs, and returns the results.
Evaluate = Callable[[Predict], "dict[str, float]"]


class Predictor:
    """Runs a task's model over features, without dropout.

    Args:
      batch_size: examples of a batch, over all replicas.
      parts: the largest number of parts of a batch that are computed at the same time (trainer.py).
    """

    def __init__(self, task: PredictingTask, strategy: tf.distribute.Strategy, batch_size: int,
                 buckets: tuple[int, ...], jit_compile: bool = False, parts: int = 1):
        self._task, self._strategy, self._batch_size, self._buckets = task, strategy, batch_size, buckets
        self._parts = parts
        self._outputs = tf.function(self._outputs_of_part, autograph=False, jit_compile=jit_compile or None)
        self._outputs_on_replicas = on_batches(self._run, strategy, jit_compile)

    def __call__(self, table: FeatureTable) -> dict[str, list[np.ndarray]]:
        """The predictions by name: one value per example, in the order of the table.

        A prediction with one value per token has the length to which its batch was padded, which can exceed the
        example's own.
        """
        rows = evaluation_rows(table, self._batch_size)
        batches = distributed(self._strategy, lambda context: table_batches(table, rows, self._buckets, context))
        predictions: dict[str, list] = {}
        iterator = iter(batches)
        for _ in rows:
            outputs = {name: self._strategy.gather(values, axis=0).numpy()
                       for name, values in self._outputs_on_replicas(iterator).items()}
            examples = outputs.pop("example")
            for name, values in outputs.items():
                values_of_all = predictions.setdefault(name, [None] * len(table))
                for example, value in zip(examples, values):
                    if example >= 0:
                        values_of_all[example] = value
        return predictions

    def _run(self, batch):
        return self._strategy.run(in_parts, (self._outputs, batch, self._parts))

    def _outputs_of_part(self, batch):
        outputs = self._task.predictions(self._task.model(batch, training=False))
        return dict(outputs, example=batch["example"])


def mean_of(predictions: Sequence[dict[str, list[np.ndarray]]], name: str) -> np.ndarray:
    """The mean of one prediction over several checkpoints (Lan et al., 2020, section 4.9): [examples, ...]."""
    return np.mean([np.stack(each[name]) for each in predictions], axis=0)
