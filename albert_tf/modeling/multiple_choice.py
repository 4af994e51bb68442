"""AlbertMultipleChoice: one logit for each choice of a question (release: race_utils.py)."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.arguments import real_number, whole_number
from albert_tf.modeling.configured_model import ENCODER_INPUTS, register, required
from albert_tf.modeling.early_exit import EarlyExitModel
from albert_tf.utils import bounds

# The number of choices of RACE.
NUM_CHOICES = 4
# The logit of a choice that a question does not have: its probability is 0.
MISSING_CHOICE = -1e9


@register
class AlbertMultipleChoice(EarlyExitModel):
    """AlbertModel over every choice, dropout on the pooled output, and a dense layer to one logit.

    Args:
      dropout_prob: dropout rate of the pooled output in training.
      num_choices: choices per question, for inputs with all choices of a question in one row (as in the release's
        records).
      max_qa_length: how raw text is read: the largest number of pieces of question and option together; None for the
        default of choose_options and of served models.
      exit_heads, exit_pooling, pooling, exit_patience: see EarlyExitModel. A question exits when the chosen
        option agrees.

    Call it with AlbertModel's inputs as [batch, choices, seq] or [batch, num_choices * seq]. It returns AlbertModel's
    outputs for batch * choices rows, and logits, float32 [batch, choices]. A choice whose input_mask is all 0 is
    padding and is never chosen.

    Raises:
      ValueError: the inputs have neither shape.
    """

    uses_pooler = True
    HEAD_OUTPUTS = ("logits",)
    dropout_prob: float = real_number(0.1, 0.0, 1.0, is_stored=False)
    num_choices: int = whole_number(NUM_CHOICES, bounds.CANDIDATES)
    max_qa_length: int | None = whole_number(None, bounds.SEQ_LENGTH.at_least(0))

    def __init__(self, config: AlbertConfig, *arguments, **keywords):
        super().__init__(config, *arguments, **keywords)
        self.add_layers("", 1)

    def input_specs(self, batch_size=None, seq_length=None, num_predictions=None):
        """The inputs' names, shapes and types; None is any size."""
        return {name: tf.TensorSpec([batch_size, self.num_choices, seq_length], tf.int32, name)
                for name in ENCODER_INPUTS}

    def logits_of(self, head, outputs, input_mask, count, dropout):
        """See EarlyExitModel."""
        logits = head(dropout(outputs["pooled_output"], self.dropout_prob))  # [batch * choices, 1]
        is_choice = tf.reduce_max(input_mask, axis=1, keepdims=True) > 0  # [batch * choices, 1]
        return tf.reshape(tf.where(is_choice, logits, MISSING_CHOICE), [-1, count])

    def rows_of(self, inputs) -> tuple[dict, int]:
        """The inputs as [batch * choices, seq], and the number of choices."""
        if "input_ids" in inputs and tf.convert_to_tensor(inputs["input_ids"]).shape.rank == 2:
            tensors, choices = required(inputs, ENCODER_INPUTS, "[batch, choices * seq]"), self.num_choices
            length = tensors[0].shape[1] or tf.shape(tensors[0])[1]
            if tf.is_tensor(length):
                has_whole_choices = tf.debugging.assert_equal(
                    length % choices, 0, f"a row must hold {choices} choices of one length")
                with tf.control_dependencies([has_whole_choices]):
                    tensors = [tf.identity(tensor) for tensor in tensors]
            seq, rest = length // choices, 0 if tf.is_tensor(length) else length % choices
        else:
            tensors, rest = required(inputs, ENCODER_INPUTS, "[batch, choices, seq]"), 0
            choices, seq = tensors[0].shape[1], tensors[0].shape[2] or tf.shape(tensors[0])[2]
        if not choices or rest:
            raise ValueError(f"the inputs must hold {choices or 'a fixed number of'} choices of one fixed length. "
                             f"Received: input_ids of shape {tensors[0].shape}")
        return {name: tf.reshape(tensor, [-1, seq]) for name, tensor in zip(ENCODER_INPUTS, tensors)}, choices
