"""Distillation: a model, the student, learns from the outputs of a trained one, the teacher (Hinton et al., 2015).

The loss is (1 - alpha) times the task's own loss plus alpha times the distance from the teacher's outputs, which the
task defines (TeachableTask in task.py). The teacher reads the training examples once, before training. Its outputs are
further columns of the table of features (teacher_answers.py)::

    table = with_answers(table, answers(teacher, task.TEACHER_OUTPUTS, teacher_table, ...), task.TEACHER_OUTPUTS)
    task = DistilledTask(task, temperature=2.0, alpha=0.5)
"""

from __future__ import annotations

from typing import Sequence

import tensorflow as tf

from albert_tf import keras
from albert_tf.training.task import Batch, PredictingTask, TeachableTask, Tensors

# What the names of the teacher's outputs begin with in a batch.
PREFIX = "teacher_"


class DistilledTask(PredictingTask):
    """A task whose model also learns from a teacher. With alpha 0 it is the task itself.

    Batches have the teacher's outputs.

    Args:
      temperature: number by which the logits of both models are divided.
      alpha: weight of the distance from the teacher, from 0 to 1. With 1, the task's own loss is not computed.
    """

    def __init__(self, task: TeachableTask, temperature: float = 1.0, alpha: float = 0.5):
        self.model = task.model
        self._task, self._temperature, self._alpha = task, temperature, alpha

    @property
    def metrics(self) -> Sequence[keras.metrics.Metric]:
        """The task's metrics."""
        return self._task.metrics

    def loss_denominators(self, batch: Batch) -> Tensors:
        """The task's denominators."""
        return self._task.loss_denominators(batch)

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the weighted sum. Among its terms is distillation_loss, without its weight."""
        if not self._alpha:
            return self._task.loss(outputs, batch, denominators)
        teacher = {name: batch[PREFIX + name] for name in self._task.TEACHER_OUTPUTS}
        distance = self._task.teacher_loss(outputs, teacher, batch, denominators, self._temperature)
        if self._alpha == 1:
            return distance, dict(distillation_loss=distance)
        own, parts = self._task.loss(outputs, batch, denominators)
        return (1 - self._alpha) * own + self._alpha * distance, dict(parts, distillation_loss=distance)

    def predictions(self, outputs: Tensors) -> Tensors:
        """The task's predictions."""
        return self._task.predictions(outputs)


def divergence(teacher_logits: tf.Tensor, logits: tf.Tensor, temperature: float) -> tf.Tensor:
    """temperature^2 * KL(teacher || student) of the softened distributions: [..., classes] to float32 [...].

    The factor keeps the size of the gradients at any temperature (Hinton et al., 2015, section 2).

    Args:
      teacher_logits, logits: float32 [..., classes]. A teacher's logit of -1e30 stands for probability 0.
    """
    teacher_log_probs = tf.nn.log_softmax(teacher_logits / temperature)
    differences = teacher_log_probs - tf.nn.log_softmax(logits / temperature)
    return temperature**2 * tf.reduce_sum(tf.exp(teacher_log_probs) * differences, axis=-1)


def binary_divergence(teacher_logits: tf.Tensor, logits: tf.Tensor, temperature: float) -> tf.Tensor:
    """`divergence` of distributions of two classes, one of which has the sigmoid of a logit: float32 [...] to [...]."""
    teacher, student = (tf.stack([each, tf.zeros_like(each)], axis=-1) for each in (teacher_logits, logits))
    return divergence(teacher, student, temperature)
