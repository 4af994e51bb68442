"""The protocol of tasks, which the type checker verifies.

A training step calls `loss_denominators` on each micro-batch and sums them over micro-batches and replicas. Then it
calls the model and `loss` on each micro-batch, and sums the losses. For tasks whose metrics are means over batches
(pre-training), evaluation calls `update_metrics`. For tasks whose scores come from predictions (GLUE, SQuAD), Predictor
calls `predictions`.
"""

from __future__ import annotations

from typing import Mapping, Protocol, Sequence

import tensorflow as tf

from albert_tf import keras

Batch = Mapping[str, tf.Tensor]
Tensors = dict[str, tf.Tensor]


class TrainableTask(Protocol):
    """A model with its loss.

    Attributes:
      model: a model that is called with a batch and returns a dict of outputs.
      metrics: Keras metrics, which each evaluation resets; empty if scores come from predictions.
    """

    model: keras.Model

    @property
    def metrics(self) -> Sequence[keras.metrics.Metric]:
        """Keras metrics, which each evaluation resets; empty if scores come from predictions."""

    def loss_denominators(self, batch: Batch) -> Tensors:
        """Sums over a micro-batch, float32 scalars. Their totals over the whole batch are the losses' denominators."""

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """A micro-batch's share of the batch's loss, a float32 scalar, and its terms by name for the logs.

        Args:
          denominators: the totals of `loss_denominators` over the whole batch.
        """


class EvaluatedTask(TrainableTask, Protocol):
    """A task whose metrics are means over batches: pre-training."""

    def update_metrics(self, batch: Batch, outputs: Tensors) -> None:
        """Adds a batch of an evaluation to the metrics."""


class PredictingTask(TrainableTask, Protocol):
    """A task whose scores are computed from predictions: GLUE, SQuAD, RACE."""

    def predictions(self, outputs: Tensors) -> Tensors:
        """The tensors that evaluation needs, by name, [batch, ...].

        The batch is not given: what selects among the outputs, such as the mask of a question's tokens, is an input of
        the model.
        """


class TeachableTask(PredictingTask, Protocol):
    """A task whose model can learn from the outputs of another one.

    A class has TEACHER_OUTPUTS as an attribute.
    """

    @property
    def TEACHER_OUTPUTS(self) -> Mapping[str, float | None]:  # noqa: N802 (a constant of the class)
        """The teacher's outputs that the model learns from.

        For an output with a value per token, this is the value that stands for padding; None for an output with one
        value, or one vector, per example.
        """

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """A micro-batch's share of the distance of the model's outputs from the teacher's, a float32 scalar."""


class MeanLossTask(PredictingTask):
    """Base class of tasks whose loss is a mean over examples and whose scores come from predictions."""

    metrics: Sequence[keras.metrics.Metric] = ()

    def __init__(self, model: keras.Model):
        self.model = model

    def loss_denominators(self, batch: Batch) -> Tensors:
        """examples: the number of rows of the micro-batch."""
        return dict(examples=tf.cast(tf.shape(batch["input_ids"])[0], tf.float32))
