"""Writing files so that a file under its final name is always a whole one."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
from typing import Iterator

from albert_tf.lazy import tensorflow as tf


@contextlib.contextmanager
def written_whole(path: str) -> Iterator[str]:
    """Gives a temporary path beside `path`, and renames it to `path` when the block ends without an error.

    Works for local paths and for those that tf.io.gfile knows (gs://). On an error the temporary file is
    removed and whatever was at `path` before stays as it was.
    """
    directory = os.path.dirname(path)
    if directory:
        tf.io.gfile.makedirs(directory)
    temporary = temporary_path(path)
    try:
        yield temporary
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)
        raise


@contextlib.contextmanager
def folder_written_whole(path: str) -> Iterator[str]:
    """Gives a temporary folder beside `path`, and renames it to `path` when the block ends without an error.

    A SavedModel at `path` is replaced.

    Raises:
      ValueError: there is something else at `path`: a file, or a folder that is not empty.
    """
    path = path.rstrip("/")
    is_replaced = tf.io.gfile.exists(path)
    if is_replaced and not tf.io.gfile.exists(os.path.join(path, "saved_model.pb")):
        if not tf.io.gfile.isdir(path) or tf.io.gfile.listdir(path):
            raise ValueError(f"{path} exists and is no SavedModel: name another place, or remove it")
    temporary = temporary_path(path)
    try:
        tf.io.gfile.makedirs(temporary)
        yield temporary
        if is_replaced:
            tf.io.gfile.rmtree(path)
        tf.io.gfile.rename(temporary, path)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        raise


def temporary_path(path: str) -> str:
    """A new name beside `path`, .NAME.PID-RANDOM.tmp: processes in two containers can have the same pid."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def write_text(path: str, text: str) -> None:
    """Writes `text` to `path` as UTF-8, whole or not at all."""
    with written_whole(path) as temporary:
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write(text)


def expand_globs(patterns: str) -> list[str]:
    """The files that a comma-separated list of paths and globs names, in the order given, each once.

    Raises:
      ValueError: a pattern matches no file (the pattern is named).
    """
    found: dict[str, None] = {}
    for pattern in filter(None, (part.strip() for part in patterns.split(","))):
        is_plain = not glob.has_magic(pattern)
        matches = [pattern] if is_plain and tf.io.gfile.exists(pattern) else sorted(tf.io.gfile.glob(pattern))
        if not matches:
            raise ValueError(f"no such file: {pattern}" if is_plain else f"no file matches {pattern}")
        found.update(dict.fromkeys(matches))
    return list(found)
