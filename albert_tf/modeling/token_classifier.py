"""AlbertTokenClassifier: the encoder with one label per token, for named entities, parts of speech and chunks."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.arguments import REQUIRED, boolean, names, real_number, whole_number
from albert_tf.modeling.configured_model import ENCODER_INPUTS, check_label_names, register, required
from albert_tf.modeling.early_exit import EarlyExitModel
from albert_tf.modeling.layers import OutputDense
from albert_tf.utils import bounds


@register
class AlbertTokenClassifier(EarlyExitModel):
    """AlbertModel, dropout on the sequence output, and a dense layer (Devlin et al., 2019, section 5.3).

    Args:
      num_labels: number of logits per token.
      classifier_dropout_prob: dropout rate of the sequence output in training.
      label_names: the name of each label, in the order of the logits; None if they have no names.
      label_all_pieces: whether a word's tag is read from the mean over all of its pieces; if not, from the first piece.
        The model itself does not use it.
      doc_stride: how raw text is read: the pieces from the start of a window to the start of the next; 0 for half a
        window, as None.
      exit_heads, exit_patience: see EarlyExitModel. A row exits when the labels of all of its tokens agree;
        [CLS], [SEP] and padding, which no label is read from, do not count.

    Call it with AlbertModel's inputs. It returns AlbertModel's outputs and logits, float32 [batch, seq, num_labels].

    Raises:
      ValueError: the number of label_names is not num_labels.
    """

    HEAD_OUTPUTS = ("logits",)
    num_labels: int = whole_number(REQUIRED, bounds.VOCAB_SIZE, is_stored=False)
    classifier_dropout_prob: float = real_number(0.1, 0.0, 1.0, is_stored=False)
    label_names: tuple[str, ...] | None = names()
    label_all_pieces: bool = boolean()
    doc_stride: int | None = whole_number(None, bounds.SEQ_LENGTH.at_least(0))

    def __init__(self, config: AlbertConfig, *arguments, **keywords):
        super().__init__(config, *arguments, **keywords)
        check_label_names(self.label_names, self.num_labels)
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("cls/tokens/", config.hidden_size, self.num_labels, config.initializer_range)
        self.add_exit_heads(self.num_labels)
        self.built = True

    def rows_of(self, inputs):
        """See EarlyExitModel. A row is an example."""
        return dict(zip(ENCODER_INPUTS, required(inputs, ENCODER_INPUTS, "[batch, seq]"))), None

    def logits_of(self, head, outputs, input_mask, count, dropout):
        """See EarlyExitModel."""
        return head(dropout(outputs["sequence_output"], self.classifier_dropout_prob))

    def agreement(self, before, logits, input_mask):
        """Whether the labels of all tokens of a row agree."""
        is_equal = tf.equal(tf.argmax(logits, -1), tf.argmax(before, -1))  # [batch, seq]
        has_next = input_mask[:, 1:] > 0  # a token before another one is not [SEP]
        return tf.reduce_all(is_equal[:, 1:-1] | ~has_next[:, 1:], axis=1)
