"""The settings of models: parameters besides the config and the shapes of the variables.

Each kind of model has a frozen dataclass of settings, the SETTINGS of its class. Its fields are arguments of the
model's constructor, and albert_tf.json stores them. from_pretrained, ensembles and exported models read them::

    model = AlbertClassifier(config, num_labels=2, max_windows=8)
    model.settings.max_windows

PredictingModel is the interface that functions of texts need. Models of this package have it, and so have exported
models in their runtime (export/onnx/session.py).
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar, Mapping, Protocol, TypeVar

from albert_tf.config import HIDDEN_ACTS, AlbertConfig
from albert_tf.modeling.vectors import MEAN_OR_MAX, POOLINGS
from albert_tf.options import Checked, Config, Option
from albert_tf.utils import bounds
from albert_tf.utils.bounds import OneOf, Range
from albert_tf.utils.files import check_one_line
from albert_tf.utils.imports import tensorflow as tf

LEAST_TEMPERATURE = 1e-6
# The functions that make a score of the logit of a classifier that ranks, by PyTorch's names.
ACTIVATIONS = ("sigmoid", "identity")
# The number of choices of RACE.
NUM_CHOICES = 4
UNCOMPARED = "not compared"  # the mark of an option in which models may differ and still be averaged
SomeSettings = TypeVar("SomeSettings", bound="Settings")


def _check_label_names(name: str, values: Any) -> None:
    for value in _sequence(name, values):
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a list of names. Received: {value!r}")
        check_one_line(value, f"a name in {name}")


def _check_thresholds(name: str, values: Any) -> None:
    for value in _sequence(name, values):
        bounds.check_finite(f"a number in {name}", value, 0.0, 1.0)


def _check_prompts(name: str, pairs: Any) -> None:
    for pair in _sequence(name, pairs):
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(each, str) for each in pair)):
            raise ValueError(f"{name} must be texts by name. Received: {pair!r}")
        check_one_line(pair[0], f"a name in {name}")


def _sequence(name: str, values: Any) -> tuple:
    if not isinstance(values, tuple):
        raise ValueError(f"{name} must be a list. Received: {values!r}")
    return values


def _in_tuples(value: Any) -> Any:
    """The value with tuples instead of lists, and pairs instead of a dict."""
    if isinstance(value, (list, tuple, Mapping)):
        return tuple(map(_in_tuples, value.items() if isinstance(value, Mapping) else value))
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Config):
    """The settings of any model. Lists become tuples, and a dict becomes pairs.

    `head` is the name of the kind of model; None if it is unknown. A wrong value raises ValueError.
    """

    head: ClassVar[str | None] = None

    task: Annotated[str | None, UNCOMPARED, "Name of the task that a run trains on, if it is known."] = None
    max_seq_length: Annotated[
        int | None, bounds.ROW_LENGTH, "Largest number of tokens of a row when raw text is read. None: the default of "
        "the code that reads it. The model itself takes rows of any length."] = None
    phonemes: Annotated[
        str | None, "Of an encoder of phonemes: the symbol of each id, from 0, and NUL for ids without a symbol. None: "
        "unknown, or an encoder of text."] = None

    def __post_init__(self) -> None:
        for name in self.names():
            object.__setattr__(self, name, _in_tuples(getattr(self, name)))
        super().__post_init__()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(field.name for field in dataclasses.fields(cls))

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """The names of the settings that are arguments of the model: all but the task."""
        return tuple(name for name in cls.names() if name != "task")

    @classmethod
    def compared_names(cls) -> tuple[str, ...]:
        """The names of the settings in which models must agree to be averaged (--ensemble_checkpoints)."""
        return tuple(name for name in cls.names()
                     if not (isinstance(option := cls.DECLARED[name], Option) and UNCOMPARED in option.marks))

    def of_class(self, settings_class: type[SomeSettings]) -> SomeSettings:
        """These settings if they are of a class; else the defaults of the class, and what all models have from here."""
        if isinstance(self, settings_class):
            return self
        return settings_class(**{name: getattr(self, name) for name in Settings.names()})

    def replaced(self: SomeSettings, **values: Any) -> SomeSettings:
        """The same settings with other values."""
        return dataclasses.replace(self, **values)

    def content(self) -> dict[str, Any]:
        """The name of the head, and the values that are not defaults, by name."""
        values = {field.name: (getattr(self, field.name), field.default) for field in dataclasses.fields(self)}
        return dict(dict(head=self.head) if self.head else {},
                    **{name: value for name, (value, default) in values.items() if value != default})

    def row_length(self, config: AlbertConfig) -> int:
        """The largest number of tokens of a row: max_seq_length, or all positions if it is None."""
        return min(self.max_seq_length or config.max_position_embeddings, config.max_position_embeddings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderSettings(Settings):
    """The settings of AlbertModel."""

    head: ClassVar[str | None] = "encoder"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainerSettings(Settings):
    """The settings of AlbertPretrainer."""

    head: ClassVar[str | None] = "pretrainer"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhonemePretrainerSettings(Settings):
    """The settings of AlbertPhonemePretrainer."""

    head: ClassVar[str | None] = "phoneme_pretrainer"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSettings(Settings):
    """The settings of models with labels."""

    label_names: Annotated[
        tuple[str, ...] | None, Checked(_check_label_names), "Name of each label, in the order of the logits. None: "
        "they have no names."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(LabelSettings):
    """The settings of AlbertClassifier, and what they make of its logits."""

    head: ClassVar[str | None] = "classifier"

    window_pooling: Annotated[str, OneOf(MEAN_OR_MAX), "How the logits of several windows are pooled."] = "mean"
    max_windows: Annotated[
        int, bounds.CANDIDATES, "Largest number of windows into which a longer text is split (text/packing.py). 1: it "
        "is truncated."] = 1
    doc_stride: Annotated[
        int, bounds.SEQ_LENGTH.at_least(0), "Tokens from the start of a window to the start of the next. 0: half a "
        "window."] = 0
    multi_label: Annotated[
        bool, "Whether a text can have several labels: each label has an independent probability."] = False
    temperature: Annotated[
        float, Range(LEAST_TEMPERATURE), UNCOMPARED, "Number by which logits are divided before they become "
        "probabilities. The logits stay as they are."] = 1.0
    thresholds: Annotated[
        tuple[float, ...] | None, Checked(_check_thresholds), UNCOMPARED, "With multi_label, the least probability of "
        "each label that is predicted. None: 0.5."] = None
    activation_fn: Annotated[
        str | None, OneOf(ACTIVATIONS), "If the logit is the relevance of a passage for a query, the function that "
        "makes a score of it. None for other models. It is left out if there are several labels."] = None
    single_texts: Annotated[
        bool, "Whether the model was trained on single texts, so that functions of texts refuse a second one."] = False

    def probabilities(self, logits: tf.Tensor) -> tf.Tensor:
        """The probabilities of the labels, float32 [batch, num_labels]: they add up to 1 unless multi_label is set."""
        scaled = logits if self.temperature == 1.0 else logits / self.temperature
        return tf.sigmoid(scaled) if self.multi_label else tf.nn.softmax(scaled)

    def score_of(self, logits: tf.Tensor) -> tf.Tensor:
        """The scores of a model that ranks, from its logits, float32 of any shape."""
        return logits if self.activation_fn == "identity" else tf.sigmoid(logits)

    def predicted_labels(self, probabilities: tf.Tensor) -> tf.Tensor:
        """With multi_label, whether each label is predicted, bool [batch, num_labels]."""
        return probabilities >= tf.constant(self.thresholds or (0.5,), tf.float32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassifierSettings(LabelSettings):
    """The settings of AlbertTokenClassifier."""

    head: ClassVar[str | None] = "token_classifier"

    doc_stride: Annotated[
        int | None, bounds.SEQ_LENGTH.at_least(0), "Pieces from the start of a window to the start of the next. 0 or "
        "None: half a window."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanSettings(Settings):
    """The settings of AlbertSpan: how answer_questions and served models read raw text."""

    head: ClassVar[str | None] = "span"

    doc_stride: Annotated[
        int | None, bounds.SEQ_LENGTH.at_least(0), "Pieces from the start of a window to the start of the next. None: "
        "the default of these functions."] = None
    max_query_length: Annotated[
        int | None, bounds.SEQ_LENGTH.at_least(0), "Largest number of pieces of a question. None: the default of these "
        "functions."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConditionalSpanSettings(SpanSettings):
    """The settings of AlbertConditionalSpan."""

    head: ClassVar[str | None] = "conditional_span"

    null_score_diff_threshold: Annotated[
        float | None, UNCOMPARED, "answer_questions and served models give no answer to a question if its cls_logit is "
        "above this threshold. None: they answer every question."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceSettings(Settings):
    """The settings of AlbertMultipleChoice."""

    head: ClassVar[str | None] = "multiple_choice"

    num_choices: Annotated[
        int, bounds.CANDIDATES, "Choices per question, for inputs with all choices of a question in one row (as in the "
        "release's records)."] = NUM_CHOICES
    max_qa_length: Annotated[
        int | None, bounds.SEQ_LENGTH.at_least(0), "Largest number of pieces of question and option together when raw "
        "text is read. None: the default of choose_options and of served models."] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceEncoderSettings(Settings):
    """The settings of AlbertSentenceEncoder."""

    head: ClassVar[str | None] = "sentence_encoder"

    pooling: Annotated[str, OneOf(POOLINGS), "How tokens' vectors are pooled, see modeling/vectors.py."] = "mean"
    normalize: Annotated[bool, "Whether vectors have length 1."] = False
    truncate_dim: Annotated[
        int | None, bounds.WIDTH, "Number of dimensions of the vectors; the others are left out before vectors are "
        "normalized. None: all."] = None
    dense_size: Annotated[
        int | None, bounds.WIDTH, "Number of outputs of a dense layer behind the pooling. None: no such layer."] = None
    dense_act: Annotated[str, OneOf(HIDDEN_ACTS), "The activation behind this layer."] = "tanh"
    prompts: Annotated[
        tuple[tuple[str, str], ...] | None, Checked(_check_prompts), "Texts by name, such as dict(query=\"query: \"). "
        "Functions of texts put one of them before each text. The model itself reads ids."] = None
    default_prompt_name: Annotated[
        str | None, "Name of the prompt that is put before texts unless another is named. None: no prompt."] = None
    distillation_depths: Annotated[
        tuple[int, ...], bounds.LAYERS, UNCOMPARED, "Numbers of first layers that learned the vectors of a teacher as "
        "well, so that the model can be cut to them."] = ()

    def __post_init__(self) -> None:
        for name in ("prompts", "default_prompt_name"):
            object.__setattr__(self, name, getattr(self, name) or None)
        super().__post_init__()


class PredictingModel(Protocol):
    """A model that is called with token ids and returns its outputs."""

    config: AlbertConfig
    row_length: int  # the largest number of tokens of a row
    num_labels: int  # of a classifier or a tagger

    @property
    def settings(self) -> Any:
        """The model's settings."""

    def __call__(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The outputs by name, arrays or tensors, for int32 inputs by name, [batch, seq] each."""
