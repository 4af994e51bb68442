"""Features as cached records: made once, and made anew when anything that they depend on has changed.

    made_from = dict(task="squad", train_file=fingerprint(path), **tokenizer_key(tokenizer), doc_stride=128)
    path = cache_path(cached_dir, "squad_train", made_from, schema)
    table = cached_table(path, made_from, schema, lambda: convert_examples_to_features(...))

The manifest beside a file says what it was made from. A file without one, as the release writes it, is taken as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import Any, Callable, Iterable, Iterator, Mapping

import tensorflow as tf
from absl import logging

from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.data.records import CountingWriter, check_records, record_writer
from albert_tf.files import check_name
from albert_tf.text.tokenization import FullTokenizer

# Goes up whenever the same files and flags give other features.
_VERSION = 1
_BLOCK = 1 << 22


def cache_path(directory: str, name: str, made_from: dict, schema: FeatureSchema) -> str:
    """Where the records of a split are kept: a name of its own for all that they depend on.

    Args:
      directory: --cached_dir.
      name: what a person reads, as "sst-2_train".
      made_from: what the features depend on, JSON values.
      schema: what they hold.

    Raises:
      ValueError: the name is a path.
    """
    check_name(name, "the name of a task")
    key = digest(json.dumps(_all_made_from(made_from, schema), sort_keys=True).encode())
    return os.path.join(directory, f"{name}_{key[:12]}.tfrecord")


def cached_table(
    path: str, made_from: dict, schema: FeatureSchema, make: Callable[[], Iterable[Mapping[str, Any]]]
) -> FeatureTable:
    """The features at a path; they are made first where they are not there, damaged, or made from something else.

    Args:
      path: of cache_path, or of the user's choice (--train_feature_file).
      made_from: what the features depend on, JSON values.
      schema: what they hold.
      make: gives the features, as FeatureSchema.serialize takes them.

    Raises:
      ValueError: there are no features, or a file without a manifest does not fit the schema.
    """
    if not is_current(path, made_from, schema):
        with cache_writer(path, made_from, schema) as writer:
            for features in make():
                writer.write(schema.serialize(features))
    return read_table(path, schema)


@contextlib.contextmanager
def cache_writer(path: str, made_from: dict, schema: FeatureSchema) -> Iterator[CountingWriter]:
    """Gives a writer of the records of a cache, see record_writer; the arguments are those of cached_table."""
    with record_writer(path, _all_made_from(made_from, schema)) as writer:
        yield writer
    logging.info("%s: %s records made", path, f"{writer.count:,}")


def read_table(path: str, schema: FeatureSchema) -> FeatureTable:
    """The features at a path.

    Raises:
      ValueError: there are none, or they do not fit the schema.
    """
    return FeatureTable.from_records(check_records([path])[0], schema)


def is_current(path: str, made_from: dict, schema: FeatureSchema) -> bool:
    """Whether there are whole records at a path that were made from the same; those without a manifest are taken."""
    if not tf.io.gfile.exists(path):
        return False
    try:
        file = check_records([path])[0]
    except ValueError as error:
        logging.warning("%s", error)
        return False
    if file.count is None:
        return True
    wanted = _all_made_from(made_from, schema)
    changed = sorted(key for key in {*wanted, *file.made_from} if wanted.get(key) != file.made_from.get(key))
    if changed:
        logging.info("%s was made with another %s: it is made anew", path, ", ".join(changed))
    return not changed


def fingerprint(path: str) -> str:
    """A digest of a file's content.

    Raises:
      ValueError: there is no such file.
    """
    if not tf.io.gfile.exists(path):
        raise ValueError(f"no such file: {path}")
    found = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def digest(content: bytes) -> str:
    """SHA-256, for made_from."""
    return hashlib.sha256(content).hexdigest()


def tokenizer_key(tokenizer: FullTokenizer) -> dict:
    """What features depend on by their tokenizer, for made_from."""
    model = tokenizer.sp_model
    vocabulary = model.serialized_model_proto() if model else "\n".join(tokenizer.vocab).encode()
    return dict(vocabulary=digest(vocabulary), do_lower_case=tokenizer.do_lower_case)


def _all_made_from(made_from: dict, schema: FeatureSchema) -> dict:
    features = sorted(schema.record_features())
    return dict(made_from, max_seq_length=schema.max_seq_length, features=features, version=_VERSION)
