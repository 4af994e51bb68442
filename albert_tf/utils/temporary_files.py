"""Temporary files and folders next to the outputs that they become. Those that a killed run left are removed later.

A process locks its temporary files (flock). The lock ends with the process, so a file that another process can lock is
abandoned, and is removed. Some network file systems do not share locks between computers. So names include a hash of
the computer's name, and abandoned files of another computer are removed after a day. On remote paths and on Windows,
which have no locks, nothing is removed.

An error of writing (a full disk, a folder that may not be written) names the output instead of its temporary file,
which users do not know and which no longer exists when they read the message.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
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

from albert_tf.utils.files import is_remote, make_directory, version
from albert_tf.utils.imports import tensorflow as tf

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]  # Windows has no such module

# .NAME.PID-HOSTRANDOM.tmp, where HOST and RANDOM have 8 hexadecimal digits each.
_NAME = re.compile(r"\..+\.(?P<pid>\d+)-(?P<host>[0-9a-f]{8})[0-9a-f]{8}\.tmp")
_DAY = 24 * 60 * 60
# Errors of writing. Python's own have no file name if they come from a file that is open already.
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextlib.contextmanager
def temporary_file(path: str) -> Iterator[str]:
    """Yields the path of an empty file next to `path`, which is removed when the block ends unless it was renamed.

    Raises:
      OSError: an error of writing in the block. Its message names `path`.
    """
    with _errors_naming(path, path), _temporary(path, is_folder=False) as temporary:
        yield temporary


@contextlib.contextmanager
def temporary_folder(path: str, output: str | None = None) -> Iterator[str]:
    """The same as temporary_file, for a folder.

    Args:
      path: path next to which the folder is made.
      output: path that errors name, if the folder does not become `path` but is for the files of other outputs.
    """
    with _errors_naming(path, output or path), _temporary(path, is_folder=True) as temporary:
        yield temporary


@contextlib.contextmanager
def locked_directory(path: str) -> Iterator[None]:
    """Keeps other processes that use this function out of the block. Without locks (see above) it does nothing."""
    with contextlib.ExitStack() as stack:
        if not is_remote(path) and fcntl is not None:
            stack.enter_context(_locked(path or os.curdir, wait=True))
        yield


@contextlib.contextmanager
def used_alone(directory: str, use: str) -> Iterator[None]:
    """Refuses a second use of a folder while the block of the first one runs.

    The block locks a temporary file in the folder, so a killed process does not keep the folder in use. Without locks
    (see above) nothing is refused.

    Args:
      directory: path of the folder, which is made if it does not exist.
      use: name of the use, for the error message: "training".

    Raises:
      ValueError: the folder has this use already, by another process or this one.
    """
    path = os.path.join(directory, use)
    with contextlib.ExitStack() as stack:
        if not is_remote(directory) and fcntl is not None:
            with _errors_naming(path, directory):
                make_directory(directory)
                with locked_directory(directory):
                    _check_unused(directory, use)
                    stack.enter_context(_temporary(path, is_folder=False))
        yield


def folder_of_this_process(name: str) -> str:
    """An empty folder in the system's folder for temporary files. It is removed when the process ends."""
    until_the_end = contextlib.ExitStack()
    atexit.register(until_the_end.close)
    directory = tempfile.gettempdir()
    folder = until_the_end.enter_context(temporary_folder(os.path.join(directory, name), output=directory))
    os.chmod(folder, 0o700)  # for this user only, since other users can read the system's folder
    return folder


def local_copy(path: str) -> str:
    """The path of a local file with the content of the file at `path`: `path` itself if it is local, or a copy.

    It is for libraries that read only local files. One copy is made for each version of a remote file, and is removed
    when the process ends.
    """
    return _copy_of(path, *version(path)) if is_remote(path) else path


@functools.lru_cache(maxsize=None)
def _copy_of(path: str, length: int, mtime_nsec: int) -> str:
    local = os.path.join(folder_of_this_process("albert_tf"), os.path.basename(path))
    tf.io.gfile.copy(path, local)
    return local


@contextlib.contextmanager
def errors_naming_origin(path: str, directory: str) -> Iterator[None]:
    """Makes ValueErrors name `path`, such as that of an archive, instead of the directory to which it was unpacked."""
    try:
        yield
    except ValueError as error:
        error.args = tuple(argument.replace(directory, path) if isinstance(argument, str) else argument
                           for argument in error.args)
        raise


def temporary_path(path: str) -> str:
    """A new name next to `path`. It has a random part, since processes in two containers can have the same pid."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.{os.getpid()}-{_host()}{secrets.token_hex(4)}.tmp")


@contextlib.contextmanager
def _temporary(path: str, is_folder: bool) -> Iterator[str]:
    make_directory(os.path.dirname(path))
    with contextlib.ExitStack() as stack:
        if is_remote(path) or fcntl is None:
            temporary = temporary_path(path)
            _create(temporary, is_folder)
        else:
            _remove_abandoned(os.path.dirname(path))
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
        if os.path.exists(temporary):  # otherwise another process has removed it before it was locked
            return temporary


def _create(temporary: str, is_folder: bool) -> None:
    if is_folder:
        make_directory(temporary)
    elif is_remote(temporary):
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write("")
    else:
        open(temporary, "w").close()


@contextlib.contextmanager
def _errors_naming(path: str, output: str) -> Iterator[None]:
    """Makes errors name `output` instead of a temporary file or folder for `path`, or a file in that folder."""
    directory, name = os.path.split(path)
    start = re.escape(os.path.join(directory, f".{name}."))
    temporary = re.compile(start + r"\d+-[0-9a-f]{16}\.tmp(/[^\s;:'\"]*)?")

    def named(text):
        return temporary.sub(lambda _: output, text) if isinstance(text, str) else text

    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _CANNOT_WRITE:
            raise OSError(error.errno, error.strerror, output) from error
        if named(error.filename) != error.filename:
            raise OSError(error.errno, error.strerror, named(error.filename)) from error
        if error.errno is None:
            error.args = tuple(map(named, error.args))
        raise
    except tf.errors.OpError as error:
        if not temporary.search(error.message):
            raise
        raise OSError(named(error.message).replace(f"{output}; ", f"{output}: ")) from error
    except ValueError as error:
        error.args = tuple(map(named, error.args))
        raise


def _check_unused(directory: str, use: str) -> None:
    for path in glob.glob(os.path.join(glob.escape(directory), f".{use}.*.tmp")):
        name = _NAME.fullmatch(os.path.basename(path))
        if name and _is_locked(path):
            raise ValueError(f"{directory} is in use by another {use} (process {name['pid']}): wait until it has "
                             "ended, or choose another --output_dir")


def _is_locked(path: str) -> bool:
    """Whether a process has locked a file."""
    with contextlib.suppress(OSError):  # the file was removed, or the file system has no locks
        # Another user's file is opened for reading. On NFS a lock needs a file that is open for writing.
        with open(path, "r+" if os.access(path, os.W_OK) else "r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def _remove_abandoned(directory: str) -> None:
    """Removes the temporary files that killed runs left in a folder."""
    for path in glob.glob(os.path.join(glob.escape(directory), ".*.tmp")):
        name = _NAME.fullmatch(os.path.basename(path))
        if not name:
            continue
        with contextlib.suppress(OSError):  # its process has just ended, or this user may not remove it
            if name["host"] != _host() and time.time() - os.stat(path).st_mtime < _DAY:
                continue
            with _locked(path, wait=False) as is_locked:
                if is_locked:
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


@contextlib.contextmanager
def _locked(path: str, wait: bool) -> Iterator[bool]:
    """Locks a file or folder. Yields True; or False if another process has the lock or the file system has no locks."""
    descriptor = os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_RDWR)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            is_locked = True
        except OSError:  # also raised if the file system has no locks
            is_locked = False
        yield is_locked
    finally:
        os.close(descriptor)


def _host() -> str:
    """A hash of this computer's name, 8 hexadecimal digits."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
