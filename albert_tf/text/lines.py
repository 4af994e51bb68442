"""Text files as the release reads them."""

from __future__ import annotations

from typing import Iterator

from albert_tf.lazy import tensorflow as tf


def read_lines(path: str) -> Iterator[str]:
    """The lines of a UTF-8 file, split at newline only and without any carriage return.

    Raises:
      ValueError: a line is not UTF-8; file and line are named.
    """
    with tf.io.gfile.GFile(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield line.decode("utf-8").replace("\r", "").rstrip("\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path} line {number}: not UTF-8 ({error.reason})") from error
