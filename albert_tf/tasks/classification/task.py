"""Classification and regression of whole texts: loss and predictions (release: classifier_utils.create_model)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.tasks.classification.losses import ONE_LABEL, LabelLoss
from albert_tf.training.distillation import binary_divergence, divergence
from albert_tf.training.task import Batch, MeanLossTask, Tensors


class ClassificationTask(MeanLossTask):
    """GLUE and multiple choice. Batches have label_ids, int32 [batch], or float32 [batch] for regression.

    With several labels per text label_ids are float32 [batch, labels].

    Args:
      model: a model with one logit per label.
      is_regression: whether the single logit is a score.
      label_loss: the loss of labels.
    """

    TEACHER_OUTPUTS = dict(logits=None)

    def __init__(self, model: AlbertClassifier | AlbertMultipleChoice, is_regression: bool = False,
                 label_loss: LabelLoss = ONE_LABEL):
        super().__init__(model)
        self._is_regression, self._label_loss = is_regression, label_loss

    def loss_denominators(self, batch: Batch) -> Tensors:
        """examples: the number of rows of the micro-batch; weights: if labels have weights, the sum of its rows'."""
        denominators = super().loss_denominators(batch)
        if self._label_loss.class_weights is not None:
            denominators["weights"] = tf.reduce_sum(self._label_loss.weights(batch["label_ids"]))
        return denominators

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean of LabelLoss, or of the mean squared error for regression."""
        logits = outputs["logits"]
        if self._is_regression:
            losses = tf.square(logits[:, 0] - batch["label_ids"])  # [batch]
        else:
            losses = self._label_loss.losses(logits, batch["label_ids"])  # [batch]
        return tf.reduce_sum(losses) / denominators.get("weights", denominators["examples"]), {}

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean divergence from the teacher's labels, or squared error of its score."""
        expected, logits = teacher["logits"], outputs["logits"]  # [batch, labels]
        if self._is_regression:
            losses = tf.square(logits[:, 0] - expected[:, 0])  # [batch]
        elif self._label_loss.multi_label:
            losses = tf.reduce_mean(binary_divergence(expected, logits, temperature), axis=1)
        else:
            losses = divergence(expected, logits, temperature)  # [batch]
        return tf.reduce_sum(losses) / denominators["examples"]

    def predictions(self, outputs: Tensors) -> Tensors:
        """probabilities and logits, float32 [batch, labels]; for regression both are the score, [batch, 1]."""
        logits, model = outputs["logits"], self.model
        if self._is_regression:
            probabilities = logits
        elif isinstance(model, AlbertClassifier):
            probabilities = model.probabilities(logits)
        else:
            probabilities = tf.nn.softmax(logits)
        return dict(probabilities=probabilities, logits=logits)
