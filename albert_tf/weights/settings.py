"""Settings: how a model is used, in albert_tf.json next to its weights.

The file has the name of the head, the values of the arguments that the head's class declares (see
modeling/arguments.py) if they are not the defaults, and what a run stores of itself::

    {"head": "classifier", "label_names": ["bad", "good"], "max_windows": 8, "task": "reviews"}

The pooling of a sentence encoder is in the files of sentence-transformers. In a folder of Hugging Face, the length of
rows is that of its own files (see hugging_face/reading.py), which others may have changed.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, Mapping, Sequence

import tensorflow as tf

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.arguments import Argument
from albert_tf.utils.bounds import check_one_of
from albert_tf.utils.files import check_keys, read_json_object
from albert_tf.utils.outputs import write_or_remove
from albert_tf.weights.heads import HEAD_NAMES, head_named, head_of
from albert_tf.weights.hugging_face import MODULES
from albert_tf.weights.vocabulary_files import VocabularyFiles, copy_vocabulary

SETTINGS = "albert_tf.json"
_OF_RUNS = {"head": str, "task": str, "lora_alpha": float}
# The arguments of a sentence encoder that are in the files of sentence-transformers.
POOLING = ("pooling", "normalize", "truncate_dim")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a model. Each argument of the head's class is an attribute: the stored value, or the default.

    An argument that the class does not have is None.

    Args:
      task: the name of the task that a run trains on; None if it has none, or is unknown.
      lora_alpha: the adapters of a run are multiplied by it and divided by their rank; None without adapters.
    """

    head: str | None = None
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    task: str | None = None
    lora_alpha: float | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.values:
            return self.values[name]
        argument = declared(self.head).get(name)
        return argument and argument.default

    def replaced(self, **values: Any) -> Settings:
        """The same with other values of fields or arguments."""
        own = {name: values.pop(name) for name in ("head", "task", "lora_alpha") if name in values}
        return dataclasses.replace(self, values={**self.values, **values}, **own)

    def content(self) -> dict[str, Any]:
        """What is not the default, by name."""
        arguments = declared(self.head)
        values = {name: value for name, value in self.values.items()
                  if name in arguments and value != arguments[name].default}
        own = dict(head=self.head, task=self.task, lora_alpha=self.lora_alpha)
        return {**{name: value for name, value in own.items() if value is not None}, **values}


def declared(head: str | None) -> dict[str, Argument]:
    """The arguments of a head's class that are stored, by name; none for None."""
    if head is None:
        return {}
    return {name: argument for name, argument in head_named(head).model.arguments().items() if argument.is_stored}


def settings_of(model: keras.Model) -> Settings:
    """The settings of a model of albert_tf.modeling."""
    head = head_of(model).name
    return Settings(head, {name: getattr(model, name) for name in declared(head)})


def settings_in(folder: str) -> Settings:
    """The settings that are stored in a folder."""
    path = os.path.join(folder, SETTINGS)
    settings = _read(path) if tf.io.gfile.exists(path) else Settings()
    pooling = sentence_pooling_in(folder)
    return settings.replaced(head="sentence_encoder", **pooling) if pooling else settings


def sentence_pooling_in(folder: str) -> dict[str, Any] | None:
    """The arguments of a sentence encoder in the files of sentence-transformers; None if there are none."""
    if not tf.io.gfile.exists(os.path.join(folder, MODULES)):
        return None
    from albert_tf.weights.hugging_face.configs import is_cross_encoder

    if is_cross_encoder(folder):
        return None
    from albert_tf.weights.hugging_face.sentence_transformers import pooling_in

    return pooling_in(folder)


def write_settings(
    settings: Settings, config: AlbertConfig, folder: str, vocabulary: VocabularyFiles = VocabularyFiles()
) -> None:
    """Writes settings and vocabulary, and removes the files of settings that the model does not have."""
    copy_vocabulary(vocabulary, folder)
    write_input_settings(settings, config, folder)


def write_input_settings(settings: Settings, config: AlbertConfig, folder: str) -> None:
    """write_settings without a vocabulary."""
    content = settings.content()
    if settings.head == "sentence_encoder":
        from albert_tf.weights.hugging_face.sentence_transformers import write_pooling

        write_pooling(settings, config, folder)
        content = {name: value for name, value in content.items() if name not in POOLING}
    else:
        write_or_remove(os.path.join(folder, MODULES), None)  # the other files of a pooling are not read without it
    write_or_remove(os.path.join(folder, SETTINGS),
                    json.dumps(content, indent=2, ensure_ascii=False) + "\n" if content else None)


def label_difference(
    path: str, stored: Sequence[str] | None, names: Sequence[str] | None, place: str = ""
) -> str | None:
    """How the labels that are stored with weights differ from the task's; None if they do not, or none are stored."""
    if stored is None or names is not None and tuple(stored) == tuple(names):
        return None
    wanted = f"those of the task are {', '.join(names)}" if names else "the task is a regression"
    return f"{path}: the model was trained with the labels {', '.join(stored)}{place}, but {wanted}"


def _read(path: str) -> Settings:
    content = read_json_object(path)
    own = {name: value for name, value in content.items() if name in _OF_RUNS}
    head = check_keys(own, path, {}, _OF_RUNS).get("head")
    if head is not None:
        check_one_of(f"{path}: head", head, HEAD_NAMES)
    arguments, values = declared(head), {}
    for name in [name for name in content if name not in own]:  # in the file's order, for messages
        if name not in arguments:
            raise ValueError(f"{path}: unknown key {name!r}; the known ones are {', '.join([*_OF_RUNS, *arguments])}")
        values[name] = arguments[name].checked(f"{path}: {name}", content[name])
    return Settings(values=values, **own)
