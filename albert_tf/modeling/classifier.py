"""AlbertClassifier: the encoder with a head for one label per text (release: classifier_utils.py)."""

from __future__ import annotations

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.configured_model import ConfiguredModel, register
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.layers import OutputDense


@register
class AlbertClassifier(ConfiguredModel):
    """AlbertModel, dropout on the pooled output, and a dense layer.

    Args:
      config: the model's config.
      num_labels: number of logits; 1 for regression.
      classifier_dropout_prob: dropout rate of the pooled output in training.

    Call it with AlbertModel's inputs. It returns AlbertModel's outputs and logits, float32 [batch, num_labels].
    """

    HEAD_OUTPUTS = ("logits",)
    ARGUMENTS = ("num_labels", "classifier_dropout_prob")

    def __init__(self, config: AlbertConfig, num_labels: int, classifier_dropout_prob: float = 0.1, **kwargs):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("", config.hidden_size, num_labels, config.initializer_range)
        self.num_labels, self.classifier_dropout_prob = num_labels, classifier_dropout_prob
        self.built = True

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        dropout = dropouts(inputs, training)
        outputs = self.albert.encode(inputs, dropout)
        return dict(outputs, logits=self.classifier(dropout(outputs["pooled_output"], self.classifier_dropout_prob)))
