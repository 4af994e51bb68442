"""Reads a JSON file with one large array element by element, so that only one SQuAD article is in memory."""

from __future__ import annotations

import codecs
import json
from typing import Any, Iterator

from albert_tf.utils.files import check_is_file
from albert_tf.utils.json_files import DECODER
from albert_tf.utils.lazy import tensorflow as tf

_BLOCK = 1 << 20


def stream_array(path: str, key: str) -> Iterator[tuple[str, Any]]:
    """The values of a JSON object, in the file's order. The value of `key` is read element by element.

    Args:
      path: a file with one JSON object.
      key: the key of the large array.

    Yields:
      (key, value) pairs. `key` has one pair per element.

    Raises:
      ValueError: the file is missing, is not UTF-8 or JSON, or is not a single object.
    """
    check_is_file(path)
    with tf.io.gfile.GFile(path, "rb") as file:
        text = _Text(path, file)
        text.expect("{")
        while not text.next_is("}"):
            name = text.value()
            text.expect(":")
            if name == key and text.peek() == "[":
                text.expect("[")
                while not text.next_is("]"):
                    yield key, text.value()
                    if text.peek() != "]":
                        text.expect(",")
            else:
                yield name, text.value()
            if text.peek() != "}":
                text.expect(",")
        text.expect("")


class _Text:
    """The unread text of the file. Only as much as the next value needs is in memory."""

    def __init__(self, path: str, file: tf.io.gfile.GFile):
        self._path, self._file = path, file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._front, self._position, self._at_end = "", 0, False

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._position < len(self._front) and self._front[self._position].isspace():
                self._position += 1
            if self._position < len(self._front) or not self._read(_BLOCK):
                return self._front[self._position : self._position + 1]

    def next_is(self, character: str) -> bool:
        """Whether `character` is next. If so, it is consumed."""
        is_next = self.peek() == character
        self._position += is_next
        return is_next

    def expect(self, character: str) -> None:
        """Consumes `character`, or raises if something else is next. "" is the end of the file."""
        if not self.next_is(character):
            wanted = repr(character) if character else "its end"
            raise ValueError(f"{self._path} is not a SQuAD file: expected {wanted}, got "
                             f"{self._front[self._position : self._position + 40]!r}")

    def value(self) -> Any:
        """Consumes and returns the next JSON value."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self._front, self._position)
                if end < len(self._front) or self._at_end:  # otherwise it may be the first part of a number
                    self._position = end
                    return value
                problem = None
            except json.JSONDecodeError as error:
                problem = error
            except RecursionError as error:
                raise ValueError(f"{self._path} is not a SQuAD file: lists or objects are nested too deeply") from error
            except ValueError as error:
                raise ValueError(f"{self._path}: {error}") from error
            # Reading twice as much each time keeps the total time of repeated decoding linear.
            if not self._read(max(_BLOCK, len(self._front) - self._position)) and problem is not None:
                raise ValueError(f"{self._path} is not JSON, or was truncated: {problem.msg}") from problem

    def _read(self, size: int) -> bool:
        """Reads the next block. Returns whether there was one."""
        block = self._file.read(size)
        self._at_end = not block
        try:
            more = self._decoder.decode(block, final=self._at_end)
        except UnicodeDecodeError as error:
            raise ValueError(f"{self._path} is not UTF-8: {error.reason}") from error
        self._front, self._position = self._front[self._position :] + more, 0
        return not self._at_end
