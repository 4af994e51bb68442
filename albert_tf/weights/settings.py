"""Settings: how a model is used, in albert_tf.json next to its weights.

The keys are fields of Settings, and those with the default value are left out::

    {"label_names": ["bad", "good"], "long_texts": {"pooling": "mean", "max_windows": 8, "doc_stride": 0},
     "head": "classifier", "task": "reviews"}

The pooling of a sentence encoder is in the files of sentence-transformers. In a folder of Hugging Face, the length of
rows is that of its own files (see hugging_face/reading.py), which others may have changed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import Any, Sequence

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.pooling import ACTIVATIONS, MEAN_OR_MAX, POOLER, POOLINGS, LongTexts, SentencePooling
from albert_tf.utils import bounds
from albert_tf.utils.files import check_one_line
from albert_tf.utils.json_files import check_keys, read_json_object
from albert_tf.utils.outputs import write_or_remove
from albert_tf.weights.hugging_face import MODULES
from albert_tf.weights.vocabulary_files import VocabularyFiles, copy_vocabulary

SETTINGS = "albert_tf.json"
_TYPES = {"max_seq_length": int, "num_choices": int, "label_all_pieces": bool, "multi_label": bool,
          "temperature": float, "lora_alpha": float, "head": str, "doc_stride": int, "max_query_length": int,
          "max_qa_length": int, "exit_heads": bool, "exit_pooling": str, "pooling": str, "activation_fn": str,
          "task": str, "single_texts": bool}
_BOUNDS = {"max_seq_length": bounds.SEQ_LENGTH.at_least(4), "num_choices": bounds.CANDIDATES, **dict.fromkeys(
    ("doc_stride", "max_query_length", "max_qa_length"), bounds.SEQ_LENGTH.at_least(0))}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a model.

    Args:
      label_names: the names of the classifier's labels, in the order of the logits; None if they have no names.
      sentence_pooling: how the vector of a text is made; None if the model is no sentence encoder.
      long_texts: how a classifier reads longer texts.
      max_seq_length: the largest number of tokens of a row that the weights were fine-tuned with; None if unknown.
      num_choices: choices per question of a multiple-choice model; None if the model is no such model, or unknown.
      label_all_pieces: whether a tagger reads a word's tag from all of its pieces.
      head: the name of the head that a run trained (see heads.py); None if unknown, or if the variables tell it.
      multi_label: whether a classifier gives a text several labels.
      temperature, thresholds: how a classifier is calibrated (see AlbertClassifier); None if it is not.
      lora_alpha: the adapters of a run are multiplied by it and divided by their rank; None without adapters.
      doc_stride: pieces from the start of a window to the start of the next, for SQuAD and tagging; None if unknown.
      max_query_length: the largest number of pieces of a question of SQuAD; None if unknown.
      max_qa_length: the largest number of pieces of question and option of multiple choice; None if unknown.
      exit_heads: whether there is an output after every layer (see modeling/early_exit.py).
      exit_pooling, pooling: which vector of a text these outputs and the last one read (see EarlyExitModel).
      activation_fn: what makes the score of a classifier that ranks (see AlbertClassifier); None for other models.
      task: the name of the task that a run trains on; None if it has none, or is unknown.
      single_texts: whether a classifier was trained on single texts; False also if it is unknown.
    """

    label_names: tuple[str, ...] | None = None
    sentence_pooling: SentencePooling | None = None
    long_texts: LongTexts = LongTexts()
    max_seq_length: int | None = None
    num_choices: int | None = None
    label_all_pieces: bool = False
    head: str | None = None
    doc_stride: int | None = None
    max_query_length: int | None = None
    max_qa_length: int | None = None
    multi_label: bool = False
    lora_alpha: float | None = None
    temperature: float | None = None
    thresholds: tuple[float, ...] | None = None
    exit_heads: bool = False
    exit_pooling: str = POOLER
    pooling: str = POOLER
    activation_fn: str | None = None
    task: str | None = None
    single_texts: bool = False


def settings_of(model: keras.Model) -> Settings:
    """The settings of a model of albert_tf.modeling.

    They have the head of a classifier with one output only, whose variables are those of multiple choice, too.
    """
    temperature, is_classifier = getattr(model, "temperature", 1.0), isinstance(model, AlbertClassifier)
    doc_stride = None if is_classifier else getattr(model, "doc_stride", None)  # a classifier's is in long_texts
    return Settings(getattr(model, "label_names", None), getattr(model, "sentence_pooling", None),
                    getattr(model, "long_texts", LongTexts()), model.max_seq_length,
                    getattr(model, "num_choices", None), getattr(model, "label_all_pieces", False),
                    head="classifier" if is_classifier and model.num_labels == 1 else None,
                    doc_stride=doc_stride, max_query_length=getattr(model, "max_query_length", None),
                    max_qa_length=getattr(model, "max_qa_length", None),
                    multi_label=getattr(model, "multi_label", False), thresholds=getattr(model, "thresholds", None),
                    temperature=temperature if temperature != 1.0 else None,
                    exit_heads=getattr(model, "exit_heads", False),
                    exit_pooling=getattr(model, "exit_pooling", POOLER),
                    pooling=POOLER if hasattr(model, "sentence_pooling") else getattr(model, "pooling", POOLER),
                    activation_fn=getattr(model, "activation_fn", None),
                    single_texts=getattr(model, "single_texts", False))


def settings_in(folder: str) -> Settings:
    """The settings that are stored in a folder.

    Raises:
      ValueError: a file is damaged.
    """
    path = os.path.join(folder, SETTINGS)
    values = _checked(read_json_object(path), path) if tf.io.gfile.exists(path) else {}
    return with_pooling(Settings(**values), sentence_pooling_in(folder))


def with_pooling(settings: Settings, pooling: SentencePooling | None) -> Settings:
    """Settings with a pooling, whose length of rows is theirs."""
    return dataclasses.replace(settings, sentence_pooling=pooling and dataclasses.replace(
        pooling, max_seq_length=settings.max_seq_length))


def sentence_pooling_in(folder: str) -> SentencePooling | None:
    """The pooling in the files of sentence-transformers; None if there are none.

    Raises:
      ValueError: a file is damaged, or has a step or a pooling that is not supported.
    """
    if not tf.io.gfile.exists(os.path.join(folder, MODULES)):
        return None
    from albert_tf.weights.hugging_face.cross_encoder import is_cross_encoder

    if is_cross_encoder(folder):
        return None
    from albert_tf.weights.hugging_face.sentence_transformers import pooling_in

    return pooling_in(folder)


def write_settings(
    settings: Settings, config: AlbertConfig, folder: str, vocabulary: VocabularyFiles = VocabularyFiles()
) -> None:
    """Writes settings and vocabulary, and removes the files of settings that the model does not have.

    Args:
      settings: the model's settings.
      config: the model's config.
      folder: the folder of the weights, which is made if it does not exist.
      vocabulary: the model's vocabulary.
    """
    copy_vocabulary(vocabulary, folder)
    write_input_settings(settings, config, folder)


def write_input_settings(settings: Settings, config: AlbertConfig, folder: str) -> None:
    """write_settings without a vocabulary."""
    if settings.sentence_pooling:
        from albert_tf.weights.hugging_face.sentence_transformers import write_pooling

        write_pooling(settings.sentence_pooling, config, folder)
    else:
        write_or_remove(os.path.join(folder, MODULES), None)  # the other files of a pooling are not read without it
    default = Settings()
    values = {name: getattr(settings, name) for name in ("label_names", "thresholds", *_TYPES)
              if getattr(settings, name) != getattr(default, name)}
    if settings.long_texts.max_windows > 1:
        values["long_texts"] = dataclasses.asdict(settings.long_texts)
    write_or_remove(os.path.join(folder, SETTINGS),
                    json.dumps(values, indent=2, ensure_ascii=False) + "\n" if values else None)


def label_difference(
    path: str, stored: Sequence[str] | None, names: Sequence[str] | None, place: str = ""
) -> str | None:
    """How the labels that are stored with weights differ from the task's; None if they do not, or none are stored."""
    if stored is None or names is not None and tuple(stored) == tuple(names):
        return None
    wanted = f"those of the task are {', '.join(names)}" if names else "the task is a regression"
    return f"{path}: the model was trained with the labels {', '.join(stored)}{place}, but {wanted}"


def _checked(stored: Any, place: str) -> dict[str, Any]:
    """The content of albert_tf.json as arguments of Settings."""
    types = {"label_names": list, "thresholds": list, "long_texts": dict, **_TYPES}
    values = dict(check_keys(stored, place, {}, types))
    for name in _BOUNDS.keys() & values.keys():
        _BOUNDS[name].check(f"{place}: {name}", values[name])
    for name, choices in (("activation_fn", ACTIVATIONS), ("exit_pooling", POOLINGS), ("pooling", POOLINGS)):
        bounds.check_one_of(f"{place}: {name}", values.get(name, choices[0]), choices)
    if "label_names" in values:
        for name in values["label_names"]:
            if not isinstance(name, str):
                raise ValueError(f"{place}: label_names must be a list of names. Received: {name!r}")
            check_one_line(name, f"{place}: a name in label_names")
        values["label_names"] = tuple(values["label_names"])
    if "thresholds" in values:
        for threshold in values["thresholds"]:
            if type(threshold) is not float or not 0 <= threshold <= 1:
                raise ValueError(f"{place}: thresholds must be a list of numbers from 0 to 1. Received: {threshold!r}")
        values["thresholds"] = tuple(values["thresholds"])
    if not 0 < values.get("temperature", 1.0) < math.inf:
        raise ValueError(f"{place}: temperature must be a number above 0. Received: {values['temperature']!r}")
    if "long_texts" in values:
        values["long_texts"] = _long_texts(values["long_texts"], f"{place}: long_texts")
    return values


def _long_texts(stored: Any, place: str) -> LongTexts:
    long_texts = LongTexts(**check_keys(stored, place, dict(pooling=str, max_windows=int, doc_stride=int)))
    bounds.check_one_of(f"{place}: pooling", long_texts.pooling, MEAN_OR_MAX)
    bounds.CANDIDATES.check(f"{place}: max_windows", long_texts.max_windows)
    bounds.SEQ_LENGTH.at_least(0).check(f"{place}: doc_stride", long_texts.doc_stride)
    return long_texts
