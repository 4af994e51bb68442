"""Local and remote paths. tf.io.gfile supports both; this module is for code that supports only local paths."""

from __future__ import annotations

import os
import tempfile


def is_remote(path: str) -> bool:
    """Whether a path is on a file system that only tf.io.gfile supports: gs://, ram://."""
    return "://" in os.fspath(path)


def local_place(path: str) -> str:
    """The local path next to which temporary files for `path` are made: `path` itself if it is local."""
    return os.path.join(tempfile.gettempdir(), os.path.basename(path)) if is_remote(path) else path


def absolute(path: str) -> str:
    """A path that means the same in a process with another working directory."""
    return path if is_remote(path) else os.path.abspath(path)
