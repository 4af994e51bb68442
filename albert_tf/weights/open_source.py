"""open_source: opens weights at a path as a StoredModel, whatever their format.

The formats::

    "albert_tiny_en"              the folder of a model that comes with the package
    hf://org/name                 hugging_face.hub, then like the folder in it
    a URL                         download, then like an archive
    .tar.gz, .tgz, .tar           archive, then like the folder in it
    a folder                      by its files, see _FORMATS
    anything else                 tf1.checkpoint, which also reads checkpoints of runs, BERT and albert_zh

The module of a format has a function `read` from a path to a StoredModel, and is imported when a path has this format.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import os
import pathlib

import tensorflow as tf

from albert_tf.utils.files import errors_naming_origin, names_in
from albert_tf.weights.hugging_face import CONFIG, INDEX, MODULES, SCHEME, WEIGHTS
from albert_tf.weights.stored_model import StoredModel

# The models that come with the package.
_SHIPPED = pathlib.Path(__file__).parents[1] / "models"
_SAVED_MODEL = "saved_model.pb"
# The module of a format by a file that its folders have, in the order in which they are looked for. The last one of
# Hugging Face is that of sentence-transformers; for a pickle, the reader says what to do.
_FORMATS = {
    _SAVED_MODEL: "tf_hub.reading",
    "model.weights.h5": "keras_hub.reading",
    "*.index": "tf1.checkpoint",
    **dict.fromkeys((CONFIG, WEIGHTS, INDEX, "pytorch_model.bin", MODULES), "hugging_face.reading"),
}



def open_source(path: str, trust_module: bool = False) -> StoredModel:
    """Opens the weights at a path, with the config and the vocabulary that come with them.

    The format is determined by reading files. No code of a SavedModel runs here.

    Args:
      path: a released directory or its .tar.gz, a run's directory (model.ckpt-best, else the latest), the directory of
        several runs (the best of them), a checkpoint's prefix, a BERT checkpoint of google-research/bert, a Hugging
        Face folder of ALBERT or BERT, a preset of keras-hub's ALBERT, a TF-Hub module of either generation or its
        .tar.gz, or a URL of one; a repository of the Hugging Face Hub, hf://org/name[@revision][/subfolder]; or the
        name of a model that comes with the package (albert_tiny_en, albert_tiny_en_sentences).
      trust_module: whether to accept a TF2 module that can only be used by running its graph. A graph can read and
        write files.

    Raises:
      ValueError: there is nothing in a known format, or it cannot be read; or it is a module that is not trusted.
    """
    folder = shipped_model(path)
    source = dataclasses.replace(_open(folder), path=path) if folder else _open(path)
    if source.module and not trust_module:
        raise ValueError(f"{path} is a TF2 module whose variables do not have the release's names, so it can only be "
                         "used by running its graph, which can read and write files. If you trust it, use "
                         "--albert_hub_module_handle, or from_pretrained(..., trust_module=True)")
    return source


def _open(path: str) -> StoredModel:
    if path.startswith(SCHEME):
        from albert_tf.weights.hugging_face import hub

        return _source_in(hub.snapshot(path).folder, path)
    if is_url(path):
        from albert_tf.weights.download import downloaded

        return _source_in_archive(downloaded(path), path)
    if tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path):  # a checkpoint's prefix is not the name of a file
        from albert_tf.weights.archive import is_archive
        from albert_tf.weights.hugging_face.tensors import refuse_pickle

        if is_archive(path):
            return _source_in_archive(path, path)
        refuse_pickle(path)
    return _read(path)


def _source_in_archive(archive: str, name: str) -> StoredModel:
    from albert_tf.weights.archive import unpacked

    with errors_naming_origin(name, archive):
        directory = unpacked(archive)
    return _source_in(directory, name)


def _source_in(directory: str, name: str) -> StoredModel:
    """The source in a copy of a model. All error messages, also those of later reads, have the name of the original."""
    named = errors_naming_origin(name, directory)
    source = named(_read)(directory)
    made_from = source.vocabulary.made_from and source.vocabulary.made_from.replace(directory, name)
    return dataclasses.replace(source, path=name, read=named(source.read), read_config=named(source.read_config),
                               vocabulary=dataclasses.replace(source.vocabulary, archive=name, made_from=made_from))


def _read(path: str) -> StoredModel:
    """The stored model in a folder, or of a checkpoint."""
    names = names_in(path) if tf.io.gfile.isdir(path) else []
    module = next((module for marker, module in _FORMATS.items() if fnmatch.filter(names, marker)), "tf1.checkpoint")
    return importlib.import_module(f"albert_tf.weights.{module}").read(path)


def is_url(path: str) -> bool:
    """Whether a path is a URL or one on the Hugging Face Hub, so that it has to be downloaded."""
    return path.startswith(("https://", "http://", SCHEME))


def is_hub_module(path: str) -> bool:
    """Whether a folder is a SavedModel, the format of TF-Hub modules."""
    return tf.io.gfile.exists(os.path.join(path, _SAVED_MODEL))


def shipped_models() -> list[str]:
    """The names of the models that come with the package, in albert_tf/models/."""
    return sorted(model.name for model in _SHIPPED.iterdir() if model.is_dir())


def shipped_model(path: str) -> str | None:
    """The folder of a model that comes with the package, if `path` is its name and there is no such file or folder.

    Args:
      path: see from_pretrained: "albert_tiny_en".
    """
    if not path.isidentifier() or pathlib.Path(path).exists():
        return None
    return str(_SHIPPED / path) if (_SHIPPED / path).is_dir() else None
