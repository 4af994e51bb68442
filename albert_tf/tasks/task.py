"""What a task is to the trainer: the contract of this package's classes, checked by the type checker.

A step of the trainer calls normalizers on each part of a batch and sums them over micro-batches and replicas, then
calls the model and loss on each part, and sums the losses. Where evaluation runs over batches it calls update_metrics;
where scores come from predictions, as in GLUE and SQuAD, Predictor calls predictions.
"""

from __future__ import annotations

from typing import Mapping, Protocol, Sequence

import tensorflow as tf

from albert_tf import keras

Batch = Mapping[str, tf.Tensor]
Tensors = dict[str, tf.Tensor]


class Task(Protocol):
    """A model with its loss.

    Attributes:
      model: takes a batch and returns a dict of outputs.
      metrics: Keras metrics that evaluation resets; empty where scores come from predictions.
    """

    model: keras.Model

    @property
    def metrics(self) -> Sequence[keras.metrics.Metric]:
        """See the class."""

    def normalizers(self, batch: Batch) -> Tensors:
        """Sums over a part of a batch, float32 scalars, whose totals over the whole batch divide the losses."""

    def loss(self, outputs: Tensors, batch: Batch, normalizers: Tensors) -> tuple[tf.Tensor, Tensors]:
        """A part's share of the batch's loss, float32 scalar, and its terms by name for the logs.

        Args:
          outputs: of the model, for this part.
          batch: this part.
          normalizers: of the whole batch.
        """


class EvaluatedTask(Task, Protocol):
    """A task whose metrics are means over batches: pre-training."""

    def update_metrics(self, batch: Batch, outputs: Tensors) -> None:
        """Adds a batch of evaluation to the metrics."""


class PredictingTask(Task, Protocol):
    """A task whose scores are computed from predictions: GLUE, SQuAD, RACE."""

    def predictions(self, outputs: Tensors) -> Tensors:
        """The tensors that evaluation needs, by name, [batch, ...]."""


class MeanLossTask(PredictingTask):
    """Base class of the tasks whose loss is a mean over examples and whose scores come from predictions.

    Args:
      model: the model to train.
    """

    metrics: Sequence[keras.metrics.Metric] = ()

    def __init__(self, model: keras.Model):
        self.model = model

    def normalizers(self, batch: Batch) -> Tensors:
        """examples: the number of rows of a part of a batch."""
        return dict(examples=tf.cast(tf.shape(batch["input_ids"])[0], tf.float32))
