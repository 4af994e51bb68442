"""Settings: how a model is used, in files next to its weights.

    label_names.txt       the names of a classifier's labels, one per line, in the order of the logits
    long_texts.json       {"pooling": "mean", "max_windows": 8, "doc_stride": 0}; without it, longer texts are truncated
    multiple_choice.json  {"num_choices": 5}
    tagging.json          {"label_all_pieces": true}; without it, a word's first piece has its tag
    task.json             {"head": "span", "doc_stride": 128, "max_query_length": 64}: the head that a run trained (see
                          heads.py), and the lengths with which its task reads texts. Earlier runs have no such file.

The pooling of a sentence encoder is in the files of sentence-transformers (see sentence_transformers.py), the length of
rows in tokenizer_config.json (see vocabulary_files.py).
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.pooling import MEAN_OR_MAX, LongTexts, SentencePooling
from albert_tf.utils import bounds
from albert_tf.utils.files import write_or_remove
from albert_tf.utils.json_files import check_keys, read_json_object
from albert_tf.weights.sentence_transformers import MODULES, pooling_in, write_pooling
from albert_tf.weights.vocabulary_files import VocabularyFiles, copy_vocabulary, length_in

LABEL_NAMES, LONG_TEXTS, MULTIPLE_CHOICE = "label_names.txt", "long_texts.json", "multiple_choice.json"
TAGGING, TASK = "tagging.json", "task.json"
FILES = (LABEL_NAMES, LONG_TEXTS, MULTIPLE_CHOICE, TAGGING, TASK, MODULES)
_OF_THE_TASK = {"head": str, "doc_stride": int, "max_query_length": int, "max_qa_length": int}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a model.

    Args:
      label_names: the names of the classifier's labels; None if they have no names.
      sentence_pooling: how the vector of a text is made; None if the model is no sentence encoder.
      long_texts: how a classifier reads longer texts.
      max_seq_length: the largest number of tokens of a row that the weights were fine-tuned with; None if unknown.
      num_choices: choices per question of a multiple-choice model; None if the model is no such model, or unknown.
      label_all_pieces: whether a tagger reads a word's tag from all of its pieces.
      head: the name of the head that a run trained (see heads.py); None if unknown.
      doc_stride: pieces from the start of a window to the start of the next, for SQuAD and tagging; None if unknown.
      max_query_length: the largest number of pieces of a question of SQuAD; None if unknown.
      max_qa_length: the largest number of pieces of question and option of multiple choice; None if unknown.
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


def settings_of(model: keras.Model) -> Settings:
    """The settings of a model of albert_tf.modeling."""
    return Settings(getattr(model, "label_names", None), getattr(model, "sentence_pooling", None),
                    getattr(model, "long_texts", LongTexts()), model.max_seq_length,
                    getattr(model, "num_choices", None), getattr(model, "label_all_pieces", False))


def settings_in(folder: str) -> Settings:
    """The settings that are stored in a folder.

    Raises:
      ValueError: a file is damaged.
    """
    return Settings(_label_names(os.path.join(folder, LABEL_NAMES)), pooling_in(folder),
                    _long_texts(os.path.join(folder, LONG_TEXTS)), length_in(folder),
                    _num_choices(os.path.join(folder, MULTIPLE_CHOICE)),
                    _label_all_pieces(os.path.join(folder, TAGGING)), **_of_the_task(os.path.join(folder, TASK)))


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
    copy_vocabulary(vocabulary, folder, max_seq_length=settings.max_seq_length)
    names = settings.label_names
    write_or_remove(os.path.join(folder, LABEL_NAMES), "".join(f"{name}\n" for name in names) if names else None)
    write_input_settings(settings, config, folder)


def write_input_settings(settings: Settings, config: AlbertConfig, folder: str) -> None:
    """write_settings without label names and length, which Hugging Face's folders have in files of their own."""
    if settings.sentence_pooling:
        write_pooling(settings.sentence_pooling, config, folder)
    else:
        write_or_remove(os.path.join(folder, MODULES), None)  # the other files of a pooling are not read without it
    long_texts, choices = settings.long_texts, settings.num_choices
    write_or_remove(os.path.join(folder, LONG_TEXTS),
                    json.dumps(dataclasses.asdict(long_texts)) if long_texts.max_windows > 1 else None)
    write_or_remove(os.path.join(folder, MULTIPLE_CHOICE), json.dumps(dict(num_choices=choices)) if choices else None)
    write_or_remove(os.path.join(folder, TAGGING),
                    json.dumps(dict(label_all_pieces=True)) if settings.label_all_pieces else None)
    of_the_task = {name: getattr(settings, name) for name in _OF_THE_TASK if getattr(settings, name) is not None}
    write_or_remove(os.path.join(folder, TASK), json.dumps(of_the_task) if of_the_task else None)


def _label_names(path: str) -> tuple[str, ...] | None:
    if not tf.io.gfile.exists(path):
        return None
    from albert_tf.text.lines import read_lines

    return tuple(read_lines(path))


def _long_texts(path: str) -> LongTexts:
    if not tf.io.gfile.exists(path):
        return LongTexts()
    stored = LongTexts(**check_keys(read_json_object(path), path, dict(pooling=str, max_windows=int, doc_stride=int)))
    if stored.pooling not in MEAN_OR_MAX:
        raise ValueError(f"{path}: pooling must be one of {', '.join(MEAN_OR_MAX)}. Received: {stored.pooling!r}")
    bounds.CANDIDATES.check(f"{path}: max_windows", stored.max_windows)
    bounds.SEQ_LENGTH.at_least(0).check(f"{path}: doc_stride", stored.doc_stride)
    return stored


def _num_choices(path: str) -> int | None:
    if not tf.io.gfile.exists(path):
        return None
    choices = check_keys(read_json_object(path), path, dict(num_choices=int))["num_choices"]
    bounds.CANDIDATES.check(f"{path}: num_choices", choices)
    return choices


def _label_all_pieces(path: str) -> bool:
    if not tf.io.gfile.exists(path):
        return False
    return check_keys(read_json_object(path), path, dict(label_all_pieces=bool))["label_all_pieces"]


def _of_the_task(path: str) -> dict[str, Any]:
    if not tf.io.gfile.exists(path):
        return {}
    stored = check_keys(read_json_object(path), path, {}, _OF_THE_TASK)
    for name in stored.keys() - {"head"}:
        bounds.SEQ_LENGTH.at_least(0).check(f"{path}: {name}", stored[name])
    return stored
