"""Temporary files and folders beside the outputs that they become. The next run removes what a killed run left.

A process locks its temporary files (flock). The lock ends with the process, however that ends: what can be locked has
no owner. A name tells the computer too, since some network file systems do not pass locks on to other computers; what
another computer left is removed after a day. Where there are no locks (remote paths, Windows), nothing is removed.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import hashlib
import os
import re
import secrets
import shutil
import socket
import tempfile
import time
from typing import Iterator

from albert_tf.lazy import tensorflow as tf
from albert_tf.paths import is_remote

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]  # Windows has no such module

# .NAME.PID-HOSTRANDOM.tmp, where HOST and RANDOM have 8 hexadecimal digits each.
_NAME = re.compile(r"\..+\.\d+-([0-9a-f]{8})[0-9a-f]{8}\.tmp")
_DAY = 24 * 60 * 60


@contextlib.contextmanager
def temporary_file(path: str) -> Iterator[str]:
    """Gives the path of an empty file beside `path`. When the block ends, it is removed unless it has been renamed."""
    with _temporary(path, is_folder=False) as temporary:
        yield temporary


@contextlib.contextmanager
def temporary_folder(path: str) -> Iterator[str]:
    """The same with a folder."""
    with _temporary(path, is_folder=True) as temporary:
        yield temporary


def folder_of_this_process(name: str) -> str:
    """An empty folder in the system's place for temporary files, which is removed when the process ends."""
    until_the_end = contextlib.ExitStack()
    atexit.register(until_the_end.close)
    folder = until_the_end.enter_context(temporary_folder(os.path.join(tempfile.gettempdir(), name)))
    os.chmod(folder, 0o700)  # for this user only, as everything there
    return folder


def temporary_path(path: str) -> str:
    """A new name beside `path`: processes in two containers can have the same pid."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.{os.getpid()}-{_host()}{secrets.token_hex(4)}.tmp")


@contextlib.contextmanager
def _temporary(path: str, is_folder: bool) -> Iterator[str]:
    tf.io.gfile.makedirs(os.path.dirname(path) or os.curdir)
    with contextlib.ExitStack() as stack:
        if is_remote(path) or fcntl is None:
            temporary = temporary_path(path)
            _create(temporary, is_folder)
        else:
            _remove_ownerless(os.path.dirname(path))
            temporary = _created_and_locked(path, is_folder, stack)
        try:
            yield temporary
        finally:
            if tf.io.gfile.exists(temporary):
                tf.io.gfile.rmtree(temporary) if is_folder else tf.io.gfile.remove(temporary)


def _created_and_locked(path: str, is_folder: bool, stack: contextlib.ExitStack) -> str:
    while True:
        temporary = temporary_path(path)
        _create(temporary, is_folder)
        with contextlib.suppress(FileNotFoundError):
            stack.enter_context(_locked(temporary, wait=True))
        if os.path.exists(temporary):  # else another process took it for ownerless before it was locked
            return temporary


def _create(temporary: str, is_folder: bool) -> None:
    if is_folder:
        tf.io.gfile.makedirs(temporary)
    else:
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write("")


def _remove_ownerless(directory: str) -> None:
    """Removes what killed runs left in a folder."""
    for path in glob.glob(os.path.join(glob.escape(directory), ".*.tmp")):
        name = _NAME.fullmatch(os.path.basename(path))
        if not name:
            continue
        with contextlib.suppress(OSError):  # its owner has just ended, or it is not ours to remove
            if name[1] != _host() and time.time() - os.stat(path).st_mtime < _DAY:
                continue
            with _locked(path, wait=False) as is_locked:
                if is_locked:
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


@contextlib.contextmanager
def _locked(path: str, wait: bool) -> Iterator[bool]:
    """Locks a file or folder. Gives whether that was possible: it is not where another process has the lock."""
    descriptor = os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_RDWR)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            is_locked = True
        except OSError:  # also where the file system has no locks
            is_locked = False
        yield is_locked
    finally:
        os.close(descriptor)


def _host() -> str:
    """Stands for this computer in names: 8 hexadecimal digits."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
