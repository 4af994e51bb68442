"""Pre-training: the masked-LM and sentence losses, and their metrics (release: run_pretraining.py)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf import keras
from albert_tf.modeling.fused import fused
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.layer_distillation import LayerDistillation, LayerLosses
from albert_tf.training.distillation import divergence
from albert_tf.training.task import Batch, EvaluatedTask, Tensors


class PretrainingTask(EvaluatedTask):
    """Masked LM and sentence order. Batches are those of pretraining/reading.py.

    Args:
      model: the model to train.
      has_sentence_loss: whether there is a sentence loss; False for the objective "none".
    """

    best_metric = "masked_lm_accuracy"

    def __init__(self, model: AlbertPretrainer, has_sentence_loss: bool = True):
        self.model, self._has_sentence_loss = model, has_sentence_loss
        names = ["masked_lm_accuracy", "masked_lm_loss"]
        names += ["sentence_order_accuracy", "sentence_order_loss"] if has_sentence_loss else []
        self._means = {name: keras.metrics.Mean(name=name) for name in names}

    def loss_denominators(self, batch: Batch) -> Tensors:
        """masked_tokens: the sum of masked_lm_weights; examples: the number of rows of the micro-batch."""
        return dict(masked_tokens=tf.reduce_sum(batch["masked_lm_weights"]),
                    examples=tf.cast(tf.shape(batch["input_ids"])[0], tf.float32))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the loss of the whole batch, and of its terms by name.

        Masked LM: weighted sum / (sum of weights + 1e-5). Sentence order: mean cross entropy. Loss: their sum.
        """
        losses = _fused_cross_entropies(batch["masked_lm_ids"], outputs["mlm_logits"])  # [batch, predictions]
        masked_lm = tf.reduce_sum(losses * batch["masked_lm_weights"])
        parts = dict(masked_lm_loss=masked_lm / (denominators["masked_tokens"] + 1e-5))
        if self._has_sentence_loss:
            parts["sentence_order_loss"] = tf.reduce_sum(_sentence_losses(outputs, batch)) / denominators["examples"]
        return tf.add_n(list(parts.values())), parts

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The means of losses and accuracies over the batches of an evaluation."""
        return list(self._means.values())

    def update_metrics(self, batch: Batch, outputs: Tensors) -> None:
        """Adds a batch of an evaluation. Rows with is_real_example 0, which fill up the last batch, do not count."""
        real = batch["is_real_example"]
        weights = batch["masked_lm_weights"] * real[:, None]
        hits = tf.equal(tf.argmax(outputs["mlm_logits"], axis=-1, output_type=tf.int32), batch["masked_lm_ids"])
        self._means["masked_lm_accuracy"].update_state(tf.cast(hits, tf.float32), weights)
        self._means["masked_lm_loss"].update_state(tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch["masked_lm_ids"], outputs["mlm_logits"]), weights)
        if self._has_sentence_loss:
            labels = batch["next_sentence_labels"][:, 0]
            hits = tf.equal(tf.argmax(outputs["sop_logits"], axis=-1, output_type=tf.int32), labels)
            self._means["sentence_order_accuracy"].update_state(tf.cast(hits, tf.float32), real)
            self._means["sentence_order_loss"].update_state(_sentence_losses(outputs, batch), real)

    def results(self, has_sentence_labels: bool = True) -> dict[str, float]:
        """The values of the metrics, with the release's keys. "loss" is the sum of the losses.

        Metrics of the sentence objective are left out if the records have no sentence labels.
        """
        values = {name: float(mean.result()) for name, mean in self._means.items()
                  if has_sentence_labels or not name.startswith("sentence_order")}
        return dict(values, loss=sum(value for name, value in values.items() if name.endswith("_loss")))


class DistilledPretrainingTask(PretrainingTask):
    """Pre-training in which the masked-LM head also learns from that of a teacher with the same vocabulary.

    If `layers` says so, the layers learn from those of the teacher, too.

    The loss of masked tokens is (1 - alpha) times the cross entropy plus alpha times the divergence from the teacher
    (see distillation.divergence). The sentence loss stays as it is. The teacher reads each batch in the training step,
    since its logits, one for each piece and masked token, are too many for a cache.

    Args:
      model, teacher: the model to train, and the teacher, which is not trained.
      temperature: number by which the logits of both models are divided.
      alpha: weight of the divergence, from 0 to 1. With 0, the teacher's logits are not used.
      has_sentence_loss: as for PretrainingTask.
      layers: what the model learns from the teacher's layers, too (see layer_distillation.py); None for nothing.

    Raises:
      ValueError: the layers or heads of `layers` do not fit both models.
    """

    def __init__(self, model: AlbertPretrainer, teacher: AlbertPretrainer, temperature: float = 1.0,
                 alpha: float = 0.5, has_sentence_loss: bool = True, layers: LayerDistillation | None = None):
        super().__init__(model, has_sentence_loss)
        self._teacher, self._temperature, self._alpha = teacher, temperature, alpha
        self._layer_losses = LayerLosses(model, teacher, layers) if layers and layers.is_used else None

    def loss_denominators(self, batch: Batch) -> Tensors:
        """Those of PretrainingTask, and tokens: the number of tokens without padding."""
        denominators = super().loss_denominators(batch)
        if not self._layer_losses:
            return denominators
        return dict(denominators, tokens=tf.cast(tf.reduce_sum(batch["input_mask"]), tf.float32))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """As of PretrainingTask, with distillation_loss and the losses of layers, without their weights."""
        total, parts = super().loss(outputs, batch, denominators)
        teacher_outputs = self._teacher(batch, training=False)
        if self._alpha:
            teacher_logits = tf.stop_gradient(teacher_outputs["mlm_logits"])
            losses = divergence(teacher_logits, outputs["mlm_logits"], self._temperature)  # [batch, predictions]
            distance = tf.reduce_sum(losses * batch["masked_lm_weights"]) / (denominators["masked_tokens"] + 1e-5)
            weighted = dict(parts, masked_lm_loss=(1 - self._alpha) * parts["masked_lm_loss"])
            total = tf.add_n([*weighted.values(), self._alpha * distance])
            parts = dict(parts, distillation_loss=distance)
        if self._layer_losses:
            of_layers, losses_of_layers = self._layer_losses(outputs, teacher_outputs, batch, denominators)
            total, parts = total + of_layers, dict(parts, **losses_of_layers)
        return total, parts


# TensorFlow's op takes twice as long (14.7 ms, fused 6.6 ms, for 320 x 8,000 logits on one core, forward and backward).
_fused_cross_entropies = fused(tf.nn.sparse_softmax_cross_entropy_with_logits, is_separate=False)


def _sentence_losses(outputs: Tensors, batch: Batch) -> tf.Tensor:
    """The cross entropy of each sentence label, [batch]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(batch["next_sentence_labels"][:, 0], outputs["sop_logits"])
