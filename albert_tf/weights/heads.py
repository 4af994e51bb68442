"""The registry of models with heads, for from_pretrained, conversion, Hugging Face and exports.

To add a head, add a class to albert_tf/modeling and an entry here. A class is imported when it is first used.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any, Collection

from albert_tf.modeling.settings import PredictingModel, Settings, SomeSettings
from albert_tf.utils.bounds import check_one_of
from albert_tf.weights.vocabulary import check_vocabulary

if TYPE_CHECKING:
    from albert_tf import keras
    from albert_tf.modeling.albert_model import AlbertModel, ConfiguredModel
    from albert_tf.text.tokenization import FullTokenizer

# The release's names of the two variables of a layer, which Hugging Face calls weight and bias.
DENSE, LAYER_NORM, OUTPUT = ("kernel", "bias"), ("gamma", "beta"), ("output_weights", "output_bias")


@dataclasses.dataclass(frozen=True)
class Head:
    """A kind of model of albert_tf.modeling: the encoder alone or with one head."""

    name: str
    path: str  # its module in albert_tf.modeling, and its class there: "span.AlbertSpan"
    variables: tuple[str, ...] = ()  # prefixes of release names that only its checkpoints have
    architectures: tuple[str, ...] = ()  # Hugging Face's classes, without "Albert" or "Bert"; the first one is written
    # By model type and the release's scope: Hugging Face's name of a layer, the release's names of its weight and bias.
    layers: dict[str, dict[str, tuple[str, tuple[str | None, str | None]]]] = dataclasses.field(default_factory=dict)
    has_pooler: bool = True  # in Hugging Face's model
    pipeline_tag: str = "feature-extraction"  # Hugging Face's name of its task, for model cards
    task: str = "encoding"  # the name of its task in messages
    label_weights: str | None = None  # the release's name of the classifier's weights, [labels, hidden_size]
    word_weights: str | None = None  # the release's name of the weights that predict words, [words, hidden_size]

    @property
    def model(self) -> Any:
        """Its class."""
        module, _, class_name = f"albert_tf.modeling.{self.path}".rpartition(".")
        return getattr(importlib.import_module(module), class_name)


def _same_for_both(scope: str, layer: str) -> dict:
    return {model_type: {scope: (layer, OUTPUT)} for model_type in ("albert", "bert")}


HEADS = (
    Head("encoder", "albert_model.AlbertModel", architectures=("Model",)),
    Head("pretrainer", "pretrainer.AlbertPretrainer", ("cls/predictions/", "cls/seq_relationship/"),
         ("ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction"),
         dict(albert={"cls/predictions": ("predictions", (None, "output_bias")),
                      "cls/predictions/transform/dense": ("predictions.dense", DENSE),
                      "cls/predictions/transform/LayerNorm": ("predictions.LayerNorm", LAYER_NORM),
                      "cls/seq_relationship": ("sop_classifier.classifier", OUTPUT)},
              bert={"cls/predictions": ("cls.predictions", (None, "output_bias")),
                    "cls/predictions/transform/dense": ("cls.predictions.transform.dense", DENSE),
                    "cls/predictions/transform/LayerNorm": ("cls.predictions.transform.LayerNorm", LAYER_NORM),
                    "cls/seq_relationship": ("cls.seq_relationship", OUTPUT)}),
         pipeline_tag="fill-mask", task="pre-training"),
    Head("phoneme_pretrainer", "pretrainer.AlbertPhonemePretrainer", ("cls/phonemes/", "cls/words/"),
         layers=dict(albert={"cls/phonemes": ("mask_predictor", OUTPUT), "cls/words": ("word_predictor", OUTPUT)}),
         has_pooler=False, task="phoneme pre-training", word_weights="cls/words/output_weights"),
    Head("classifier", "classifier.AlbertClassifier", ("output_weights",), ("ForSequenceClassification",),
         _same_for_both("", "classifier"), label_weights="output_weights",
         pipeline_tag="text-classification", task="classification"),
    Head("token_classifier", "classifier.AlbertTokenClassifier", ("cls/tokens/",),
         ("ForTokenClassification",), _same_for_both("cls/tokens", "classifier"), has_pooler=False,
         label_weights="cls/tokens/output_weights",
         pipeline_tag="token-classification", task="tagging"),
    Head("span", "span.AlbertSpan", ("cls/squad/",), ("ForQuestionAnswering",),
         _same_for_both("cls/squad", "qa_outputs"), has_pooler=False,
         pipeline_tag="question-answering", task="SQuAD 1.1"),
    Head("conditional_span", "span.AlbertConditionalSpan", ("start_logits/",),
         pipeline_tag="question-answering", task="SQuAD 2.0"),
    Head("multiple_choice", "classifier.AlbertMultipleChoice", (), ("ForMultipleChoice",),
         _same_for_both("", "classifier"), pipeline_tag="multiple-choice", task="multiple choice"),
    Head("sentence_encoder", "sentence_encoder.AlbertSentenceEncoder", ("cls/vectors/",), ("Model",),
         pipeline_tag="sentence-similarity", task="sentence vectors"),
)
_BY_NAME = {head.name: head for head in HEADS}
HEAD_NAMES = tuple(_BY_NAME)


def head_named(name: str) -> Head:
    """The entry with the name `model` of from_pretrained."""
    check_one_of("model", name, _BY_NAME)
    return _BY_NAME[name]


def settings_class(head: str | None) -> type[Settings]:
    """The class of the settings of a kind of model; None: of an unknown one."""
    return Settings if head is None else _BY_NAME[head].model.SETTINGS


def head_of(model: keras.Model | PredictingModel) -> Head:
    """The entry of a model of albert_tf.modeling, or of an export of one."""
    settings = getattr(model, "settings", None)
    if not (isinstance(settings, Settings) and settings.head):
        raise ValueError(f"expected a model of albert_tf.modeling. Received: {type(model).__name__}")
    return _BY_NAME[settings.head]


def checked_settings(model: keras.Model | PredictingModel, tokenizer: FullTokenizer,
                     settings_class: type[SomeSettings]) -> SomeSettings:
    """The settings of a model. Checks the arguments of a function that predicts from texts with models of a class."""
    settings = getattr(model, "settings", None)
    if not isinstance(settings, settings_class):
        classes = [settings_class, *settings_class.__subclasses__()]
        kinds = " or ".join(f'"{each.head}"' for each in classes)
        head = f" with the head {settings.head}" if isinstance(settings, Settings) else ""
        raise ValueError(f"the model must be made by from_pretrained(path, model={kinds}). Received: "
                         f"{type(model).__name__}{head}")
    check_vocabulary(tokenizer, model.config)
    return settings


def encoder_of(model: keras.Model) -> AlbertModel:
    """The encoder of a model of albert_tf.modeling: the model itself if it has no head."""
    return getattr(model, "albert", model)


def has_only_random_pooled_output(model: ConfiguredModel) -> bool:
    """Whether the pooler is random and only pooled_output depends on it, so that an export can leave it out."""
    return getattr(encoder_of(model), "has_random_pooler", False) and not model.uses_pooler


def head_of_variables(names: Collection[str]) -> Head:
    """The entry of the model to which variables with these release names belong.

    A task's head takes precedence over the pre-training heads, which fine-tuned checkpoints may still have. Without any
    head it is the encoder.
    """
    candidates = sorted((head for head in HEADS if head.variables), key=lambda head: head.name == "pretrainer")
    return next((head for head in candidates if any(name.startswith(head.variables) for name in names)),
                _BY_NAME["encoder"])
