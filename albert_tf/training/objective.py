"""Objective: a model with its loss, and the functions that evaluations and teachers need.

A training step calls `loss_denominators` on each micro-batch and sums them over micro-batches and replicas. Then it
calls the model and `loss` on each micro-batch, and sums the losses.
"""

from __future__ import annotations

from typing import Mapping

import tensorflow as tf

from albert_tf import keras

Batch = Mapping[str, tf.Tensor]
Tensors = dict[str, tf.Tensor]


class Objective:
    """Base class of objectives. A subclass defines `loss`, and the functions that its evaluation needs.

    Attributes:
      model: it is called with a batch and returns a dict of outputs.
      compared_output: the output that the loss reads, if it compares the rows of a micro-batch with each other. Then a
        micro-batch is not split into parts, and has the rows of all replicas. "" if the losses of parts add up.
      compares_batch: whether the loss compares the rows of all micro-batches of a step.
      TEACHER_OUTPUTS: the teacher's outputs that the model can learn from. For an output with a value per token, this
        is the value that stands for padding; None for an output with one value, or one vector, per example.
    """

    compared_output: str = ""
    compares_batch: bool = False
    TEACHER_OUTPUTS: Mapping[str, float | None] = {}

    def __init__(self, model: keras.Model):
        self.model = model

    def loss_denominators(self, batch: Batch) -> Tensors:
        """Sums over a micro-batch, float32 scalars, whose totals are the losses' denominators: by default its rows."""
        return dict(examples=tf.cast(tf.shape(batch["input_ids"])[0], tf.float32))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """A micro-batch's share of the batch's loss, a float32 scalar, and its terms by name for the logs.

        `denominators` are the totals of `loss_denominators` over the whole batch.
        """
        raise NotImplementedError

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """The tensors from which scores are computed, by name, [batch, ...]. A batch of an export has no labels."""
        raise NotImplementedError

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """A micro-batch's share of the distance of the model's outputs from the teacher's, a float32 scalar."""
        raise NotImplementedError
