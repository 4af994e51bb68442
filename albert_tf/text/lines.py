"""Lines of text as the release reads them: UTF-8, split at newlines only. Carriage returns are removed."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import os
import sys
import zlib
from typing import Any, BinaryIO, Callable, Iterable, Iterator

from albert_tf.utils.files import check_is_file, decode_utf8
from albert_tf.utils.imports import tensorflow as tf

_DECOMPRESSORS: dict[str, Callable[[Any], BinaryIO]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),  # type: ignore[dict-item, return-value]
    ".bz2": bz2.BZ2File,  # type: ignore[dict-item]
}


def is_compressed(path: str) -> bool:
    """Whether a file is compressed, by the extension of its name: .gz or .bz2."""
    return os.path.splitext(path)[1] in _DECOMPRESSORS


def uncompressed_name(path: str) -> str:
    """The path of a file without the extension of its compression: a.conllu for a.conllu.gz and for a.conllu."""
    return os.path.splitext(path)[0] if is_compressed(path) else path


def read_lines(path: str, start: int = 0, stop: int | None = None) -> Iterator[str]:
    """The lines of a file, or the lines that begin in a range of its bytes.

    Consecutive ranges that cover a file give every line once.

    Args:
      path: the file. A file whose name ends in .gz or .bz2 is decompressed.
      start: the first byte of the range. It must be 0 for a compressed file.
      stop: one past the last byte of the range; None for the end of the file.

    Raises:
      ValueError: the file does not exist, a line is not UTF-8 (file and line are named), or a compressed file is
        damaged.
    """
    check_is_file(path)
    with _opened(path) as file, _naming_damage(path):
        if start:  # a line begins at `start` only if the byte before it is a newline
            file.seek(start - 1)
            file.readline()
            start = file.tell()
        yield from _decoded(_until(file, stop), path, lambda: _count_newlines(path, start))


def read_standard_input() -> Iterator[str]:
    """The lines of standard input, each as soon as it arrives.

    Raises:
      ValueError: a line is not UTF-8; the message has its number.
    """
    return _decoded(sys.stdin.buffer, "standard input", lambda: 0)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    with tf.io.gfile.GFile(path, "rb") as file:
        if is_compressed(path):
            with _DECOMPRESSORS[os.path.splitext(path)[1]](file) as decompressed:
                yield decompressed
        else:
            yield file


@contextlib.contextmanager
def _naming_damage(path: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, OSError) as error:
        if not is_compressed(path) or getattr(error, "errno", None):  # errors of the file system have a number
            raise
        raise ValueError(f"{path} is truncated, damaged or not compressed as its extension says: {error}") from error


def _until(file: BinaryIO, stop: int | None) -> Iterator[bytes]:
    """The lines that begin before `stop`.

    The position is read from the file, since tf.io.gfile removes carriage returns from the lines.
    """
    if stop is None:
        yield from file
        return
    while file.tell() < stop and (line := file.readline()):
        yield line


def _decoded(lines: Iterable[bytes], path: str, lines_before: Callable[[], int]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = decode_utf8(line, path, number + lines_before())  # raises the error that names file and line
        yield text.replace("\r", "").rstrip("\n")


def _count_newlines(path: str, stop: int) -> int:
    """Newlines among the first `stop` bytes of a file. They are counted only for an error message."""
    count = 0
    with tf.io.gfile.GFile(path, "rb") as file:
        for start in range(0, stop, 1 << 20):
            count += file.read(min(1 << 20, stop - start)).count(b"\n")
    return count
