"""Pre-training: the masked-LM and sentence losses, and their metrics (release: run_pretraining.py)."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.modeling.operations import fused
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.training.distillation import divergence
from albert_tf.training.objective import Batch, Objective, Tensors


class PretrainingObjective(Objective):
    """Masked LM and sentence order. pretraining/reading.py makes the batches."""

    def __init__(self, model: AlbertPretrainer, has_sentence_loss: bool = True):
        super().__init__(model)
        self._has_sentence_loss = has_sentence_loss

    def loss_denominators(self, batch: Batch) -> Tensors:
        """masked_tokens: the sum of masked_lm_weights; examples: the number of examples of the micro-batch."""
        return dict(examples=tf.reduce_sum(_is_example(batch)), masked_tokens=tf.reduce_sum(batch["masked_lm_weights"]))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the loss of the whole batch, and of its terms by name.

        Masked LM: weighted sum / (sum of weights + 1e-5). Sentence order: mean cross entropy. Loss: their sum.
        """
        losses = _fused_cross_entropies(batch["masked_lm_ids"], outputs["mlm_logits"])  # [batch, predictions]
        masked_lm = tf.reduce_sum(losses * batch["masked_lm_weights"])
        parts = dict(masked_lm_loss=masked_lm / (denominators["masked_tokens"] + 1e-5))
        if self._has_sentence_loss:
            losses = _sentence_losses(outputs, batch) * _is_example(batch)
            parts["sentence_order_loss"] = tf.reduce_sum(losses) / denominators["examples"]
        return tf.add_n(list(parts.values())), parts

    def predictions(self, outputs: Tensors, batch: Batch) -> Tensors:
        """Sums over each row, float32 [batch], for `results`: NAME_accuracy (of hits), NAME_loss and NAME_weight."""
        logits, labels = outputs["mlm_logits"], batch["masked_lm_ids"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        sums = sums_of_rows("masked_lm", batch, _hits(logits, labels), losses, batch["masked_lm_weights"])
        if self._has_sentence_loss:
            hits = _hits(outputs["sop_logits"], tf.reshape(batch["next_sentence_labels"], [-1]))
            sums.update(sums_of_rows("sentence_order", batch, hits, _sentence_losses(outputs, batch),
                                     _is_example(batch)))
        return sums


def results(predictions: Mapping[str, Sequence[np.ndarray]], has_sentence_labels: bool = True) -> dict[str, float]:
    """Mean accuracies and losses, with the release's keys, from `predictions`. "loss" is the sum of the losses."""
    sums = {name: float(np.sum(values, dtype=np.float64)) for name, values in predictions.items()
            if has_sentence_labels or not name.startswith("sentence_order")}
    means = {name: value / (sums[f"{name.rpartition('_')[0]}_weight"] or 1.0) for name, value in sums.items()
             if not name.endswith("_weight")}
    return dict(means, loss=sum(value for name, value in means.items() if name.endswith("_loss")))


class DistilledPretrainingObjective(PretrainingObjective):
    """Pre-training in which the masked-LM head also learns from the head of a teacher with the same vocabulary.

    The loss of masked tokens is (1 - alpha) times the cross entropy plus alpha times the divergence from the teacher
    (see distillation.divergence). The sentence loss stays as it is. The teacher reads each batch in the training step,
    since its logits, one for each piece and masked token, are too many for a cache.
    """

    def __init__(self, model: AlbertPretrainer, teacher: AlbertPretrainer, temperature: float = 1.0,
                 alpha: float = 0.5, **arguments: Any):
        super().__init__(model, **arguments)
        self._teacher, self._temperature, self._alpha = teacher, temperature, alpha

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The same as in PretrainingObjective, plus distillation_loss, before weighting."""
        _, parts = super().loss(outputs, batch, denominators)
        teacher_logits = tf.stop_gradient(self._teacher(batch, training=False)["mlm_logits"])
        losses = divergence(teacher_logits, outputs["mlm_logits"], self._temperature)  # [batch, predictions]
        distance = tf.reduce_sum(losses * batch["masked_lm_weights"]) / (denominators["masked_tokens"] + 1e-5)
        weighted = dict(parts, masked_lm_loss=(1 - self._alpha) * parts["masked_lm_loss"])
        return tf.add_n([*weighted.values(), self._alpha * distance]), dict(parts, distillation_loss=distance)


# TensorFlow's op takes twice as long (14.7 ms, fused 6.6 ms, for 320 x 8,000 logits on one core, forward and backward).
_fused_cross_entropies = fused(tf.nn.sparse_softmax_cross_entropy_with_logits, is_separate=False)


def _hits(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """1 where the largest logit is the label's: [..., classes] to float32 [...]."""
    return tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels), tf.float32)


def sums_of_rows(name: str, batch: Batch, hits: tf.Tensor, losses: tf.Tensor, weights: tf.Tensor) -> Tensors:
    """The weighted sums of each row of a batch, [batch]. The values are [batch, n] or [batch * n]."""
    return {f"{name}_{kind}": tf.reduce_sum(tf.reshape(values, [tf.shape(batch["input_ids"])[0], -1]), axis=1)
            for kind, values in dict(accuracy=hits * weights, loss=losses * weights, weight=weights).items()}


def _sentence_losses(outputs: Tensors, batch: Batch) -> tf.Tensor:
    """The cross entropy of each sentence label, [batch], or [batch * texts] for rows of several texts."""
    labels = tf.reshape(batch["next_sentence_labels"], [-1])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs["sop_logits"])


def _is_example(batch: Batch) -> tf.Tensor:
    """1 for each sentence label of an example, and 0 for one that fills up a row: float32, as the losses."""
    if "text_starts" in batch:
        starts = batch["text_starts"]
        return tf.reshape(tf.cast(starts[:, :-1] < starts[:, -1:], tf.float32), [-1])
    return tf.ones(tf.shape(batch["input_ids"])[:1])
