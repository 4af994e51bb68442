"""Archives of models (.tar.gz, .tgz, .tar): read to their end first, so that checksums count, then only what is needed.

A model's archive is read twice. The first time every member's header is checked and the stream is read to its end,
where gzip and xz keep their checksums. Nothing is unpacked before that. The second time only the files of a model are
unpacked, and weights only if their size is what their own header promises.
"""

from __future__ import annotations

import bz2
import contextlib
import fnmatch
import functools
import gzip
import lzma
import os
import pathlib
import shutil
import tarfile
import zlib
from typing import IO, Iterator, NamedTuple, cast

import tensorflow as tf

from albert_tf.interchange import safetensors_folder, tf1
from albert_tf.interchange.error_paths import errors_naming
from albert_tf.interchange.pickles import refuse_pickle_names
from albert_tf.interchange.vocabulary_files import VOCABULARIES
from albert_tf.temporary_files import folder_of_this_process

ENDINGS = (".tar.gz", ".tgz", ".tar")
# What compressed files begin with: the name of an archive does not tell how it was compressed.
_COMPRESSIONS = {b"\x1f\x8b": gzip.GzipFile, b"\xfd7zXZ\x00": lzma.LZMAFile, b"BZh": bz2.BZ2File}
_INDEX, _DATA, _SAFETENSORS = "*.index", "*.data-*", "*.safetensors"
_MODULE_FOLDERS = ("variables", "assets", "assets.extra")
# Files of a model's folder; those of a SavedModel's inner folders are needed by whatever name.
_NEEDED = (_INDEX, _DATA, _SAFETENSORS, safetensors_folder.INDEX, "*config.json", *VOCABULARIES, "saved_model.pb",
           "fingerprint.pb")
_WEIGHTS = (_DATA, _SAFETENSORS)
# Far above what a model's archive holds, and what a file of it that has no weights.
_MAX_MEMBERS = 100_000
_MAX_BYTES_WITHOUT_WEIGHTS = 256 << 20


def is_archive(path: str) -> bool:
    """Whether there is an archive at a path."""
    return path.endswith(ENDINGS) and tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)


@functools.lru_cache(maxsize=None)
def unpacked(path: str) -> str:
    """Unpacks the model of an archive to a temporary directory, which is removed when the process ends.

    What a killed process has left there is removed by the next one that unpacks.

    Args:
      path: of a .tar.gz, .tgz or .tar.

    Returns:
      The directory of the model: where its files are all in one directory of the archive, that one.

    Raises:
      ValueError: the archive is damaged or cut; a member is absolute, leads out by "..", or is neither a file nor a
        directory; weights are larger than their header promises. Nothing of the archive counts then.
    """
    directory = folder_of_this_process("albert_tf")
    with _one_clear_error(path), errors_naming(path, directory):
        with _opened(path) as (archive, stream):
            members, indexes, promised = _survey(archive, stream)
            needed = {name: member for name, member in members.items() if _is_needed(name)}
            if not any(_is_like(name, *_WEIGHTS) for name in needed):
                refuse_pickle_names(members)
            _check_sizes(needed, {**promised, **_promised_data(indexes, directory)}, directory)
            for name, member in sorted(needed.items(), key=lambda item: item[1].offset):
                _unpack(archive, member, os.path.join(directory, name))
    return _only_directory_in(directory)


def check_archive(path: str) -> None:
    """Reads an archive to its end.

    Raises:
      ValueError: it is damaged or cut, or has members that no model has; see `unpacked`.
    """
    with _one_clear_error(path), _opened(path) as (archive, stream):
        _survey(archive, stream)


def _only_directory_in(directory: str) -> str:
    """The directory that is all that a directory holds, as an archive often does; else the directory itself."""
    inside = os.listdir(directory)
    only = os.path.join(directory, inside[0]) if len(inside) == 1 else ""
    return only if os.path.isdir(only) else directory


class _Refused(ValueError):
    """What an archive is refused for; the message goes on after its path."""


@contextlib.contextmanager
def _one_clear_error(path: str) -> Iterator[None]:
    """Whatever is raised where an archive cannot be read becomes a ValueError that begins with its path."""
    try:
        yield
    except _Refused as error:
        raise ValueError(f"{path} {error}: nothing was unpacked") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be unpacked: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, tf.errors.OpError, ValueError) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from error


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[tarfile.TarFile, IO[bytes]]]:
    """An archive, and the stream that it is read from."""
    with _stream(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        yield archive, stream


@contextlib.contextmanager
def _stream(path: str) -> Iterator[IO[bytes]]:
    """The content of an archive without its compression, whatever that is."""
    with tf.io.gfile.GFile(path, "rb") as file:
        start = file.read(max(map(len, _COMPRESSIONS)))
        file.seek(0)
        decompress = next((kind for magic, kind in _COMPRESSIONS.items() if start.startswith(magic)), None)
        if decompress is None:
            yield file
        elif decompress is gzip.GzipFile:
            with gzip.GzipFile(fileobj=file) as stream:
                yield cast(IO[bytes], stream)
        else:
            with decompress(file) as stream:
                yield stream


class _Contents(NamedTuple):
    """What an archive holds.

    Args:
      members: its files, by their relative paths.
      indexes: the contents of checkpoints' indexes, which say how large their data is.
      promised: the sizes of safetensors files, by their own headers.
    """

    members: dict[str, tarfile.TarInfo]
    indexes: dict[str, bytes]
    promised: dict[str, int]


def _survey(archive: tarfile.TarFile, stream: IO[bytes]) -> _Contents:
    """Reads an archive to its end."""
    contents = _Contents({}, {}, {})
    for count, member in enumerate(archive, start=1):
        if count > _MAX_MEMBERS:
            raise _Refused(f"has more than {_MAX_MEMBERS:,} members, as no model has")
        name = _checked_name(member)
        if not member.isfile():
            continue
        contents.members[name] = member
        if _is_needed(name) and not _is_like(name, *_WEIGHTS) and member.size > _MAX_BYTES_WITHOUT_WEIGHTS:
            raise _Refused(f"has the member {name} of {member.size:,} bytes, more than the "
                           f"{_MAX_BYTES_WITHOUT_WEIGHTS:,} that a file without weights may have")
        if _is_needed(name) and _is_like(name, _INDEX):
            contents.indexes[name] = _content(archive, member).read()
        if _is_needed(name) and _is_like(name, _SAFETENSORS):
            contents.promised[name] = safetensors_folder.promised_bytes(name, _content(archive, member))
    # tarfile takes a damaged header for the end. The end is a block of zeros.
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("it has no end mark, so it was cut or changed")
    while stream.read(1 << 20):  # to the checksum
        pass
    return contents


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:  # _checked_name refuses such members
        raise _Refused(f"has the member {_shown(member.name)}, which is not a file")
    return content


def _checked_name(member: tarfile.TarInfo) -> str:
    name = pathlib.PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise _Refused(f"has the member {_shown(member.name)}, which leads out of it")
    if not (member.isfile() or member.isdir()) or member.sparse is not None or member.size < 0:
        raise _Refused(f"has the member {_shown(member.name)}, which is neither a file nor a directory")
    return str(name)


def _is_needed(name: str) -> bool:
    """Whether a file is a model's: in the archive itself or in a directory of it, under a name that is read there."""
    *folders, file_name = name.split("/")
    if folders and folders[-1] in _MODULE_FOLDERS:
        return len(folders) <= 2
    return len(folders) <= 1 and not file_name.startswith(".") and _is_like(file_name, *_NEEDED)


def _is_like(name: str, *patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(os.path.basename(name), pattern) for pattern in patterns)


def _check_sizes(members: dict[str, tarfile.TarInfo], promised: dict[str, int], directory: str) -> None:
    """Raises _Refused where weights are larger than promised, or all files larger than the free space."""
    for name, member in members.items():
        at_most = promised.get(name.rpartition(".data-")[0] or name, 0)
        if _is_like(name, *_WEIGHTS) and member.size > at_most:
            raise _Refused(f"has the member {name} of {member.size:,} bytes, and its index or header promises at most "
                           f"{at_most:,}")
    size, free = sum(member.size for member in members.values()), shutil.disk_usage(directory).free
    if size > free:
        raise _Refused(f"holds {_gigabytes(size)}, and {os.path.dirname(directory)} has {_gigabytes(free)} free "
                       "(TMPDIR names another directory)")


def _promised_data(indexes: dict[str, bytes], directory: str) -> dict[str, int]:
    """How large the data of each checkpoint can be, by its prefix in the archive; unpacks the indexes."""
    promised = {}
    for name, content in indexes.items():
        path = pathlib.Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        promised[name.removesuffix(".index")] = tf1.promised_bytes(str(path).removesuffix(".index"))
    return promised


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with _content(archive, member) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)


def _shown(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:80]}..."


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
