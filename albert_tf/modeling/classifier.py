"""The encoder with one output layer, for labels of texts or tokens, or for the choice among options.

AlbertClassifier: one label per text (release: classifier_utils.py). AlbertTokenClassifier: one label per token, for
named entities, parts of speech and chunks. AlbertMultipleChoice: one logit for each choice of a question (release:
race_utils.py).
"""

from __future__ import annotations

from typing import Any, Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import (
    ENCODER_INPUTS,
    AlbertModel,
    ConfiguredModel,
    as_rows,
    register,
    required,
    side_by_side,
)
from albert_tf.modeling.layers import OutputDense
from albert_tf.modeling.operations import dropouts
from albert_tf.modeling.settings import ClassifierSettings, MultipleChoiceSettings, TokenClassifierSettings
from albert_tf.modeling.vectors import mean_or_max
from albert_tf.utils import bounds

# The logit of a choice that a question does not have: its probability is 0.
MISSING_CHOICE = -1e9


@register
class AlbertClassifier(ConfiguredModel):
    """AlbertModel, dropout on the pooled output, and a dense layer.

    Args:
      num_labels: number of logits; 1 for regression.
      classifier_dropout_prob: dropout rate of the pooled output in training.
      **settings: fields of ClassifierSettings.

    Call it with AlbertModel's inputs, [batch, seq], or with the windows of each text, [batch, windows, seq]; windows
    of padding only are ignored. It returns AlbertModel's outputs, for batch * windows rows, and logits, float32
    [batch, num_labels].

    Raises:
      ValueError: window_pooling or activation_fn is unknown, or the number of label_names or thresholds is not
        num_labels.

    Example::

      model = AlbertClassifier(AlbertConfig.preset("albert_base_v2"), num_labels=2, label_names=("bad", "good"))
      logits = model(dict(input_ids=ids, input_mask=mask, segment_ids=segments))["logits"]  # [batch, 2]
    """

    uses_pooler = True
    HEAD_OUTPUTS = ("logits",)
    SETTINGS = ClassifierSettings
    settings: ClassifierSettings

    def __init__(self, config: AlbertConfig, num_labels: int, classifier_dropout_prob: float = 0.1, **settings: Any):
        super().__init__(config, **settings)
        self.num_labels, self.classifier_dropout_prob = num_labels, classifier_dropout_prob
        _check_labels(self)
        if self.settings.thresholds is not None and len(self.settings.thresholds) != num_labels:
            raise ValueError(f"thresholds must have num_labels={num_labels} numbers. "
                             f"Received: {len(self.settings.thresholds)}")
        if num_labels != 1:
            self.settings = self.settings.replaced(activation_fn=None)
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("", config.hidden_size, num_labels, config.initializer_range)
        self.built = True

    @property
    def is_regression(self) -> bool:
        """Whether the single logit is a score."""
        return self.num_labels == 1 and not self.settings.multi_label

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs of AlbertModel, and logits, [batch, num_labels]. `training` turns dropout on."""
        dropout = dropouts(inputs, training)
        rows, windows = as_rows(inputs, "windows")
        outputs = self.albert.encode(rows, dropout)
        logits = self.classifier(dropout(outputs["pooled_output"], self.classifier_dropout_prob))
        if windows is not None:
            is_there = side_by_side(tf.reduce_max(rows["input_mask"], axis=1), windows)  # [batch, windows]
            logits = mean_or_max(side_by_side(logits, windows), is_there, self.settings.window_pooling)
        return dict(outputs, logits=logits)


@register
class AlbertTokenClassifier(ConfiguredModel):
    """AlbertModel, dropout on the sequence output, and a dense layer (Devlin et al., 2019, section 5.3).

    Args:
      num_labels: number of logits per token.
      classifier_dropout_prob: dropout rate of the sequence output in training.
      **settings: fields of TokenClassifierSettings.

    Call it with AlbertModel's inputs. It returns AlbertModel's outputs and logits, float32 [batch, seq, num_labels].

    Raises:
      ValueError: the number of label_names is not num_labels.
    """

    HEAD_OUTPUTS = ("logits",)
    SETTINGS = TokenClassifierSettings
    settings: TokenClassifierSettings

    def __init__(self, config: AlbertConfig, num_labels: int, classifier_dropout_prob: float = 0.1, **settings: Any):
        super().__init__(config, **settings)
        self.num_labels, self.classifier_dropout_prob = num_labels, classifier_dropout_prob
        _check_labels(self)
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("cls/tokens/", config.hidden_size, num_labels, config.initializer_range)
        self.built = True

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs of AlbertModel, and logits, [batch, seq, num_labels]. `training` turns dropout on."""
        dropout = dropouts(inputs, training)
        outputs = self.albert.encode(inputs, dropout)
        logits = self.classifier(dropout(outputs["sequence_output"], self.classifier_dropout_prob))
        return dict(outputs, logits=logits)


@register
class AlbertMultipleChoice(ConfiguredModel):
    """AlbertModel over every choice, dropout on the pooled output, and a dense layer to one logit.

    Args:
      dropout_prob: dropout rate of the pooled output in training.
      **settings: fields of MultipleChoiceSettings.

    Call it with AlbertModel's inputs as [batch, choices, seq] or [batch, num_choices * seq]. It returns AlbertModel's
    outputs for batch * choices rows, and logits, float32 [batch, choices]. A choice with zeros only in
    input_mask is padding and is never chosen.

    Raises:
      ValueError: the inputs have neither shape.
    """

    uses_pooler = True
    HEAD_OUTPUTS = ("logits",)
    SETTINGS = MultipleChoiceSettings
    settings: MultipleChoiceSettings

    def __init__(self, config: AlbertConfig, dropout_prob: float = 0.1, **settings: Any):
        super().__init__(config, **settings)
        bounds.check_finite("dropout_prob", dropout_prob, 0.0, 1.0)
        self.dropout_prob = dropout_prob
        self.albert = AlbertModel(config)
        self.classifier = OutputDense("", config.hidden_size, 1, config.initializer_range)
        self.built = True

    def input_specs(
        self, batch_size: int | None = None, seq_length: int | None = None, num_predictions: int | None = None
    ) -> dict[str, tf.TensorSpec]:
        """The inputs' names, shapes and types; None is any size."""
        return {name: tf.TensorSpec([batch_size, self.settings.num_choices, seq_length], tf.int32, name)
                for name in ENCODER_INPUTS}

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """The outputs of AlbertModel, and logits, [batch, choices]. `training` turns dropout on."""
        dropout = dropouts(inputs, training)
        rows, choices = self._rows(inputs)
        outputs = self.albert.encode(rows, dropout)
        logits = self.classifier(dropout(outputs["pooled_output"], self.dropout_prob))  # [batch * choices, 1]
        is_choice = tf.reduce_max(rows["input_mask"], axis=1, keepdims=True) > 0  # [batch * choices, 1]
        return dict(outputs, logits=tf.reshape(tf.where(is_choice, logits, MISSING_CHOICE), [-1, choices]))

    def _rows(self, inputs: Mapping[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], int | tf.Tensor | None]:
        """The inputs as [batch * choices, seq], and the number of choices."""
        if "input_ids" not in inputs or tf.convert_to_tensor(inputs["input_ids"]).shape.rank != 2:
            tensors = required(inputs, ENCODER_INPUTS, "[batch, choices, seq]")
            return as_rows(dict(zip(ENCODER_INPUTS, tensors)), "choices")
        tensors, choices = required(inputs, ENCODER_INPUTS, "[batch, choices * seq]"), self.settings.num_choices
        length, problem = tensors[0].shape[1], f"a row must hold {choices} choices of one length"
        if length is None:
            length = tf.shape(tensors[0])[1]
            with tf.control_dependencies([tf.debugging.assert_equal(length % choices, 0, problem)]):
                length = tf.identity(length)
        elif length % choices:
            raise ValueError(f"{problem}. Received: input_ids of shape {tensors[0].shape}")
        return {name: tf.reshape(tensor, [-1, length // choices])
                for name, tensor in zip(ENCODER_INPUTS, tensors)}, choices


def _check_labels(model: AlbertClassifier | AlbertTokenClassifier) -> None:
    bounds.VOCAB_SIZE.check("num_labels", model.num_labels)
    bounds.check_finite("classifier_dropout_prob", model.classifier_dropout_prob, 0.0, 1.0)
    names = model.settings.label_names
    if names is not None and len(names) != model.num_labels:
        raise ValueError(f"label_names must have num_labels={model.num_labels} names. Received: {len(names)}")
