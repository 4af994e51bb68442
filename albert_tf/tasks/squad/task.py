"""SQuAD: the losses of both heads, and the candidates for answers (release: squad_utils.py)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.modeling.span import MASKED_LOGIT, AlbertConditionalSpan, AlbertSpan
from albert_tf.training.distillation import binary_divergence, divergence
from albert_tf.training.task import Batch, Tensors, TrainableTask


class SpanTask(TrainableTask):
    """SQuAD 1.1. Batches have start_positions and end_positions, int32 [batch], in training.

    There are n_best_size candidates for starts, and for ends, in each feature.
    """

    TEACHER_OUTPUTS = dict(start_logits=MASKED_LOGIT, end_logits=MASKED_LOGIT)

    def __init__(self, model: AlbertSpan, n_best_size: int = 20):
        super().__init__(model)
        self._n_best_size = n_best_size

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the loss: the mean of the cross entropies of start and end."""
        start, end = (tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(batch[positions], outputs[logits]))
                      / denominators["examples"]
                      for positions, logits in (("start_positions", "start_logits"), ("end_positions", "end_logits")))
        return (start + end) / 2.0, dict(start_loss=start, end_loss=end)

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the mean of the divergences of start and end from the teacher's, over tokens."""
        is_token = tf.cast(batch["input_mask"], tf.bool)  # padding is MASKED_LOGIT in the teacher's outputs
        return sum(tf.reduce_sum(divergence(teacher[name], tf.where(is_token, outputs[name], MASKED_LOGIT),
                                            temperature))
                   for name in self.TEACHER_OUTPUTS) / (2.0 * denominators["examples"])

    def predictions(self, outputs: Tensors) -> Tensors:
        """The best starts and the best ends, independently, best first: [batch, n_best_size]. On a tie, the first wins.

        As in the release, the log_probs are logits here.
        """
        candidates = {}
        for name in ("start", "end"):
            logits = outputs[f"{name}_logits"]
            seq = logits.shape[1]  # None in a graph for any length
            count = min(self._n_best_size, seq) if seq else tf.minimum(self._n_best_size, tf.shape(logits)[1])
            values, index = tf.math.top_k(logits, count)
            candidates.update({f"{name}_top_log_probs": values, f"{name}_top_index": index})
        return candidates


class ConditionalSpanTask(TrainableTask):
    """SQuAD 2.0. Batches have p_mask, int32 [batch, seq].

    In training they have start_positions, end_positions and is_impossible, int32 [batch].
    """

    model: AlbertConditionalSpan
    TEACHER_OUTPUTS = dict(start_log_probs=MASKED_LOGIT, end_log_probs=MASKED_LOGIT, cls_logits=None)

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The mean of the cross entropies of start and end, plus half the sigmoid cross entropy of answerability."""
        start, end = (-tf.reduce_sum(tf.gather(outputs[log_probs], batch[positions], batch_dims=1))
                      / denominators["examples"]
                      for positions, log_probs in (("start_positions", "start_log_probs"),
                                                   ("end_positions", "end_log_probs")))
        is_impossible = tf.cast(batch["is_impossible"], tf.float32)
        answerability = tf.nn.sigmoid_cross_entropy_with_logits(is_impossible, outputs["cls_logits"])  # [batch]
        regression = tf.reduce_sum(answerability) / denominators["examples"]
        parts = dict(start_loss=start, end_loss=end, regression_loss=regression)
        return (start + end) / 2.0 + 0.5 * regression, parts

    def teacher_loss(
        self, outputs: Tensors, teacher: Tensors, batch: Batch, denominators: Tensors, temperature: float
    ) -> tf.Tensor:
        """The micro-batch's share of the divergences from the teacher, with the weights of the loss.

        Both models condition the end on the start of the answer. Answerability is a distribution of two classes.
        """
        start, end = (divergence(teacher[name], outputs[name], temperature)
                      for name in ("start_log_probs", "end_log_probs"))
        answerability = binary_divergence(teacher["cls_logits"], outputs["cls_logits"], temperature)
        return tf.reduce_sum((start + end) / 2.0 + 0.5 * answerability) / denominators["examples"]

    def predictions(self, outputs: Tensors) -> Tensors:
        """The beam (starts, best first, and the ends of each), and the logit that there is no answer."""
        names = ("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index", "cls_logits")
        return {name: outputs[name] for name in names}
