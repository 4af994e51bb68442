"""Local and remote paths. tf.io.gfile reads and writes both; what knows only local ones asks here."""

from __future__ import annotations

import os
import tempfile


def is_remote(path: str) -> bool:
    """Whether a path is of a file system that only tf.io.gfile knows: gs://, ram://."""
    return "://" in path


def local_place(path: str) -> str:
    """A path beside which there is local space for temporary files: the path itself if it is local."""
    return os.path.join(tempfile.gettempdir(), os.path.basename(path)) if is_remote(path) else path


def absolute(path: str) -> str:
    """A path that means the same in a process with another working directory."""
    return path if is_remote(path) else os.path.abspath(path)
