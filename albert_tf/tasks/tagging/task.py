"""Token classification: loss and predictions (Devlin et al., 2019, section 5.3)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.early_exit import loss_over_exits, num_layers_used
from albert_tf.training.task import Batch, MeanLossTask, Tensors


class TaggingTask(MeanLossTask):
    """Tags of words. Batches have tag_ids, int32 [batch, seq]: the id of a token's tag, from 1; 0 for no tag.

    The model is an AlbertTokenClassifier. With exit heads, all of them are trained (see loss_over_exits).
    """

    def loss_denominators(self, batch: Batch) -> Tensors:
        """tags: the number of the micro-batch's tokens that have a tag."""
        return dict(tags=tf.math.count_nonzero(batch["tag_ids"], dtype=tf.float32))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean cross entropy over the tokens that have a tag."""
        tag_ids = batch["tag_ids"]  # [batch, seq]

        def loss_of(logits):
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(tag_ids - 1, 0), logits)
            total = tf.reduce_sum(tf.where(tag_ids > 0, losses, 0.0))
            return tf.math.divide_no_nan(total, denominators["tags"])

        return loss_over_exits(loss_of, outputs), {}

    def predictions(self, outputs: Tensors) -> Tensors:
        """probabilities, float32 [batch, seq, labels]; with early exit also num_layers_used, int32 [batch]."""
        return dict(probabilities=tf.nn.softmax(outputs["logits"]), **num_layers_used(outputs))
