"""Classification and regression of whole texts: loss and predictions (release: classifier_utils.create_model)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.classifier import AlbertClassifier


class ClassificationTask:
    """What the trainer needs to know of GLUE. Batches have label_ids: int32 [batch], float32 for a regression.

    Args:
      model: with one logit per label.
      is_regression: whether its one logit is a score.
    """

    metrics = ()  # what GLUE reports is not a mean over batches: tasks/glue_metrics.py computes it from predictions

    def __init__(self, model: AlbertClassifier, is_regression: bool = False):
        self.model, self._is_regression = model, is_regression

    def normalizers(self, batch: dict) -> dict[str, tf.Tensor]:
        """What the loss is divided by: the examples of a part of the batch, to be added up over all of it."""
        return dict(examples=tf.cast(tf.shape(batch["label_ids"])[0], tf.float32))

    def loss(self, outputs: dict, batch: dict, normalizers: dict) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Mean cross entropy, or mean squared error: the part that is this part of the batch's."""
        if self._is_regression:
            losses = tf.square(outputs["logits"][:, 0] - batch["label_ids"])  # [batch]
        else:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label_ids"], outputs["logits"])  # [batch]
        return tf.reduce_sum(losses) / normalizers["examples"], {}

    def predictions(self, outputs: dict) -> dict[str, tf.Tensor]:
        """probabilities, float32 [batch, labels]; of a regression the score, [batch, 1], as in the release."""
        logits = outputs["logits"]
        return dict(probabilities=logits if self._is_regression else tf.nn.softmax(logits))
