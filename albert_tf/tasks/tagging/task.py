"""Token classification: loss and predictions (Devlin et al., 2019, section 5.3)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.early_exit import loss_over_exits, num_layers_used
from albert_tf.training.distillation import divergence
from albert_tf.training.task import Batch, MeanLossTask, Tensors


class TaggingTask(MeanLossTask):
    """Tags of words. Batches have tag_ids, int32 [batch, seq]: the id of a token's tag, from 1; 0 for no tag.

    The model is an AlbertTokenClassifier. With exit heads, all of them are trained (see loss_over_exits).
    """

    TEACHER_OUTPUTS = dict(logits=0.0)

    def loss_denominators(self, batch: Batch) -> Tensors:
        """tags: the number of the micro-batch's tokens that have a tag."""
        return dict(tags=tf.math.count_nonzero(batch["tag_ids"], dtype=tf.float32))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean cross entropy over the tokens that have a tag."""
        tag_ids = batch["tag_ids"]  # [batch, seq]

        def loss_of(logits):
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(tag_ids - 1, 0), logits)
            return _mean_of_tagged(losses, batch, denominators)

        return loss_over_exits(loss_of, outputs), {}

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean divergence from the teacher over the tokens that have a tag."""
        def loss_of(logits):
            return _mean_of_tagged(divergence(teacher["logits"], logits, temperature), batch, denominators)

        return loss_over_exits(loss_of, outputs)

    def predictions(self, outputs: Tensors) -> Tensors:
        """probabilities, float32 [batch, seq, labels]; with early exit also num_layers_used, int32 [batch]."""
        return dict(probabilities=tf.nn.softmax(outputs["logits"]), **num_layers_used(outputs))


def _mean_of_tagged(losses: tf.Tensor, batch: Batch, denominators: Tensors) -> tf.Tensor:
    """The micro-batch's share of the mean of losses [batch, seq] over the tokens that have a tag."""
    total = tf.reduce_sum(tf.where(batch["tag_ids"] > 0, losses, 0.0))
    return tf.math.divide_no_nan(total, denominators["tags"])
