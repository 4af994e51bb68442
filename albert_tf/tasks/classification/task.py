"""Classification and regression of whole texts: loss and predictions (release: classifier_utils.create_model)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.early_exit import loss_over_exits, num_layers_used
from albert_tf.modeling.multiple_choice import AlbertMultipleChoice
from albert_tf.training.task import Batch, MeanLossTask, Tensors


class ClassificationTask(MeanLossTask):
    """GLUE and multiple choice. Batches have label_ids, int32 [batch], or float32 [batch] for regression.

    Args:
      model: a model with one logit per label. With exit heads, all of them are trained (see loss_over_exits).
      is_regression: whether the single logit is a score.
    """

    def __init__(self, model: AlbertClassifier | AlbertMultipleChoice, is_regression: bool = False):
        super().__init__(model)
        self._is_regression = is_regression

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean cross entropy, or of the mean squared error for regression."""
        def loss_of(logits):
            if self._is_regression:
                losses = tf.square(logits[:, 0] - batch["label_ids"])  # [batch]
            else:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label_ids"], logits)  # [batch]
            return tf.reduce_sum(losses) / denominators["examples"]

        return loss_over_exits(loss_of, outputs), {}

    def predictions(self, outputs: Tensors) -> Tensors:
        """probabilities, float32 [batch, labels]; for regression the score, [batch, 1], as in the release.

        With early exit also num_layers_used, int32 [batch].
        """
        logits = outputs["logits"]
        return dict(probabilities=logits if self._is_regression else tf.nn.softmax(logits), **num_layers_used(outputs))
