"""open_source: opens weights at a path as a Source, whatever their format."""

from __future__ import annotations

import dataclasses
import os
import re

import tensorflow as tf

from albert_tf.training.checkpoints import best_or_latest
from albert_tf.training.several_runs import checkpoint_of
from albert_tf.weights.albert_zh import albert_zh_source, is_albert_zh
from albert_tf.weights.archive import is_archive, unpacked
from albert_tf.weights.bert_tf1 import bert_source, is_bert_checkpoint
from albert_tf.weights.download import downloaded, is_url
from albert_tf.weights.error_paths import errors_naming
from albert_tf.weights.hugging_face.reading import hugging_face_source, is_hugging_face
from albert_tf.weights.ours import is_ours, our_source
from albert_tf.weights.pickles import refuse_pickle
from albert_tf.weights.shipped_models import shipped_model, shipped_models
from albert_tf.weights.source import Source
from albert_tf.weights.tf1 import tf1_source
from albert_tf.weights.tf_hub.reading import hub_source, is_hub_module

# The endings of the files of a TF1 checkpoint.
_ENDINGS = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def open_source(path: str, trust_module: bool = False) -> Source:
    """Opens the weights at a path, with the config and the vocabulary that come with them.

    The format is determined by reading files. No code of a SavedModel runs here.

    Args:
      path: a released directory or its .tar.gz, a run's directory (model.ckpt-best, else the latest), the directory of
        several runs (the best of them), a checkpoint's prefix, a BERT checkpoint of google-research/bert, a Hugging
        Face folder of ALBERT or BERT, a TF-Hub module of either generation or its .tar.gz, or a URL of one; or the name
        of a model that comes with the package (albert_tiny_en).
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
    if is_url(path):
        return _source_in_archive(downloaded(path), path)
    if is_archive(path):
        return _source_in_archive(path, path)
    return _source(path)


def _source_in_archive(archive: str, name: str) -> Source:
    """The source in an archive. All error messages, also those of later reads, have the archive's path or URL."""
    with errors_naming(name, archive):
        directory = unpacked(archive)
    named = errors_naming(name, directory)
    source = named(_source)(directory)
    made_from = source.vocabulary.made_from and source.vocabulary.made_from.replace(directory, name)
    return dataclasses.replace(source, path=name, read=named(source.read), read_config=named(source.read_config),
                               vocabulary=dataclasses.replace(source.vocabulary, archive=name, made_from=made_from))


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
    """The prefix of the checkpoint at a path: the path itself, or the best, the latest or the only one in a directory.

    In a directory of several runs (--num_runs) it is that of the best run.

    The path of one of a checkpoint's files (model.ckpt-best.index) stands for the checkpoint.

    Raises:
      ValueError: there is no checkpoint, or there are several other ones.
    """
    path = _ENDINGS.sub("", path)
    if tf.io.gfile.exists(f"{path}.index"):
        prefixes = [path]
    elif not tf.io.gfile.isdir(path):
        prefixes = []
    else:
        chosen = best_or_latest(path) or checkpoint_of(path)
        others = [index[: -len(".index")] for index in sorted(tf.io.gfile.glob(os.path.join(path, "*.index")))]
        prefixes = [chosen] if chosen else others
    if not prefixes:
        where = "" if tf.io.gfile.exists(path) else ", which does not exist"
        raise ValueError(f"no checkpoint at {path}{where}: expected a directory with model.ckpt-*, the path of a "
                         "checkpoint, a Hugging Face folder, a TF-Hub module, a .tar.gz of one of them, "
                         f"or the name of a model that comes with the package ({', '.join(shipped_models())}). "
                         "docs/weights.md says where to download weights")
    if len(prefixes) > 1:
        raise ValueError(f"several checkpoints in {path}, choose one: {', '.join(map(os.path.basename, prefixes))}")
    return prefixes[0]
