"""Tells whether the files that a command reads have changed since it ran."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import tensorflow as tf

from albert_tf.data.feature_cache import fingerprint
from albert_tf.utils.remote import version

# Size in bytes and time of change in nanoseconds by path.
Versions = Mapping[str, "tuple[int, int]"]


def versions(command: Sequence[str]) -> Versions:
    """The versions of the existing files among the values of a command's flags.

    Args:
      command: arguments such as --name=PATH or --name=PATH,PATH.
    """
    paths = [path for argument in command for path in argument.partition("=")[2].split(",")]
    return {path: version(path) for path in paths if _is_file(path)}


def read_files(before: Versions) -> dict[str, dict[str, Any]]:
    """What `changed_file` needs, as JSON values by path.

    Args:
      before: the versions before the command ran. A file that has changed since is left out: the command wrote it.
    """
    return {path: dict(size=file[0], mtime_nsec=file[1], sha256=fingerprint(path))
            for path, file in before.items() if _is_file(path) and version(path) == file}


def changed_file(files: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The path of a file whose content has changed since `read_files` returned `files`; None if there is none.

    A file that was removed has not changed. Content is read only if size or time differ.
    """
    for path, file in files.items():
        if _is_file(path) and version(path) != (file["size"], file["mtime_nsec"]):
            if fingerprint(path) != file["sha256"]:
                return path
    return None


def _is_file(path: str) -> bool:
    try:
        return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)
    except tf.errors.OpError:  # a URL, or a text that is too long for a path
        return False
