"""Settings of a model in albert_tf.json, which stands next to its weights.

albert_tf.json has the name of the head, and the model's settings (modeling/settings.py) that are not defaults::

    {"head": "classifier", "label_names": ["bad", "good"], "max_windows": 8, "task": "reviews"}

The pooling of a sentence encoder is in the files of sentence-transformers. In a folder of Hugging Face, the length of
rows comes from Hugging Face's files (see hugging_face/reading.py), which other programs may have changed.
"""

from __future__ import annotations

import fnmatch
import json
import os
import unicodedata
from typing import Any, Sequence

from absl import logging

from albert_tf.config import CONFIG_NAME, AlbertConfig
from albert_tf.modeling.settings import SentenceEncoderSettings, Settings
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.files import errors_at, names_in, read_bytes, read_json_object
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import write_or_remove
from albert_tf.weights.heads import HEAD_NAMES, settings_class
from albert_tf.weights.hugging_face import MODULES, TOKENIZER_CONFIG, TOKENIZER_JSON
from albert_tf.weights.vocabulary import VOCABULARIES, VocabularyFiles, copy_vocabulary

SETTINGS = "albert_tf.json"
# The settings of a sentence encoder that are in the files of sentence-transformers.
POOLING = ("pooling", "normalize", "truncate_dim", "dense_size", "dense_act", "prompts", "default_prompt_name")


def settings_in(folder: str) -> Settings:
    """The settings that are stored in a folder."""
    path = os.path.join(folder, SETTINGS)
    settings = _read(path) if tf.io.gfile.exists(path) else Settings()
    if tf.io.gfile.exists(os.path.join(folder, MODULES)):
        from albert_tf.weights.hugging_face.configs import pooling_in

        pooling = pooling_in(folder)
        return settings.of_class(SentenceEncoderSettings).replaced(**pooling) if pooling else settings
    return settings


def settings_of(head: str | None, stored: Settings, **values: Any) -> Settings:
    """The settings of a kind of model: the stored ones, with values from other files where this kind has them."""
    settings = stored.of_class(settings_class(head))
    return settings.replaced(**{name: value for name, value in values.items() if name in settings.names()})


def write_settings(
    settings: Settings, config: AlbertConfig, folder: str, vocabulary: VocabularyFiles = VocabularyFiles()
) -> None:
    """Writes settings and vocabulary, and removes the files of settings that the model does not have."""
    copy_vocabulary(vocabulary, folder)
    content = settings.content()
    if isinstance(settings, SentenceEncoderSettings):
        from albert_tf.weights.hugging_face.configs import write_pooling

        write_pooling(settings, config, folder)
        content = {name: value for name, value in content.items() if name not in POOLING}
    else:
        write_or_remove(os.path.join(folder, MODULES), None)  # the other files of a pooling are not read without it
    write_or_remove(os.path.join(folder, SETTINGS),
                    json.dumps(content, indent=2, ensure_ascii=False) + "\n" if content else None)


def remove_damaged_settings(folder: str) -> None:
    """Removes the config, settings and vocabularies that a power cut has left empty or zero. They are made again."""
    for name in names_in(folder):
        path = os.path.join(folder, name)
        is_json = name in (CONFIG_NAME, SETTINGS, TOKENIZER_CONFIG, TOKENIZER_JSON)
        if is_json or any(fnmatch.fnmatch(name, pattern) for pattern in VOCABULARIES):
            content = read_bytes(path)
            if not content.strip(b"\0") or is_json and b"\0" in content:
                logging.warning("%s is damaged, and is made again", path)
                write_or_remove(path, None)


def label_difference(
    path: str, stored: Sequence[str] | None, names: Sequence[str] | None, origin: str = ""
) -> str | None:
    """How the labels that are stored with weights differ from the task's; None if they do not, or none are stored."""
    both = [each and [unicodedata.normalize("NFC", name) for name in each] for each in (stored, names)]
    if stored is None or names is not None and both[0] == both[1]:
        return None
    wanted = f"those of the task are {', '.join(names)}" if names else "the task is a regression"
    return f"{path}: the model was trained with the labels {', '.join(stored)}{origin}, but {wanted}"


def _read(path: str) -> Settings:
    values = read_json_object(path)
    head = values.pop("head", None)
    check_one_of(f"{path}: head", head, HEAD_NAMES)
    known = settings_class(head)
    for name in values:
        if name not in known.names():
            raise ValueError(f"{path}: unknown key {name!r}; the known ones are {', '.join(['head', *known.names()])}")
    with errors_at(path):
        return known(**values)
