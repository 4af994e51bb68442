"""LabelProbabilities: how a classifier's logits become probabilities or scores, in Keras and in an exported model."""

from __future__ import annotations

import tensorflow as tf


class LabelProbabilities:
    """What a classifier has that gives one label or several, and that may be calibrated, or that ranks.

    Attributes:
      num_labels: number of logits.
      multi_label: whether a text can have several labels: each has a probability of its own.
      temperature: what logits are divided by before they become probabilities.
      thresholds: with multi_label, the least probability of each label that is predicted; None for 0.5.
      activation_fn: what makes the score of a model that ranks: one of ACTIVATIONS. None for other models.
    """

    num_labels: int
    multi_label: bool
    temperature: float
    thresholds: tuple[float, ...] | None
    activation_fn: str | None

    def probabilities(self, logits: tf.Tensor) -> tf.Tensor:
        """The probabilities of the labels, float32 [batch, num_labels]: they add up to 1 unless multi_label is set."""
        scaled = logits if self.temperature == 1.0 else logits / self.temperature
        return tf.sigmoid(scaled) if self.multi_label else tf.nn.softmax(scaled)

    def score_of(self, logits: tf.Tensor) -> tf.Tensor:
        """The scores of a model that ranks, from its logits, float32 of any shape."""
        return logits if self.activation_fn == "identity" else tf.sigmoid(logits)

    @property
    def label_thresholds(self) -> tf.Tensor:
        """With multi_label, the least probability of each label that is predicted, float32 [num_labels]."""
        return tf.constant(self.thresholds or (0.5,) * self.num_labels, tf.float32)
