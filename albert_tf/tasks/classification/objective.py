"""Classification and regression of whole texts: losses and predictions (release: classifier_utils.create_model)."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.modeling.classifier import AlbertClassifier, AlbertMultipleChoice
from albert_tf.tasks.classification.table_format import BALANCED, TableFormat
from albert_tf.training.distillation import binary_divergence, divergence
from albert_tf.training.objective import Batch, Objective, Tensors

_LEAST_FACTOR = 1e-12  # the power of 0 has no finite gradient if the exponent is less than 1


@dataclasses.dataclass(frozen=True)
class LabelLoss:
    """The loss of a classifier's logits.

    With one label per text it is the mean of cross entropies that the weights of the labels weight, as PyTorch's
    CrossEntropyLoss(weight=...). With several labels per text it is the mean of binary cross entropies over texts and
    labels, in which the weights multiply the terms of labels that apply, as PyTorch's
    BCEWithLogitsLoss(pos_weight=...). The focal loss multiplies each term by (1 - p) ** focal_gamma, where p is the
    probability of what is correct (Lin et al., 2017).
    """

    multi_label: bool = False
    class_weights: tuple[float, ...] | None = None
    focal_gamma: float = 0.0

    def weights(self, labels: tf.Tensor) -> tf.Tensor:
        """The weight of each text in the mean, float32 [batch]."""
        if self.multi_label or self.class_weights is None:
            return tf.ones(tf.shape(labels)[:1])
        return tf.gather(tf.constant(self.class_weights, tf.float32), labels)

    def losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The weighted loss of each text, float32 [batch].

        `labels` are int32 [batch], or if a text can have several, float32 [batch, labels] with 1 for those that apply.
        """
        if self.multi_label:
            terms = tf.nn.weighted_cross_entropy_with_logits(labels, logits, tf.constant(self.class_weights or 1.0))
            return tf.reduce_mean(self._focal(terms, tf.sigmoid(logits * (1.0 - 2.0 * labels))), axis=1)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        losses = self._focal(losses, -tf.math.expm1(-losses))
        return losses if self.class_weights is None else losses * self.weights(labels)

    def _focal(self, losses: tf.Tensor, wrong: tf.Tensor) -> tf.Tensor:
        """The losses times their factors. `wrong` has the probabilities of what is not correct."""
        if not self.focal_gamma:
            return losses
        return losses * tf.pow(tf.maximum(wrong, _LEAST_FACTOR), self.focal_gamma)


class ClassificationObjective(Objective):
    """GLUE and multiple choice. Batches have label_ids, int32 [batch], or float32 [batch] for regression.

    With several labels per text label_ids are float32 [batch, labels].
    """

    TEACHER_OUTPUTS = dict(logits=None)

    def __init__(self, model: AlbertClassifier | AlbertMultipleChoice, is_regression: bool = False,
                 label_loss: LabelLoss = LabelLoss()):
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
            probabilities = model.settings.probabilities(logits)
        else:
            probabilities = tf.nn.softmax(logits)
        return dict(probabilities=probabilities, logits=logits)


class RankingObjective(ClassificationObjective):
    """Ranking: one score for a query and a passage. The rows with the same query are its ranking.

    A row's first text is the query, the second one the passage. The loss is the cross entropy of the sigmoid of one
    logit. Batches have label_ids, float32 [batch], 1 if the passage is relevant for the query, else 0.

    It is the loss of sentence-transformers' BinaryCrossEntropyLoss.
    """

    def __init__(self, model: AlbertClassifier):
        super().__init__(model, label_loss=LabelLoss(multi_label=True))

    def loss(self, outputs: Tensors, batch: Batch, denominators: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The micro-batch's share of the mean cross entropy."""
        return super().loss(outputs, dict(batch, label_ids=batch["label_ids"][:, None]), denominators)

    def predictions(self, outputs: Tensors) -> Tensors:
        """probabilities, float32 [batch, 1]: the sigmoid of the logit."""
        return dict(probabilities=tf.sigmoid(outputs["logits"]))


def class_weights(format: TableFormat, label_ids: np.ndarray, path: str) -> tuple[float, ...] | None:
    """The weights of a task's labels; None if they are equal.

    "balanced" means the weights of scikit-learn: examples / (labels * examples with the label). With several labels per
    text, it is the number of texts without the label divided by the number of those with it.

    `label_ids` are those of the training set at `path`, [examples] or [examples, labels].
    """
    if format.class_weights != BALANCED or format.labels is None:
        return None if format.class_weights is None else tuple(map(float, format.class_weights))
    counts = label_ids.sum(axis=0) if format.multi_label else np.bincount(label_ids, minlength=format.num_labels)
    if not counts.all():
        name = format.labels[int(np.argmin(counts))]
        raise ValueError(f'{path} has no example with the label {name!r}, so "class_weights": "{BALANCED}" gives it no '
                         "weight: add an example, or write the weights as numbers")
    total = len(label_ids)
    weights = np.maximum(total - counts, 1) / counts if format.multi_label else total / (format.num_labels * counts)
    return tuple(map(float, weights))
