"""Files: written so that a file under its final name is always a whole one, and read with errors that name them."""

from __future__ import annotations

import contextlib
import glob
import os
from typing import Iterator

from albert_tf.lazy import tensorflow as tf
from albert_tf.paths import is_remote, local_place
from albert_tf.temporary_files import temporary_file, temporary_folder

# A file in each folder that folder_written_whole wrote.
_MARK = ".written_by_albert_tf"


@contextlib.contextmanager
def written_whole(path: str) -> Iterator[str]:
    """Gives a temporary path beside `path`, and renames it to `path` when the block ends without an error.

    Works for local paths and for those that tf.io.gfile knows (gs://). There is an empty file at the temporary path.
    On an error it is removed and whatever was at `path` before stays as it was.
    """
    with temporary_file(path) as temporary:
        yield temporary
        tf.io.gfile.rename(temporary, path, overwrite=True)


@contextlib.contextmanager
def folder_written_whole(path: str) -> Iterator[str]:
    """Gives a temporary folder beside `path`, and renames it to `path` when the block ends without an error.

    For a remote path the folder is local and is copied. A folder that this function wrote before is replaced.

    Raises:
      ValueError: there is something else at `path`: a file, or a folder that is not empty.
    """
    path = path.rstrip("/")
    check_export(path)
    is_replaced = tf.io.gfile.exists(path)
    with temporary_folder(local_place(path)) as temporary:
        yield temporary
        write_text(os.path.join(temporary, _MARK), "")
        if is_replaced:
            tf.io.gfile.rmtree(path)
        if is_remote(path):  # an object store has no folders that could be renamed
            _copy_folder(temporary, path)
        else:
            tf.io.gfile.rename(temporary, path)


def check_export(*paths: str | None) -> None:
    """Checks that folder_written_whole may write folders: scripts call it before they work.

    Args:
      *paths: of the folders; None is left out.

    Raises:
      ValueError: there is a file at a path, or a folder that is not empty and not an earlier export.
    """
    for path in filter(None, paths):
        check_directory(os.path.dirname(path.rstrip("/")))
        if not tf.io.gfile.exists(path) or tf.io.gfile.exists(os.path.join(path, _MARK)):
            continue
        if not tf.io.gfile.isdir(path) or tf.io.gfile.listdir(path):
            raise ValueError(f"{path} exists and is not an earlier export: name another path, or remove it")


def check_name(name: str, what: str) -> None:
    """Checks that a name can be part of a file's name.

    Args:
      name: any text.
      what: what the name is of, for the error.

    Raises:
      ValueError: it is empty, or a path.
    """
    if name in ("", os.curdir, os.pardir) or any(mark in name for mark in "/\\\0"):
        raise ValueError(f"{what} must be a plain file name, without a folder. Received: {name!r}")


def write_text(path: str, text: str) -> None:
    """Writes `text` to `path` as UTF-8, whole or not at all."""
    with written_whole(path) as temporary:
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write(text)


def expand_globs(patterns: str) -> list[str]:
    """The files that a comma-separated list of paths and globs names, in the order given, each once.

    Raises:
      ValueError: a path is missing or a directory, or a glob matches no file (it is named).
    """
    found: dict[str, None] = {}
    for pattern in filter(None, (part.strip() for part in patterns.split(","))):
        if glob.has_magic(pattern) and not tf.io.gfile.exists(pattern):
            matches = [path for path in sorted(tf.io.gfile.glob(pattern)) if not tf.io.gfile.isdir(path)]
            if not matches:
                raise ValueError(f"no file matches {pattern}")
        else:
            check_is_file(pattern)
            matches = [pattern]
        found.update(dict.fromkeys(matches))
    if not found:
        raise ValueError(f"no file is named. Received: {patterns!r}")
    return list(found)


def check_is_file(path: str, kind: str = "file") -> None:
    """Raises ValueError where there is no file at the path.

    Args:
      path: local, or of another file system that tf.io.gfile knows.
      kind: what the file should be, for the error: "config file".
    """
    if not tf.io.gfile.exists(path):
        raise ValueError(f"no such {kind}: {path}")
    if tf.io.gfile.isdir(path):
        raise ValueError(f"{path} is a directory, and should be a {kind}")


def listed(paths: list[str]) -> str:
    """The first paths and the number of the others, for a message: "a.txt, b.txt, c.txt and 7 more"."""
    more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


def read_bytes(path: str, kind: str = "file") -> bytes:
    """The content of a file.

    Args:
      path, kind: see check_is_file.

    Raises:
      ValueError: there is no file at the path.
    """
    check_is_file(path, kind)
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def check_directory(path: str) -> None:
    """Raises ValueError where a directory cannot be made at a local path: it, or a part of it, is a file."""
    if is_remote(path):  # an object store makes no directories
        return
    while path and not tf.io.gfile.exists(path):
        path = os.path.dirname(path)
    if path and not tf.io.gfile.isdir(path):
        raise ValueError(f"{path} is a file, and should be a directory")


def decode_utf8(content: bytes, path: str, first_line: int = 1) -> str:
    """The text of a file's bytes, or of some lines of them.

    Args:
      content: the bytes.
      path, first_line: where they stand, for the error.

    Raises:
      ValueError: they are not UTF-8; file and line are named.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + content.count(b"\n", 0, error.start)
        raise ValueError(f"{path} line {line}: not UTF-8 ({error.reason})") from error


def _copy_folder(source: str, target: str) -> None:
    """Copies a local folder to a remote one.

    The mark is first: what a killed run leaves can be replaced. saved_model.pb is last: without it a folder is no
    SavedModel.
    """
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names]
    order = {_MARK: 0, "saved_model.pb": 2}
    for path in sorted(paths, key=lambda path: order.get(os.path.basename(path), 1)):
        copy = os.path.join(target, os.path.relpath(path, source))
        tf.io.gfile.makedirs(os.path.dirname(copy))
        tf.io.gfile.copy(path, copy, overwrite=True)
