"""AlbertSpan: the head for SQuAD 1.1, one dense layer for start and end (release: squad_utils.create_v1_model)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.arguments import whole_number
from albert_tf.modeling.configured_model import ConfiguredModel, register
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.layers import OutputDense
from albert_tf.utils import bounds


@register
class AlbertSpan(ConfiguredModel):
    """AlbertModel, and a dense layer to a start and an end logit for each token.

    Args:
      doc_stride, max_query_length: how answer_questions and served models read raw text: the pieces from the start of a
        window to the start of the next, and the largest number of pieces of a question; None for their defaults.

    Call it with AlbertModel's inputs. It returns AlbertModel's outputs, start_logits and end_logits, float32 [batch,
    seq].
    """

    HEAD_OUTPUTS = ("start_logits", "end_logits")
    doc_stride: int | None = whole_number(None, bounds.SEQ_LENGTH.at_least(0))
    max_query_length: int | None = whole_number(None, bounds.SEQ_LENGTH.at_least(0))

    def __init__(self, config: AlbertConfig, *arguments, **keywords):
        super().__init__(config, *arguments, **keywords)
        self.albert = AlbertModel(config)
        self.span = OutputDense("cls/squad/", config.hidden_size, 2, config.initializer_range)
        self.built = True

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        outputs = self.albert.encode(inputs, dropouts(inputs, training))
        start, end = tf.unstack(self.span(outputs["sequence_output"]), axis=-1)  # [batch, seq] each
        return dict(outputs, start_logits=start, end_logits=end)
