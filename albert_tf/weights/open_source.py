"""open_source: opens weights at a path as a Source, whatever their format.

The formats::

    "albert_tiny_en"              the folder of a model that comes with the package
    hf://org/name                 hugging_face.hub, then like the folder in it
    a URL                         download, then like an archive
    .tar.gz, .tgz, .tar           archive, then like the folder in it
    a folder with saved_model.pb  tf_hub
    one with model.weights.h5     keras_hub, if its config.json is a preset's
    a folder with config.json     hugging_face, which also reads the folders of sentence-transformers
    anything else                 tf1, a checkpoint of the release or of a run; its names tell whether it is one of BERT
                                  or albert_zh

The module of a format is imported when a path has this format.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re

import tensorflow as tf

from albert_tf.utils.files import errors_naming_origin
from albert_tf.utils.json_files import read_json_object
from albert_tf.weights.hugging_face import CONFIG, INDEX, MODULES, SCHEME, WEIGHTS
from albert_tf.weights.source import Source

# The models that come with the package.
_SHIPPED = pathlib.Path(__file__).parents[1] / "models"
_SAVED_MODEL = "saved_model.pb"
_KERAS_WEIGHTS = "model.weights.h5"  # of a preset of keras-hub
# Any of these files makes a folder one of Hugging Face; the last one is that of sentence-transformers. Without weights
# in safetensors, and with a pickle, the reader says what to do.
_HUGGING_FACE = (CONFIG, WEIGHTS, INDEX, "pytorch_model.bin", MODULES)
# What names of variables in a checkpoint tell: written by tf.train.Checkpoint, by albert_zh, by google-research/bert.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ALBERT_ZH = "bert/encoder/layer_shared/"
_BERT = re.compile(r"bert/encoder/layer_\d+/")
# The endings of the files of a TF1 checkpoint.
_ENDINGS = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def open_source(path: str, trust_module: bool = False) -> Source:
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


def _open(path: str) -> Source:
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
    return _source(path)


def _source_in_archive(archive: str, name: str) -> Source:
    from albert_tf.weights.archive import unpacked

    with errors_naming_origin(name, archive):
        directory = unpacked(archive)
    return _source_in(directory, name)


def _source_in(directory: str, name: str) -> Source:
    """The source in a copy of a model. All error messages, also those of later reads, have the name of the original."""
    named = errors_naming_origin(name, directory)
    source = named(_source)(directory)
    made_from = source.vocabulary.made_from and source.vocabulary.made_from.replace(directory, name)
    return dataclasses.replace(source, path=name, read=named(source.read), read_config=named(source.read_config),
                               vocabulary=dataclasses.replace(source.vocabulary, archive=name, made_from=made_from))


def _source(path: str) -> Source:
    """The source of a folder or a checkpoint."""
    is_folder = tf.io.gfile.isdir(path)
    if is_folder and is_hub_module(path):
        from albert_tf.weights.tf_hub.reading import hub_source

        return hub_source(path)
    if is_folder and _is_keras_preset(path):
        from albert_tf.weights.keras_hub.reading import keras_hub_source

        return keras_hub_source(path)
    if is_folder and _is_hugging_face(path):
        from albert_tf.weights.hugging_face.reading import hugging_face_source

        return hugging_face_source(path)
    return _checkpoint(checkpoint_prefix(path))


def _checkpoint(prefix: str) -> Source:
    """The source of a TensorFlow checkpoint."""
    from albert_tf.weights.tf1.checkpoint import our_source, tf1_source

    checkpoint = tf1_source(prefix)
    if _OBJECTS in checkpoint.shapes:
        return our_source(checkpoint)
    if any(name.startswith(_ALBERT_ZH) for name in checkpoint.shapes):
        from albert_tf.weights.tf1.albert_zh import albert_zh_source

        return albert_zh_source(checkpoint)
    if any(map(_BERT.match, checkpoint.shapes)):
        from albert_tf.weights.tf1.bert import bert_source

        return bert_source(checkpoint)
    return checkpoint


def is_url(path: str) -> bool:
    """Whether a path is a URL or one on the Hugging Face Hub, so that it has to be downloaded."""
    return path.startswith(("https://", "http://", SCHEME))


def is_hub_module(path: str) -> bool:
    """Whether a folder is a SavedModel, the format of TF-Hub modules."""
    return tf.io.gfile.exists(os.path.join(path, _SAVED_MODEL))


def _is_keras_preset(folder: str) -> bool:
    """Whether a folder is a preset of keras-hub: weights of Keras beside a config that is not Hugging Face's."""
    config, weights = (os.path.join(folder, name) for name in (CONFIG, _KERAS_WEIGHTS))
    return all(map(tf.io.gfile.exists, (config, weights))) and "registered_name" in read_json_object(config)


def _is_hugging_face(path: str) -> bool:
    """Whether a folder is one of Hugging Face, and has no checkpoint of TensorFlow."""
    has_checkpoint = tf.io.gfile.glob(os.path.join(path, "*.index"))
    return not has_checkpoint and any(tf.io.gfile.exists(os.path.join(path, name)) for name in _HUGGING_FACE)


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


def checkpoint_prefix(path: str) -> str:
    """The prefix of the checkpoint at a path: the path itself, or the best, the latest or the only one in a directory.

    In a directory of several runs (--num_runs) it is that of the best run.

    The path of one of a checkpoint's files (model.ckpt-best.index) stands for the checkpoint.

    Raises:
      ValueError: there is no checkpoint, or there are several other ones.
    """
    path = _ENDINGS.sub("", path)
    if tf.io.gfile.exists(f"{path}.index"):
        return path
    indexes = tf.io.gfile.glob(os.path.join(path, "*.index")) if tf.io.gfile.isdir(path) else []
    prefixes = [index[: -len(".index")] for index in sorted(indexes)]
    if len(prefixes) != 1:
        from albert_tf.training.checkpoints import best_or_latest
        from albert_tf.training.evaluation import checkpoint_of

        chosen = best_or_latest(path) or checkpoint_of(path)
        prefixes = [chosen] if chosen else prefixes
    if not prefixes:
        where = "" if tf.io.gfile.exists(path) else ", which does not exist"
        raise ValueError(f"no checkpoint at {path}{where}: expected a directory with model.ckpt-*, the path of a "
                         "checkpoint, a Hugging Face folder, a TF-Hub module, a .tar.gz of one of them, "
                         "hf://org/name on the Hugging Face Hub, "
                         f"or the name of a model that comes with the package ({', '.join(shipped_models())}). "
                         "docs/weights.md says where to download weights")
    if len(prefixes) > 1:
        raise ValueError(f"several checkpoints in {path}, choose one: {', '.join(map(os.path.basename, prefixes))}")
    return prefixes[0]
