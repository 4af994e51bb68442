"""Classification and regression of whole texts: loss and predictions (release: classifier_utils.create_model)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.training.distillation import divergence
from albert_tf.training.task import Batch, MeanLossTask, Tensors


class ClassificationTask(MeanLossTask):
    """GLUE and multiple choice. Batches have label_ids, int32 [batch], or float32 [batch] for regression.

    Args:
      model: a model with one logit per label.
      is_regression: whether the single logit is a score.
    """

    TEACHER_OUTPUTS = dict(logits=None)

    def __init__(self, model: AlbertClassifier | AlbertMultipleChoice, is_regression: bool = False):
        super().__init__(model)
        self._is_regression = is_regression

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean cross entropy, or of the mean squared error for regression."""
        if self._is_regression:
            losses = tf.square(outputs["logits"][:, 0] - batch["label_ids"])  # [batch]
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label_ids"], outputs["logits"])  # [batch]
        return tf.reduce_sum(losses) / denominators["examples"], {}

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean divergence from the teacher's labels, or squared error of its score."""
        if self._is_regression:
            losses = tf.square(outputs["logits"][:, 0] - teacher["logits"][:, 0])  # [batch]
        else:
            losses = divergence(teacher["logits"], outputs["logits"], temperature)  # [batch]
        return tf.reduce_sum(losses) / denominators["examples"]

    def predictions(self, outputs: Tensors) -> Tensors:
        """probabilities, float32 [batch, labels]; for regression the score, [batch, 1], as in the release."""
        logits = outputs["logits"]
        return dict(probabilities=logits if self._is_regression else tf.nn.softmax(logits))
