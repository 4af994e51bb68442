"""AlbertClassifier: the encoder with a head for one label per input (release: classifier_utils.py)."""

from __future__ import annotations

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.layers import OutputDense, dropouts


class AlbertClassifier(keras.Model):
    """AlbertModel, dropout on the pooled output, and a dense layer; one label is regression.

    Args:
      config: of the encoder.
      num_labels: width of the logits.
      classifier_dropout_prob: of the pooled output, in training.

    Called with AlbertModel's inputs; returns its outputs and logits, float32 [batch, num_labels].
    """

    def __init__(self, config: AlbertConfig, num_labels: int, classifier_dropout_prob: float = 0.1, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("", config.hidden_size, num_labels, config.initializer_range)
        self._dropout_prob = classifier_dropout_prob
        self.built = True

    def call(self, inputs, training=False):
        dropout = dropouts(inputs, training)
        outputs = self.albert.encode(inputs, dropout)
        return dict(outputs, logits=self.classifier(dropout(outputs["pooled_output"], self._dropout_prob)))
