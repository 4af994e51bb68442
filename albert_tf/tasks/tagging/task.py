"""Token classification: loss and predictions (Devlin et al., 2019, section 5.3)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.training.distillation import divergence
from albert_tf.training.task import Batch, MeanLossTask, Tensors


class TaggingTask(MeanLossTask):
    """Tags of words. Batches have tag_ids, int32 [batch, seq]: the id of a token's tag, from 1; 0 for no tag.

    The model is an AlbertTokenClassifier.
    """

    TEACHER_OUTPUTS = dict(logits=0.0)

    def loss_denominators(self, batch: Batch) -> Tensors:
        """tags: the number of the micro-batch's tokens that have a tag."""
        return dict(tags=tf.math.count_nonzero(batch["tag_ids"], dtype=tf.float32))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean cross entropy over the tokens that have a tag."""
        tag_ids = tf.maximum(batch["tag_ids"] - 1, 0)  # [batch, seq]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tag_ids, outputs["logits"])
        return _mean_of_tagged(losses, batch, denominators), {}

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean divergence from the teacher over the tokens that have a tag."""
        return _mean_of_tagged(divergence(teacher["logits"], outputs["logits"], temperature), batch, denominators)

    def predictions(self, outputs: Tensors) -> Tensors:
        """probabilities, float32 [batch, seq, labels]."""
        return dict(probabilities=tf.nn.softmax(outputs["logits"]))


def _mean_of_tagged(losses: tf.Tensor, batch: Batch, denominators: Tensors) -> tf.Tensor:
    """The micro-batch's share of the mean of losses [batch, seq] over the tokens that have a tag."""
    total = tf.reduce_sum(tf.where(batch["tag_ids"] > 0, losses, 0.0))
    return tf.math.divide_no_nan(total, denominators["tags"])
