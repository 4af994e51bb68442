"""Caches features as records. They are made once, and made again when anything that they depend on has changed.

For example::

    cache = FeatureCache(tokenizer, cached_dir)
    made_from = dict(train_file=fingerprint(path), doc_stride=128)
    table = cache.table("squad_train", made_from, schema, lambda: convert_examples_to_features(...))

The manifest next to a file says what the file was made from. A file without a manifest, such as one from the release,
is used without this check.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from typing import Any, Callable, Iterable, Mapping

import tensorflow as tf
from absl import logging

from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.data.records import check_records, record_writer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import check_name
from albert_tf.utils.progress import count_of

# Increase this number when a change of the code makes other features from the same files and flags.
_VERSION = 1
_BLOCK = 1 << 22
# A function that returns the features of each example, as arguments of FeatureSchema.serialize.
Convert = Callable[[], Iterable[Mapping[str, Any]]]


@dataclasses.dataclass(frozen=True)
class FeatureCache:
    """Makes the feature tables of every task, and caches them as records.

    Args:
      tokenizer: the model's tokenizer, which the features depend on.
      directory: folder of the records (--cached_dir).
    """

    tokenizer: FullTokenizer
    directory: str

    def table(
        self, name: str, made_from: Mapping[str, Any], schema: FeatureSchema, convert: Convert, path: str | None = None
    ) -> FeatureTable:
        """The features of a split. They are converted if the cache does not have them.

        Args:
          name: readable part of the file name, such as "sst-2_train".
          made_from: everything that the features depend on besides tokenizer and schema, as JSON values.
          schema: the features of a record.
          convert: converts the examples to features.
          path: path of the records, such as --train_feature_file. Default: a file in the cache's folder.

        Raises:
          ValueError: the name is a path, there are no features, or a file without a manifest does not match the schema.
        """
        made_from = dict(made_from, **tokenizer_key(self.tokenizer))
        return cached_table(path or cache_path(self.directory, name, made_from, schema), made_from, schema, convert)


def cache_path(directory: str, name: str, made_from: dict, schema: FeatureSchema) -> str:
    """The path of a split's cached records. It has a hash of everything that the features depend on."""
    check_name(name, "the name of a task")
    key = digest(json.dumps(_all_made_from(made_from, schema), sort_keys=True).encode())
    return os.path.join(directory, f"{name}_{key[:12]}.tfrecord")


def cached_table(path: str, made_from: dict, schema: FeatureSchema, convert: Convert) -> FeatureTable:
    """The features at a path. They are made first if the file is missing, damaged or made from something else.

    The other arguments are those of FeatureCache.table.
    """
    made_from = _all_made_from(made_from, schema)
    if not _is_current(path, made_from):
        with record_writer(path, made_from) as writer:
            for features in convert():
                writer.write(schema.serialize(features))
        logging.info("%s: %s made", path, count_of(writer.count, "record"))
    return FeatureTable.from_records(check_records([path])[0], schema)


def _is_current(path: str, made_from: dict) -> bool:
    """Whether the file at a path is complete and was made from `made_from`. A file without a manifest is accepted."""
    if not tf.io.gfile.exists(path):
        return False
    try:
        file = check_records([path])[0]
    except ValueError as error:
        logging.warning("%s", error)
        return False
    if file.count is None:
        return True
    changed = sorted(key for key in {*made_from, *file.made_from} if made_from.get(key) != file.made_from.get(key))
    if changed:
        logging.info("%s was made with another %s: making it again", path, ", ".join(changed))
    return not changed


def fingerprint(path: str) -> str:
    """The SHA-256 digest of a file's content, for made_from.

    Raises:
      ValueError: the file does not exist.
    """
    if not tf.io.gfile.exists(path):
        raise ValueError(f"no such file: {path}")
    sha256 = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
    return sha256.hexdigest()


def digest(content: bytes) -> str:
    """The SHA-256 digest of bytes, for made_from."""
    return hashlib.sha256(content).hexdigest()


def tokenizer_key(tokenizer: FullTokenizer) -> dict:
    """The properties of a tokenizer that features depend on, for made_from."""
    model, pieces = tokenizer.sp_model, list(tokenizer.vocab)
    if model:
        # Not of the file, since one with the same pieces can be made of Hugging Face's tokenizer.json.
        pieces = [f"{model.id_to_piece(i)} {model.get_score(i)!r} {model.is_control(i)}" for i in range(len(pieces))]
    keep_accents = tokenizer.keep_accents or not (model or tokenizer.do_lower_case)
    return dict(vocabulary_sha256=digest("\n".join(pieces).encode()), do_lower_case=tokenizer.do_lower_case,
                keep_accents=keep_accents)


def _all_made_from(made_from: dict, schema: FeatureSchema) -> dict:
    features = sorted(schema.record_features())
    return dict(made_from, max_seq_length=schema.max_seq_length, features=features, version=_VERSION)
