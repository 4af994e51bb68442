"""The encoder with one output layer, for labels of texts or tokens, or for the choice among options.

AlbertClassifier: one label per text (release: classifier_utils.py). AlbertTokenClassifier: one label per token, for
named entities, parts of speech and chunks. AlbertMultipleChoice: one logit for each choice of a question (release:
race_utils.py).
"""

from __future__ import annotations

from typing import Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.arguments import REQUIRED, boolean, choice, names, real_number, real_numbers, whole_number
from albert_tf.modeling.configured_model import (
    ENCODER_INPUTS,
    ConfiguredModel,
    as_rows,
    register,
    required,
    side_by_side,
)
from albert_tf.modeling.dropout import dropouts
from albert_tf.modeling.layers import OutputDense
from albert_tf.modeling.vectors import MEAN_OR_MAX, mean_or_max
from albert_tf.utils import bounds

LEAST_TEMPERATURE = 1e-6
# The functions that make a score of the logit of a classifier that ranks, by PyTorch's names.
ACTIVATIONS = ("sigmoid", "identity")
# The number of choices of RACE.
NUM_CHOICES = 4
# The logit of a choice that a question does not have: its probability is 0.
MISSING_CHOICE = -1e9


class LabelProbabilities:
    """What a classifier has that gives one label or several, and that may be calibrated, or that ranks.

    The attributes are arguments of AlbertClassifier.
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


@register
class AlbertClassifier(LabelProbabilities, ConfiguredModel):
    """AlbertModel, dropout on the pooled output, and a dense layer.

    Args:
      num_labels: number of logits; 1 for regression.
      classifier_dropout_prob: dropout rate of the pooled output in training.
      window_pooling: "mean" or "max", how the logits of several windows are pooled.
      label_names: the name of each label, in the order of the logits; None if they have no names.
      max_seq_length, max_windows, doc_stride: how classify_texts and served models read raw text: the tokens of a row
        (None for max_position_embeddings), and the windows of longer texts (see text/packing.py). The model
        itself takes rows of any length.
      multi_label: whether a text can have several labels: each has a probability of its own.
      temperature: what logits are divided by before they become probabilities. The logits stay as they are.
      thresholds: with multi_label, the least probability of each label that is predicted; None for 0.5.
      activation_fn: one of ACTIVATIONS if the logit is the relevance of a passage for a query, of which this function
        makes the score; None for other models. It is left out if there are several labels.
      single_texts: whether it was trained on single texts, so that functions of texts refuse a second one.

    Call it with AlbertModel's inputs, [batch, seq], or with the windows of each text, [batch, windows, seq]; windows
    of padding only are ignored. It returns AlbertModel's outputs, for batch * windows rows, and logits, float32
    [batch, num_labels].

    Raises:
      ValueError: window_pooling or activation_fn is unknown, or the number of label_names or thresholds is not
        num_labels.
    """

    uses_pooler = True
    HEAD_OUTPUTS = ("logits",)
    num_labels: int = whole_number(REQUIRED, bounds.VOCAB_SIZE, is_stored=False)
    classifier_dropout_prob: float = real_number(0.1, 0.0, 1.0, is_stored=False)
    window_pooling: str = choice("mean", MEAN_OR_MAX)
    label_names: tuple[str, ...] | None = names()
    max_windows: int = whole_number(1, bounds.CANDIDATES)
    doc_stride: int = whole_number(0, bounds.SEQ_LENGTH.at_least(0))
    multi_label: bool = boolean()
    temperature: float = real_number(1.0, LEAST_TEMPERATURE, is_compared=False)
    thresholds: tuple[float, ...] | None = real_numbers(0.0, 1.0, is_compared=False)
    activation_fn: str | None = choice(None, ACTIVATIONS)
    single_texts: bool = boolean()

    def __init__(self, config: AlbertConfig, *arguments, **keywords):
        super().__init__(config, *arguments, **keywords)
        _check_label_names(self.label_names, self.num_labels)
        if self.thresholds is not None and len(self.thresholds) != self.num_labels:
            raise ValueError(f"thresholds must have num_labels={self.num_labels} numbers. "
                             f"Received: {len(self.thresholds)}")
        if self.num_labels != 1:
            self.activation_fn = None
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("", config.hidden_size, self.num_labels, config.initializer_range)
        self.built = True

    @property
    def is_regression(self) -> bool:
        """Whether the single logit is a score."""
        return self.num_labels == 1 and not self.multi_label

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        dropout = dropouts(inputs, training)
        rows, windows = as_rows(inputs, "windows")
        outputs = self.albert.encode(rows, dropout)
        logits = self.classifier(dropout(outputs["pooled_output"], self.classifier_dropout_prob))
        if windows is not None:
            is_there = side_by_side(tf.reduce_max(rows["input_mask"], axis=1), windows)  # [batch, windows]
            logits = mean_or_max(side_by_side(logits, windows), is_there, self.window_pooling)
        return dict(outputs, logits=logits)


@register
class AlbertTokenClassifier(ConfiguredModel):
    """AlbertModel, dropout on the sequence output, and a dense layer (Devlin et al., 2019, section 5.3).

    Args:
      num_labels: number of logits per token.
      classifier_dropout_prob: dropout rate of the sequence output in training.
      label_names: the name of each label, in the order of the logits; None if they have no names.
      label_all_pieces: whether a word's tag is read from the mean over all of its pieces; if not, from the first piece.
        The model itself does not use it.
      doc_stride: how raw text is read: the pieces from the start of a window to the start of the next; 0 for half a
        window, as None.

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
        _check_label_names(self.label_names, self.num_labels)
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("cls/tokens/", config.hidden_size, self.num_labels, config.initializer_range)
        self.built = True

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        dropout = dropouts(inputs, training)
        outputs = self.albert.encode(inputs, dropout)
        logits = self.classifier(dropout(outputs["sequence_output"], self.classifier_dropout_prob))
        return dict(outputs, logits=logits)


@register
class AlbertMultipleChoice(ConfiguredModel):
    """AlbertModel over every choice, dropout on the pooled output, and a dense layer to one logit.

    Args:
      dropout_prob: dropout rate of the pooled output in training.
      num_choices: choices per question, for inputs with all choices of a question in one row (as in the release's
        records).
      max_qa_length: how raw text is read: the largest number of pieces of question and option together; None for the
        default of choose_options and of served models.

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
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("", config.hidden_size, 1, config.initializer_range)
        self.built = True

    def input_specs(self, batch_size=None, seq_length=None, num_predictions=None):
        """The inputs' names, shapes and types; None is any size."""
        return {name: tf.TensorSpec([batch_size, self.num_choices, seq_length], tf.int32, name)
                for name in ENCODER_INPUTS}

    def call(self, inputs, training=False):
        """The outputs that the class describes."""
        dropout = dropouts(inputs, training)
        rows, choices = self._rows(inputs)
        outputs = self.albert.encode(rows, dropout)
        logits = self.classifier(dropout(outputs["pooled_output"], self.dropout_prob))  # [batch * choices, 1]
        is_choice = tf.reduce_max(rows["input_mask"], axis=1, keepdims=True) > 0  # [batch * choices, 1]
        return dict(outputs, logits=tf.reshape(tf.where(is_choice, logits, MISSING_CHOICE), [-1, choices]))

    def _rows(self, inputs) -> tuple[dict, int]:
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


def _check_label_names(label_names: Sequence[str] | None, num_labels: int) -> None:
    if label_names is not None and len(label_names) != num_labels:
        raise ValueError(f"label_names must have num_labels={num_labels} names. Received: {len(label_names)}")
