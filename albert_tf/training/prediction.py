"""What a model says about every example of a table."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.data.feature_table import FeatureTable
from albert_tf.data.length_buckets import evaluation_batches
from albert_tf.tasks.task import PredictingTask


class Predictor:
    """Runs a task's model, without dropout, over features; each bucket has a program of its own, of static shapes.

    Args:
      task: gives the model and, of its outputs, the tensors that are wanted.
      strategy: where it runs.
      batch_size: over all replicas.
      buckets: of length_buckets.bucket_lengths.
      jit_compile: whether XLA compiles it.
    """

    def __init__(self, task: PredictingTask, strategy: tf.distribute.Strategy, batch_size: int,
                 buckets: tuple[int, ...], jit_compile: bool = False):
        self._task, self._strategy, self._batch_size, self._buckets = task, strategy, batch_size, buckets
        # No control flow depends on tensors; AutoGraph would read sources again, edited ones too, at each new length.
        self._outputs = tf.function(self._outputs_of_replica, autograph=False, jit_compile=jit_compile or None)
        self._outputs_on_replicas = tf.function(self._run, autograph=False)

    def __call__(self, table: FeatureTable) -> dict[str, list[np.ndarray]]:
        """By name, the prediction for each example, in the table's order.

        One with a value per token is as long as the bucket that its example was in.
        """
        batches = self._strategy.distribute_datasets_from_function(
            lambda context: evaluation_batches(table, self._batch_size, self._buckets, context))
        found: dict[str, list] = {}
        for batch in batches:
            outputs = {name: self._strategy.gather(values, axis=0).numpy()
                       for name, values in self._outputs_on_replicas(batch).items()}
            examples = outputs.pop("example")
            for name, values in outputs.items():
                of_all = found.setdefault(name, [None] * len(table))
                for example, value in zip(examples, values):
                    if example >= 0:
                        of_all[example] = value
        return found

    def _run(self, batch):
        return self._strategy.run(self._outputs, (batch,))

    def _outputs_of_replica(self, batch):
        outputs = self._task.predictions(self._task.model(batch, training=False))
        return dict(outputs, example=batch["example"])
