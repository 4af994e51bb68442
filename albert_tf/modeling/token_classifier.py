"""AlbertTokenClassifier: the encoder with one label per token, for named entities, parts of speech and chunks."""

from __future__ import annotations

from typing import Sequence

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.configured_model import ConfiguredModel, checked_label_names, register
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.layers import OutputDense


@register
class AlbertTokenClassifier(ConfiguredModel):
    """AlbertModel, dropout on the sequence output, and a dense layer (Devlin et al., 2019, section 5.3).

    Args:
      config: the model's config.
      num_labels: number of logits per token.
      classifier_dropout_prob: dropout rate of the sequence output in training.
      label_names: the name of each label, in the order of the logits; None if they have no names.
      label_all_pieces: whether a word's tag is read from the mean over all of its pieces; if not, from the first piece.
        The model itself does not use it.

    Call it with AlbertModel's inputs. It returns AlbertModel's outputs and logits, float32 [batch, seq, num_labels].

    Raises:
      ValueError: the number of label_names is not num_labels.
    """

    HEAD_OUTPUTS = ("logits",)
    ARGUMENTS = ("num_labels", "classifier_dropout_prob", "label_names", "label_all_pieces")

    def __init__(self, config: AlbertConfig, num_labels: int, classifier_dropout_prob: float = 0.1,
                 label_names: Sequence[str] | None = None, label_all_pieces: bool = False, **kwargs):
        super().__init__(config, **kwargs)
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("cls/tokens/", config.hidden_size, num_labels, config.initializer_range)
        self.num_labels, self.classifier_dropout_prob = num_labels, classifier_dropout_prob
        self.label_names = checked_label_names(label_names, num_labels)
        self.label_all_pieces = label_all_pieces
        self.built = True

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        dropout = dropouts(inputs, training)
        outputs = self.albert.encode(inputs, dropout)
        return dict(outputs, logits=self.classifier(dropout(outputs["sequence_output"], self.classifier_dropout_prob)))
