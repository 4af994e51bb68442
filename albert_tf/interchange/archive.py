"""Unpacking a .tar.gz of a model: member by member, and nothing outside the directory that it is unpacked to."""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import shutil
import tarfile
import tempfile
import zlib

import tensorflow as tf

_ENDINGS = (".tar.gz", ".tgz", ".tar")


def is_archive(path: str) -> bool:
    return path.endswith(_ENDINGS) and tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)


@functools.lru_cache(maxsize=None)
def unpacked(path: str) -> str:
    """Unpacks an archive to a temporary directory, which is removed when the process ends.

    Args:
      path: of a .tar.gz, .tgz or .tar.

    Returns:
      The directory of the model: where the archive holds one directory and nothing else, that one.

    Raises:
      ValueError: it cannot be read to its end, or a member is absolute, leads out by "..", or is neither a file nor a
        directory. Nothing is unpacked then.
    """
    directory = tempfile.mkdtemp(prefix="albert_tf_")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    try:
        with tf.io.gfile.GFile(path, "rb") as file, tarfile.open(fileobj=file) as archive:
            members = archive.getmembers()
            for member in members:
                _check(path, member)
            _check_space(path, members, directory)
            for member in members:
                _unpack(archive, member, directory)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from error
    return only_directory_in(directory)


def only_directory_in(directory: str) -> str:
    """The directory that is all that a directory holds, as an archive often does; else the directory itself."""
    inside = os.listdir(directory)
    only = os.path.join(directory, inside[0]) if len(inside) == 1 else ""
    return only if os.path.isdir(only) else directory


def _check(path: str, member: tarfile.TarInfo) -> None:
    name = pathlib.PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"{path} has the member {member.name}, which leads out of it: nothing was unpacked")
    if not (member.isfile() or member.isdir()):
        raise ValueError(f"{path} has the member {member.name}, which is neither a file nor a directory: "
                         "nothing was unpacked")


def _check_space(path: str, members: list[tarfile.TarInfo], directory: str) -> None:
    wanted, free = sum(member.size for member in members), shutil.disk_usage(directory).free
    if wanted > free:
        raise ValueError(f"{path} holds {wanted / 1e9:.1f} GB, and {directory} has {free / 1e9:.1f} GB free: nothing "
                         "was unpacked; TMPDIR names another place")


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, directory: str) -> None:
    target = os.path.join(directory, *pathlib.PurePosixPath(member.name).parts)
    if member.isdir():
        os.makedirs(target, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with archive.extractfile(member) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
