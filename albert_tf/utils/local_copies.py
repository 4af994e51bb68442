"""Local copies of remote files (gs://, ram://), for libraries that support only local files.

All other code reads and writes with tf.io.gfile, which supports both.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Iterator

from albert_tf.utils.files import written_whole
from albert_tf.utils.lazy import tensorflow as tf
from albert_tf.utils.paths import is_remote, local_place
from albert_tf.utils.temporary_files import folder_of_this_process, temporary_file


def local_copy(path: str) -> str:
    """The path of a local file with the content of the file at `path`: `path` itself if it is local, or a copy.

    One copy is made for each version of the file. It is removed when the process ends.
    """
    if not is_remote(path):
        return path
    return _copy_of(path, *version(path))


def version(path: str) -> tuple[int, int]:
    """The size and the time of change of a file, in bytes and in nanoseconds, which tell whether it was replaced."""
    if is_remote(path):
        remote = tf.io.gfile.stat(path)
        return remote.length, remote.mtime_nsec
    local = os.stat(path)  # TensorFlow's time of a local file has whole seconds only
    return local.st_size, local.st_mtime_ns


@contextlib.contextmanager
def written_locally(path: str) -> Iterator[str]:
    """Like written_whole, with a temporary path that is always local. It is copied to a remote `path` at the end."""
    if not is_remote(path):
        with written_whole(path) as temporary:
            yield temporary
        return
    with temporary_file(local_place(path)) as local:
        yield local
        with written_whole(path) as temporary:
            tf.io.gfile.copy(local, temporary, overwrite=True)


@functools.lru_cache(maxsize=None)
def _copy_of(path: str, length: int, mtime_nsec: int) -> str:
    local = os.path.join(folder_of_this_process("albert_tf"), os.path.basename(path))
    tf.io.gfile.copy(path, local)
    return local
