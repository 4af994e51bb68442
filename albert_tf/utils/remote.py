"""Local and remote paths. tf.io.gfile supports both; this module is for what differs between them."""

from __future__ import annotations

import os
import tempfile

from albert_tf.utils.lazy import tensorflow as tf


def is_remote(path: str) -> bool:
    """Whether a path is on a file system that only tf.io.gfile supports: gs://, ram://."""
    return "://" in os.fspath(path)


def local_place(path: str) -> str:
    """The local path next to which temporary files for `path` are made: `path` itself if it is local."""
    return os.path.join(tempfile.gettempdir(), os.path.basename(path)) if is_remote(path) else path


def absolute(path: str) -> str:
    """A path that means the same in a process with another working directory."""
    return path if is_remote(path) else os.path.abspath(path)


def written_path(path: str) -> str:
    """The path of the file or folder that an output at `path` replaces: of a symbolic link, its target."""
    return os.path.realpath(path) if not is_remote(path) and os.path.islink(path) else path


def make_directory(path: str) -> None:
    """Makes a directory and its parents, unless they exist. Local ones have the permissions that the umask leaves."""
    if is_remote(path):
        tf.io.gfile.makedirs(path)
    else:  # tf.io.gfile would make directories in which only their owner can write
        os.makedirs(path or os.curdir, exist_ok=True)


def version(path: str) -> tuple[int, int]:
    """The size and the time of change of a file, in bytes and in nanoseconds, which tell whether it was replaced."""
    if is_remote(path):
        remote = tf.io.gfile.stat(path)
        return remote.length, remote.mtime_nsec
    local = os.stat(path)  # TensorFlow's time of a local file has whole seconds only
    return local.st_size, local.st_mtime_ns
