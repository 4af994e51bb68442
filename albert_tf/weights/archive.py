"""Downloads archives of models (.tar.gz, .tgz, .tar) and unpacks them to a temporary folder, within a size limit.

pooch and Keras' get_file would replace the download alone: both write to local folders only, and an archive would be
in the cache before it is checked. get_file also has no timeout, and what a killed process has left counts as the file.

The data filter of tarfile keeps files within the folder. Links, which some versions of it let through, are refused.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import http.client
import os
import platform
import shutil
import tarfile
import tempfile
import urllib.parse
import urllib.request
import zlib
from typing import IO, Iterator, cast

import tensorflow as tf
from absl import logging

from albert_tf.utils.files import errors_naming_origin, version
from albert_tf.utils.outputs import folder_of_this_process, output

ENDINGS = (".tar.gz", ".tgz", ".tar")
_GZIP = b"\x1f\x8b"
# albert_xxlarge with its optimizer takes 2.7 GB.
_MAX_BYTES = 8 << 30
# tarfile keeps all headers in memory. One takes 512 bytes, and more with a long name.
_MAX_HEADER_BYTES = 16 << 20
_TIMEOUT = 60.0  # seconds of a download without any data


def unpacked(path: str) -> str:
    """Unpacks an archive to a temporary directory, which is removed when the process ends.

    Each version of the file is unpacked once. The directory of a killed process is removed when another process unpacks
    an archive.

    Returns:
      The directory of the model: the only directory in the archive if there is exactly one and no other file.

    Raises:
      ValueError: the archive is damaged, truncated or, unpacked, larger than 8 GB; the path of a member leads out of
        it; a member is neither a file nor a directory; or Python is older than 3.11.4. Then nothing stays unpacked.
    """
    return _unpacked(path, *version(path))


@functools.lru_cache(maxsize=None)
def _unpacked(path: str, length: int, mtime_nsec: int) -> str:
    directory = folder_of_this_process()
    try:
        with _one_clear_error(path):
            _read(path, directory)
    except ValueError:
        shutil.rmtree(directory)
        raise
    inside = os.listdir(directory)
    only = os.path.join(directory, inside[0]) if len(inside) == 1 else ""
    return only if os.path.isdir(only) else directory


@contextlib.contextmanager
def _one_clear_error(path: str) -> Iterator[None]:
    """Turns all errors of reading an archive into a ValueError with a message that begins with its path."""
    try:
        yield
    except OSError as error:
        where = f" to {tempfile.gettempdir()}" if error.errno else ""
        raise ValueError(f"{path} cannot be unpacked{where}: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError, zlib.error, tf.errors.OpError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from error


class _Content:
    """The decompressed content of an archive, as the file that tarfile reads under the limits."""

    def __init__(self, stream: IO[bytes]):
        self._stream, self.last = stream, b""  # what was read last
        self.may_read = _MAX_HEADER_BYTES  # besides the content of members

    def read(self, size: int) -> bytes:
        self.may_read -= size
        if self.may_read < 0:
            raise ValueError(f"it has headers of more than {_MAX_HEADER_BYTES:,} bytes, so it is not a model")
        self.last = self._stream.read(size)
        return self.last

    def seek(self, position: int) -> int:
        _check_size(position)
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()

    def check_end(self) -> None:
        """Reads to the end, where gzip has its checksum."""
        # tarfile takes a damaged header for the end of the archive. The real end is a block of zeros.
        if self.last != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("it has no end mark, so it was truncated or changed")
        while self._stream.read(1 << 20):
            _check_size(self.tell())


def _check_size(size: int) -> None:
    if size > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES:,} bytes: if you trust it, unpack it, and use the folder")


def _read(path: str, directory: str | None) -> None:
    """Reads an archive to its end, and unpacks it to a directory if one is given."""
    if not hasattr(tarfile, "data_filter"):
        raise ValueError(f"Python {platform.python_version()}, older than 3.11.4, cannot do it safely. Unpack it by "
                         "tar -xf, and give the folder")
    with tf.io.gfile.GFile(path, "rb") as file:
        compressed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        content = _Content(cast(IO[bytes], gzip.GzipFile(fileobj=file) if compressed else file))
        try:
            archive = tarfile.open(fileobj=cast(IO[bytes], content), mode="r:")
        except tarfile.ReadError as error:
            raise ValueError("it does not start like a tar archive, plain or compressed by gzip") from error
        for member in archive:
            if not (member.isfile() or member.isdir()):
                raise ValueError(f"the member {member.name[:80]} is neither a file nor a directory")
            tarfile.data_filter(member, directory or os.curdir)
            _check_size(member.offset_data + member.size)
            if directory and not os.path.basename(member.name).startswith("."):  # ._NAME in archives from a Mac
                content.may_read += member.size
                archive.extract(member, directory, set_attrs=False, filter="data")
        content.check_end()


def downloaded(url: str) -> str:
    """The local path of an archive, which is downloaded if it is not in the cache.

    The cache is the folder in the environment variable TFHUB_CACHE_DIR (as for tensorflow_hub), or tfhub_modules in the
    system's folder for temporary files. A damaged archive is not kept.
    """
    directory = os.environ.get("TFHUB_CACHE_DIR") or os.path.join(tempfile.gettempdir(), "tfhub_modules")
    path = os.path.join(directory, f"{hashlib.sha1(url.encode()).hexdigest()}.tar.gz")
    if not tf.io.gfile.exists(path):
        logging.info("downloading %s to %s", url, path)
        try:
            with output(path) as temporary:
                with urllib.request.urlopen(_archive_url(url), timeout=_TIMEOUT) as response, tf.io.gfile.GFile(
                        temporary, "wb") as file:
                    shutil.copyfileobj(response, file)
                with errors_naming_origin(url, temporary), _one_clear_error(temporary):
                    _read(temporary, None)
        except (OSError, http.client.HTTPException, tf.errors.OpError, ValueError) as error:
            raise ValueError(f"{url} cannot be downloaded: {error}") from error
    return path


def _archive_url(url: str) -> str:
    """The URL of the archive. The URL of a TF-Hub module leads to a web page, unless a format is added."""
    parts = urllib.parse.urlparse(url)
    if parts.path.endswith(ENDINGS):
        return url
    query = [*urllib.parse.parse_qsl(parts.query), ("tf-hub-format", "compressed")]
    return parts._replace(query=urllib.parse.urlencode(query)).geturl()
