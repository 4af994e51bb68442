"""Reads a preset of keras-hub as a StoredModel.

    config.json, model.weights.h5    the backbone
    task.json, task.weights.h5       the head, if there is one
    assets/tokenizer/vocabulary.spm  the vocabulary
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import reprlib
from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.utils.files import errors_at, read_json_object
from albert_tf.utils.outputs import local_copy
from albert_tf.weights.hugging_face.reading import leave_out_the_identity
from albert_tf.weights.keras_hub.names import HEAD_OF_CLASS, backbone_names, head_names, is_transposed, shape_here
from albert_tf.weights.settings import Settings
from albert_tf.weights.stored_model import StoredModel
from albert_tf.weights.vocabulary_files import VocabularyFiles, options_in

CONFIG, TASK = "config.json", "task.json"
WEIGHTS, TASK_WEIGHTS = "model.weights.h5", "task.weights.h5"  # of the backbone, and of the head
VOCABULARY = "assets/tokenizer/vocabulary.spm"
_BACKBONE = "AlbertBackbone"
# Our fields of a config by keras-hub's.
_FIELDS = dict(vocabulary_size="vocab_size", num_layers="num_hidden_layers", num_heads="num_attention_heads",
               num_groups="num_hidden_groups", num_inner_repetitions="inner_group_num", embedding_dim="embedding_size",
               hidden_dim="hidden_size", intermediate_dim="intermediate_size",
               max_sequence_length="max_position_embeddings", num_segments="type_vocab_size")
# The name that files of Keras 2 have for "layers".
_OLD_LAYERS = "_layer_checkpoint_dependencies"


@dataclasses.dataclass(frozen=True)
class StoredVariable:
    """A variable in a weight file of Keras.

    Args:
      shape: its shape in the release.
      transpose: whether the file has its transpose.
    """

    path: str
    place: str
    shape: tuple[int, ...]
    transpose: bool

    def read(self) -> tf.Tensor:
        """The values as float32."""
        with _opened(self.path) as file:
            value = np.asarray(_dataset(file, self.place, self.path)[()], np.float32)
        return tf.constant(value.T if self.transpose else value.reshape(self.shape))


def read(folder: str) -> StoredModel:
    """The weights, config and vocabulary of a preset."""
    config, head = _config(folder), _head(folder)
    variables = _variables(os.path.join(folder, WEIGHTS), backbone_names(config))
    if head:
        variables.update(_variables(os.path.join(folder, TASK_WEIGHTS), head_names(head)))
    if config.embedding_size == config.hidden_size:
        leave_out_the_identity(folder, variables, config.hidden_size)
    shapes = {name: variable.shape for name, variable in variables.items()}
    return StoredModel(folder, shapes, lambda name: variables[name].read(), lambda: config, _vocabulary(folder),
                  settings=Settings(head or "encoder"))


def _config(folder: str) -> AlbertConfig:
    path = os.path.join(folder, CONFIG)
    stored = read_json_object(path)
    values = stored.get("config")
    if stored.get("class_name") != _BACKBONE or not isinstance(values, dict):
        raise ValueError(f"{path} is a preset of keras-hub, of which only those of {_BACKBONE} are supported. "
                         f"Received: {reprlib.repr(stored.get('class_name'))}")
    missing = sorted(_FIELDS.keys() - values.keys())
    if missing:
        raise ValueError(f"{path}: config has no {', '.join(missing)}")
    dropout: Any = values.get("dropout", 0.0)
    with errors_at(path):
        return AlbertConfig.from_dict(dict({ours: values[theirs] for theirs, ours in _FIELDS.items()},
                                           hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout))


def _head(folder: str) -> str | None:
    """The kind of model (see from_pretrained) of the head; None if the preset has none."""
    path = os.path.join(folder, TASK)
    if not tf.io.gfile.exists(path):
        return None
    name = read_json_object(path).get("class_name")
    if name not in HEAD_OF_CLASS:
        raise ValueError(f"{path}: only {', '.join(HEAD_OF_CLASS)} are supported. Received: {reprlib.repr(name)}")
    return HEAD_OF_CLASS[name]


def _vocabulary(folder: str) -> VocabularyFiles:
    path = os.path.join(folder, VOCABULARY)
    return VocabularyFiles(path if tf.io.gfile.exists(path) else None, None, *options_in(folder))


def _variables(path: str, names: dict[str, str]) -> dict[str, StoredVariable]:
    """The variables of a file, by the release's names."""
    variables = {}
    with _opened(path) as file:
        for name, place in names.items():
            place = place if "layers" in file else place.replace("layers", _OLD_LAYERS, 1)
            shape = _dataset(file, place, path).shape
            shape = shape[::-1] if is_transposed(name) else shape_here(name, shape)
            variables[name] = StoredVariable(path, place, shape, is_transposed(name))
    return variables


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    import h5py

    try:
        with h5py.File(local_copy(path), "r", locking=False) as file:
            yield file
    except (OSError, tf.errors.OpError) as error:
        reason = "there is no such file" if not tf.io.gfile.exists(path) else str(error)
        raise ValueError(f"{path} cannot be read: {reason}") from error


def _dataset(file: Any, place: str, path: str) -> Any:
    """The dataset at a place. The file itself must have all of its values: a link could lead to any other file."""
    import h5py

    found = file
    for part in place.split("/"):
        link = found.get(part, getlink=True) if isinstance(found, h5py.Group) else None
        if link is None:
            raise ValueError(f"{path} has no {place}: it is damaged, or is of another model or version of keras-hub")
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"{path}: {place} is a link, and not a value in this file")
        found = found[part]
    if not isinstance(found, h5py.Dataset) or found.dtype.kind != "f" or found.external or found.is_virtual:
        raise ValueError(f"{path}: {place} has no floating-point numbers in this file")
    if found.nbytes > os.path.getsize(file.filename):
        raise ValueError(f"{path}: {place} would have {found.nbytes:,} bytes, more than the file")
    return found
