"""Unpacks archives of models (.tar.gz, .tgz, .tar) after they have been checked.

An archive is read twice. The first time, the header of every member is checked and the stream is read to its end, where
gzip and xz have their checksums. Nothing is unpacked before that. The second time, only the files of a model are
unpacked, and weights only if they are not larger than their own header declares.

A compressed stream has to be decompressed also where nothing is needed of it. So an archive is refused as soon as its
members are too large for the size of its file, before they are decompressed.

The data filter of tarfile does not replace these checks: it knows neither sizes nor checksums, unpacks links and the
absolute path of a member below the folder, and Python 3.9 has it since 3.9.17 only.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import lzma
import os
import pathlib
import shutil
import tarfile
import zlib
from typing import IO, Iterator, NamedTuple, cast

import tensorflow as tf

from albert_tf.utils.files import version
from albert_tf.utils.temporary_files import errors_naming_origin, folder_of_this_process
from albert_tf.weights.hugging_face import INDEX, MODULES, TOKENIZER_JSON, tensors
from albert_tf.weights.settings import SETTINGS
from albert_tf.weights.tf1 import checkpoint
from albert_tf.weights.vocabulary_files import VOCABULARIES

ENDINGS = (".tar.gz", ".tgz", ".tar")
_CHECKPOINT, _DATA, _SAFETENSORS = "*.index", "*.data-*", "*.safetensors"
_MODULE_FOLDERS = ("variables", "assets", "assets.extra")
# The folders of sentence-transformers for single steps: 0_Transformer, 1_Pooling.
_STEP_FOLDERS = "[0-9]_*"
# The names of files that are read from a model's folder. All files in a SavedModel's inner folders are read.
_NEEDED = (_CHECKPOINT, _DATA, _SAFETENSORS, INDEX, "*config*.json", *VOCABULARIES, TOKENIZER_JSON,
           SETTINGS, MODULES, "saved_model.pb", "fingerprint.pb")
_WEIGHTS = (_DATA, _SAFETENSORS)
# Limits far above the number of members of a model's archive, and the size of a file without weights.
_MAX_MEMBERS = 100_000
_MAX_BYTES_WITHOUT_WEIGHTS = 256 << 20
# Limits of the decompressed size: this many bytes, or a multiple of the archive's size. gzip makes weights smaller by a
# tenth and text by a factor of 3 to 10, but a file of zeros by a factor of 1,000.
_ALWAYS_ALLOWED_BYTES = 256 << 20
_MAX_COMPRESSION = 20
_MAX_HEADER_BYTES = 1 << 20  # tarfile reads the header of a long name into memory
_HEADERS_WITH_CONTENT = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE,
                         tarfile.SOLARIS_XHDTYPE)


def is_archive(path: str) -> bool:
    """Whether there is an archive at a path."""
    return path.endswith(ENDINGS) and tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)


def unpacked(path: str) -> str:
    """Unpacks the model of an archive to a temporary directory, which is removed when the process ends.

    Each version of the file is unpacked once. The directory of a killed process is removed when another process unpacks
    an archive.

    Args:
      path: path of a .tar.gz, .tgz or .tar file.

    Returns:
      The directory of the model: the only directory in the archive if there is exactly one and no other file.

    Raises:
      ValueError: the archive is damaged or truncated; the path of a member is absolute or has ".."; a member is neither
        a file nor a directory; weights are larger than their header declares; or the members are many times larger than
        the archive. Then nothing is unpacked.
    """
    return _unpacked(path, *version(path))


@functools.lru_cache(maxsize=None)
def _unpacked(path: str, length: int, mtime_nsec: int) -> str:
    directory = folder_of_this_process("albert_tf")
    with _one_clear_error(path), errors_naming_origin(path, directory):
        with _opened(path) as archive:
            members, indexes, declared = _survey(archive, length)
            needed = {name: member for name, member in members.items() if _is_needed(name)}
            if not any(_is_like(name, *_WEIGHTS) for name in needed):
                tensors.refuse_pickle_names(members)
            _check_sizes(needed, {**declared, **_declared_data(indexes, directory)}, directory)
            for name, member in sorted(needed.items(), key=lambda item: item[1].offset):
                _unpack(archive, member, os.path.join(directory, name))
    return _only_directory_in(directory)


def check_archive(path: str) -> None:
    """Reads an archive to its end.

    Raises:
      ValueError: it is damaged or truncated, or has members that no model has; see `unpacked`.
    """
    with _one_clear_error(path), _opened(path) as archive:
        _survey(archive, version(path)[0])


def _only_directory_in(directory: str) -> str:
    """The subdirectory of a directory if that is its only content, as in many archives; else the directory itself."""
    inside = os.listdir(directory)
    only = os.path.join(directory, inside[0]) if len(inside) == 1 else ""
    return only if os.path.isdir(only) else directory


class _Refused(ValueError):
    """The reason for rejecting an archive. The message continues the archive's path."""


@contextlib.contextmanager
def _one_clear_error(path: str) -> Iterator[None]:
    """Turns all errors of reading an archive into a ValueError whose message begins with its path."""
    try:
        yield
    except _Refused as error:
        raise ValueError(f"{path} {error}: nothing was unpacked") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be unpacked: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, tf.errors.OpError, ValueError,
            RecursionError) as error:
        names_a_member = str(error).startswith(f"{path}/")
        raise ValueError(str(error) if names_a_member else f"{path} cannot be unpacked: {error}") from error


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tarfile.TarFile]:
    """Yields an archive. Its `fileobj` is the stream of the decompressed content."""
    with tf.io.gfile.GFile(path, "rb") as file:
        try:
            archive = tarfile.open(fileobj=file, tarinfo=_Member)
        except tarfile.ReadError as error:  # its message has a line for each kind of compression
            raise ValueError("its start is not that of a tar archive, plain or compressed by gzip, bzip2 or xz"
                             ) from error
        with archive:
            yield archive


class _Contents(NamedTuple):
    """The content of an archive.

    Args:
      members: the files, by their relative paths.
      indexes: the contents of checkpoints' index files, which have the size of the data.
      declared: the sizes of safetensors files according to their headers.
    """

    members: dict[str, tarfile.TarInfo]
    indexes: dict[str, bytes]
    declared: dict[str, int]


class _Member(tarfile.TarInfo):
    """A member whose header is checked before tarfile reads what follows the header."""

    @classmethod
    def frombuf(cls, *arguments, **named):
        """The member of a header."""
        member = super().frombuf(*arguments, **named)
        if member.type in _HEADERS_WITH_CONTENT and member.size > _MAX_HEADER_BYTES:
            raise _Refused(f"has a header of {member.size:,} bytes, more than the {_MAX_HEADER_BYTES:,} of any model")
        if member.type == tarfile.GNUTYPE_SPARSE:
            raise _not_a_file(member)
        return member


def _survey(archive: tarfile.TarFile, length: int) -> _Contents:
    """Reads an archive, a file of `length` bytes, to its end."""
    stream = cast(IO[bytes], archive.fileobj)
    contents, most = _Contents({}, {}, {}), max(_ALWAYS_ALLOWED_BYTES, _MAX_COMPRESSION * length)
    for count, member in enumerate(archive, start=1):
        if count > _MAX_MEMBERS:
            raise _Refused(f"has more than {_MAX_MEMBERS:,} members, so it is not a model")
        name = _checked_name(member)
        if archive.offset > most:  # the end of the member, which is not decompressed yet
            raise _Refused(f"has the member {_shown(name)} of {member.size:,} bytes, with which it has more than the "
                           f"{most:,} bytes that a model in an archive of this size can have")
        if not member.isfile():
            continue
        contents.members[name] = member
        if _is_needed(name) and not _is_like(name, *_WEIGHTS) and member.size > _MAX_BYTES_WITHOUT_WEIGHTS:
            raise _Refused(f"has the member {name} of {member.size:,} bytes, more than the "
                           f"{_MAX_BYTES_WITHOUT_WEIGHTS:,} that a file without weights may have")
        if _is_needed(name) and _is_like(name, _CHECKPOINT):
            contents.indexes[name] = _content(archive, member).read()
        if _is_needed(name) and _is_like(name, _SAFETENSORS):
            contents.declared[name] = tensors.declared_bytes(name, _content(archive, member))
    # tarfile treats a damaged header as the end of the archive. The real end is a block of zeros.
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("it has no end mark, so it was truncated or changed")
    while stream.read(1 << 20):  # to the end, so that the checksum is verified
        if stream.tell() > most:
            raise _Refused(f"has more than {most:,} bytes, most of them after its end mark")
    return contents


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:  # _checked_name refuses such members
        raise _Refused(f"has the member {_shown(member.name)}, which is not a file")
    return content


def _checked_name(member: tarfile.TarInfo) -> str:
    name = pathlib.PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise _Refused(f"has the member {_shown(member.name)}, which is outside of it")
    if not (member.isfile() or member.isdir()) or member.sparse is not None or member.size < 0:
        raise _not_a_file(member)
    return str(name)


def _not_a_file(member: tarfile.TarInfo) -> _Refused:
    return _Refused(f"has the member {_shown(member.name)}, which is neither a file nor a directory")


def _is_needed(name: str) -> bool:
    """Whether a file belongs to a model: its name is one that is read, at the top or in a directory of the archive.

    A folder of sentence-transformers for a step, such as 1_Pooling, counts as the directory that it is in.
    """
    *folders, file_name = name.split("/")
    if folders and fnmatch.fnmatchcase(folders[-1], _STEP_FOLDERS):
        folders.pop()
    if folders and folders[-1] in _MODULE_FOLDERS:
        return len(folders) <= 2
    return len(folders) <= 1 and not file_name.startswith(".") and _is_like(file_name, *_NEEDED)


def _is_like(name: str, *patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(os.path.basename(name), pattern) for pattern in patterns)


def _check_sizes(members: dict[str, tarfile.TarInfo], declared: dict[str, int], directory: str) -> None:
    """Raises _Refused if weights are larger than declared, or if all files are larger than the free disk space."""
    for name, member in members.items():
        at_most = declared.get(name.rpartition(".data-")[0] or name, 0)
        if _is_like(name, *_WEIGHTS) and member.size > at_most:
            raise _Refused(f"has the member {name} of {member.size:,} bytes, but its index or header declares at most "
                           f"{at_most:,}")
    size, free = sum(member.size for member in members.values()), shutil.disk_usage(directory).free
    if size > free:
        raise _Refused(f"has {_gigabytes(size)}, but {os.path.dirname(directory)} has only {_gigabytes(free)} free "
                       "(set TMPDIR to another directory)")


def _declared_data(indexes: dict[str, bytes], directory: str) -> dict[str, int]:
    """The largest size of each checkpoint's data, by its prefix in the archive. Unpacks the index files."""
    declared = {}
    for name, content in indexes.items():
        path = pathlib.Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        declared[name.removesuffix(".index")] = checkpoint.declared_bytes(str(path).removesuffix(".index"))
    return declared


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with _content(archive, member) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)


def _shown(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:80]}..."


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
