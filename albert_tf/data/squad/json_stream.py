"""A JSON file of one large array, read element by element: however many questions, one article is in memory."""

from __future__ import annotations

import codecs
import json
from typing import Any, Iterator

from albert_tf.files import check_is_file
from albert_tf.json_files import DECODER
from albert_tf.lazy import tensorflow as tf

_BLOCK = 1 << 20


def stream_array(path: str, key: str) -> Iterator[tuple[str, Any]]:
    """The values of a JSON object, in the file's order: those of `key` one by one, each other value whole.

    Args:
      path: a file that holds one JSON object.
      key: whose value is an array.

    Yields:
      (key, value) pairs; for `key` one for each element.

    Raises:
      ValueError: the file is missing, is not UTF-8 or JSON, or holds something else than one object.
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
    """The text that is still to be read, of which so much is in memory as the value at its front needs."""

    def __init__(self, path: str, file: tf.io.gfile.GFile):
        self._path, self._file = path, file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._front, self._position, self._at_end = "", 0, False

    def peek(self) -> str:
        """The next character that is no white space; "" at the end."""
        while True:
            while self._position < len(self._front) and self._front[self._position].isspace():
                self._position += 1
            if self._position < len(self._front) or not self._read(_BLOCK):
                return self._front[self._position : self._position + 1]

    def next_is(self, character: str) -> bool:
        """Whether that character is next; it is taken."""
        found = self.peek() == character
        self._position += found
        return found

    def expect(self, character: str) -> None:
        """Takes that character; "" is the end."""
        if not self.next_is(character):
            wanted = repr(character) if character else "its end"
            raise ValueError(f"{self._path} is no SQuAD file: expected {wanted} and got "
                             f"{self._front[self._position : self._position + 40]!r}")

    def value(self) -> Any:
        """The JSON value that comes next."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self._front, self._position)
                if end < len(self._front) or self._at_end:  # else it may be a number that goes on
                    self._position = end
                    return value
                problem = None
            except json.JSONDecodeError as error:
                problem = error
            except RecursionError as error:
                raise ValueError(f"{self._path} is no SQuAD file: lists or objects are nested too deeply") from error
            except ValueError as error:
                raise ValueError(f"{self._path}: {error}") from error
            # Twice as much each time: what is decoded again costs no more than what is read.
            if not self._read(max(_BLOCK, len(self._front) - self._position)) and problem is not None:
                raise ValueError(f"{self._path} is not JSON, or was cut: {problem.msg}") from problem

    def _read(self, size: int) -> bool:
        """Reads on; whether there was more."""
        block = self._file.read(size)
        self._at_end = not block
        try:
            more = self._decoder.decode(block, final=self._at_end)
        except UnicodeDecodeError as error:
            raise ValueError(f"{self._path} is not UTF-8: {error.reason}") from error
        self._front, self._position = self._front[self._position :] + more, 0
        return not self._at_end
