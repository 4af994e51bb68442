"""Manifests: x.manifest.json next to x.tfrecord lists what the file was made from and its size in bytes.

A manifest also marks a file as an output of this program. A file without a manifest is never overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Iterator, Mapping

from albert_tf.utils.files import check_directory, written_path
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.json_files import read_json_object
from albert_tf.utils.temporary_files import temporary_file
from albert_tf.utils.writing import write_text


def manifest_path(path: str) -> str:
    """x.tfrecord -> x.manifest.json; x.npy -> x.npy.manifest.json."""
    return path.removesuffix(".tfrecord") + ".manifest.json"


@contextlib.contextmanager
def written_with_manifest(path: str, made_from: dict) -> Iterator[tuple[str, dict]]:
    """Yields a temporary path next to `path`, as atomic_write does, and a dict for further entries of the manifest.

    File and manifest appear when the block ends without an error. An old manifest is removed before its file is
    replaced, so that a manifest never describes another file.

    Args:
      path, made_from: see write_manifest.

    Raises:
      ValueError: there is a file at `path` that is not an earlier output (see check_output).
    """
    check_output(path)
    more: dict[str, Any] = {}
    with temporary_file(written_path(path)) as temporary:
        yield temporary, more
        move_with_manifest(temporary, path, made_from, **more)


def move_with_manifest(source: str, path: str, made_from: dict, companions: Mapping[str, str] | None = None, **more
                       ) -> None:
    """Renames a complete file to `path` and writes its manifest. An old manifest and its companions are removed first.

    If `path` is a symbolic link, its target is replaced.

    Args:
      source: the file, on the file system of written_path(path).
      path, made_from, more: see write_manifest.
      companions: the paths of complete files, and the paths next to `path` to which they are renamed. The manifest
        lists them.
    """
    _remove_manifest(path)
    for companion_source, companion in (companions or {}).items():
        tf.io.gfile.rename(companion_source, companion, overwrite=True)
    tf.io.gfile.rename(source, written_path(path), overwrite=True)
    if companions:
        more["companions"] = [os.path.basename(companion) for companion in companions.values()]
    write_manifest(path, made_from, **more)


def _remove_manifest(path: str) -> None:
    """Removes the manifest of a file, if there is one, and the companions that it lists."""
    names = (read_manifest(path) or {}).get("companions", [])
    if tf.io.gfile.exists(manifest_path(path)):
        tf.io.gfile.remove(manifest_path(path))
    for name in names:
        companion = os.path.join(os.path.dirname(path), os.path.basename(name))
        if tf.io.gfile.exists(companion):
            tf.io.gfile.remove(companion)


def write_manifest(path: str, made_from: dict, **more) -> None:
    """Writes the manifest of a file.

    Args:
      path: path of the complete file.
      made_from: the files and flags that it depends on, as JSON values.
      **more: further entries, such as the count of records.
    """
    content = dict(more, size=tf.io.gfile.stat(path).length, made_from=made_from)
    write_text(manifest_path(path), json.dumps(content, indent=2, sort_keys=True))


def check_output(*paths: str) -> None:
    """Checks that files may be written: each path has no file, an empty file or an earlier output of this program.

    Args:
      *paths: the file that has the manifest, and other files that are written with it.

    Raises:
      ValueError: there is a directory or another file at a path.
    """
    manifest = manifest_path(paths[0])
    check_directory(os.path.dirname(paths[0]))
    for path in (manifest, *paths):
        if tf.io.gfile.isdir(path):
            raise ValueError(f"{path} is a directory, but must be a file")
        if tf.io.gfile.exists(path) and tf.io.gfile.stat(path).length and not read_manifest(paths[0]):
            raise ValueError(f"{path} exists, and no {manifest} says that it is an earlier output: choose another "
                             "path, or remove it")


def read_manifest(path: str) -> dict | None:
    """The manifest of a file; None if there is none or it is not a manifest."""
    try:
        content = read_json_object(manifest_path(path), "manifest")
    except ValueError:
        return None
    return content if {"size", "made_from"} <= content.keys() else None
