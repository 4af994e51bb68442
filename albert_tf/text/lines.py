"""Text as the release reads it: UTF-8, split at newline only, and without any carriage return."""

from __future__ import annotations

import sys
from typing import Iterable, Iterator

from albert_tf.files import check_is_file, decode_utf8
from albert_tf.lazy import tensorflow as tf


def read_lines(path: str) -> Iterator[str]:
    """The lines of a file.

    Raises:
      ValueError: there is no such file, or a line is not UTF-8; file and line are named.
    """
    check_is_file(path)
    with tf.io.gfile.GFile(path, "rb") as file:
        yield from _decoded(file, path)


def read_standard_input() -> Iterator[str]:
    """The lines of standard input, each as soon as it is there.

    Raises:
      ValueError: a line is not UTF-8; its number is named.
    """
    return _decoded(sys.stdin.buffer, "standard input")


def _decoded(lines: Iterable[bytes], path: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        yield decode_utf8(line, path, number).replace("\r", "").rstrip("\n")
