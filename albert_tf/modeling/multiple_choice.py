"""AlbertMultipleChoice: one logit for each choice of a question (release: race_utils.py)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import INPUTS, AlbertModel
from albert_tf.modeling.layers import OutputDense, dropouts


class AlbertMultipleChoice(tf.keras.Model):
    """AlbertModel over every choice, dropout on the pooled output, and a dense layer to one logit.

    Args:
      config: of the encoder.
      dropout_prob: of the pooled output, in training.

    Called with AlbertModel's inputs as [batch, choices, seq]; returns AlbertModel's outputs, for batch * choices rows, and
    logits, float32 [batch, choices].

    Raises:
      ValueError: the inputs are not [batch, choices, seq].
    """

    def __init__(self, config: AlbertConfig, dropout_prob: float = 0.1, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("", config.hidden_size, 1, config.initializer_range)
        self._dropout_prob = dropout_prob
        self.built = True

    def call(self, inputs, training=False):
        ids = tf.convert_to_tensor(inputs["input_ids"])
        if ids.shape.rank != 3:
            raise ValueError(f"inputs must be [batch, choices, seq]. Received: input_ids of shape {ids.shape}")
        rows = {name: tf.reshape(inputs[name], [-1, ids.shape[2] or tf.shape(ids)[2]]) for name in INPUTS}  # [batch * choices, seq]
        dropout = dropouts(inputs, training)
        outputs = self.albert.encode(rows, dropout)
        logits = self.classifier(dropout(outputs["pooled_output"], self._dropout_prob))
        return dict(outputs, logits=tf.reshape(logits, tf.shape(ids)[:2]))
