"""open_source: from a path to the Source that lies there, of whatever kind."""

from __future__ import annotations

import dataclasses
import os

import tensorflow as tf

from albert_tf.interchange.albert_zh import albert_zh_source, is_albert_zh
from albert_tf.interchange.archive import is_archive, unpacked
from albert_tf.interchange.bert_tf1 import bert_source, is_bert_checkpoint
from albert_tf.interchange.download import downloaded, is_url
from albert_tf.interchange.error_paths import errors_naming
from albert_tf.interchange.hub.reading import hub_source, is_hub_module
from albert_tf.interchange.hugging_face.reading import hugging_face_source, is_hugging_face
from albert_tf.interchange.ours import is_ours, our_source
from albert_tf.interchange.pickles import refuse_pickle
from albert_tf.interchange.shipped_models import shipped_model
from albert_tf.interchange.source import Source
from albert_tf.interchange.tf1 import tf1_source
from albert_tf.training.checkpoints import best_or_latest


def open_source(path: str, trust_module: bool = False) -> Source:
    """The weights at a path, with config and vocabulary where they are there too.

    What is at the path is decided by reading files. No code of a SavedModel runs here.

    Args:
      path: a released directory or its .tar.gz, a run's directory (model.ckpt-best, else the latest), a checkpoint's
        prefix, a BERT checkpoint of google-research/bert, a Hugging Face folder of ALBERT or BERT, a TF-Hub module of
        either generation or its .tar.gz, or a URL of one; or the name of a model that comes with the package
        (albert_tiny_en).
      trust_module: whether a TF2 module may be opened that can only be used by running its graph. A graph can read and
        write files.

    Raises:
      ValueError: there is nothing of a known kind, or it cannot be read; or it is a module that is not trusted.
    """
    folder = shipped_model(path)
    source = dataclasses.replace(_open(folder), path=path) if folder else _open(path)
    if source.module and not trust_module:
        raise ValueError(f"{path} is a TF2 module whose variables have names of their own, so it can only be used by "
                         "running its graph, which can read and write files. If you trust it, name it as a module: "
                         "--albert_hub_module_handle, or from_pretrained(..., trust_module=True)")
    return source


def _open(path: str) -> Source:
    if is_url(path):
        return _source_in_archive(downloaded(path), path)
    if is_archive(path):
        return _source_in_archive(path, path)
    return _source(path)


def _source_in_archive(archive: str, name: str) -> Source:
    """What is in an archive. Messages, also of what is read later, have the archive's name: its path or URL."""
    with errors_naming(name, archive):
        directory = unpacked(archive)
    named = errors_naming(name, directory)
    source = named(_source)(directory)
    return dataclasses.replace(source, path=name, read=named(source.read), read_config=named(source.read_config),
                               vocabulary=dataclasses.replace(source.vocabulary, archive=name))


def _source(path: str) -> Source:
    refuse_pickle(path)
    if tf.io.gfile.isdir(path):
        if is_hub_module(path):
            return hub_source(path)
        if not tf.io.gfile.glob(os.path.join(path, "*.index")) and is_hugging_face(path):
            return hugging_face_source(path)
    checkpoint = tf1_source(checkpoint_prefix(path))
    if is_ours(checkpoint):
        return our_source(checkpoint)
    if is_albert_zh(checkpoint):
        return albert_zh_source(checkpoint)
    return bert_source(checkpoint) if is_bert_checkpoint(checkpoint) else checkpoint


def checkpoint_prefix(path: str) -> str:
    """The prefix of the checkpoint that a path means: its own, or of a directory the best, the latest or the only one.

    Raises:
      ValueError: there is none, or it is not clear which.
    """
    if tf.io.gfile.exists(f"{path}.index"):
        found = [path]
    elif not tf.io.gfile.isdir(path):
        found = []
    else:
        chosen = best_or_latest(path)
        others = [index[: -len(".index")] for index in sorted(tf.io.gfile.glob(os.path.join(path, "*.index")))]
        found = [chosen] if chosen else others
    if not found:
        raise ValueError(f"no checkpoint at {path}: wanted is a directory with model.ckpt-* or the path of one without "
                         ".index, a Hugging Face folder, a TF-Hub module, or a .tar.gz of one of them")
    if len(found) > 1:
        raise ValueError(f"several checkpoints in {path}, name one: {', '.join(map(os.path.basename, found))}")
    return found[0]
