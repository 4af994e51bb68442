"""Reads JSON from a user or another program. Every error in it is a ValueError that names the file, and the line.

Python's own reader raises RecursionError for "[[[[...", and an error without a line for numbers of thousands of digits.
It accepts half of a surrogate pair ("\\ud83d" alone) as text, which cannot be written to a file or a tensor.
"""

from __future__ import annotations

import json
import re
from typing import Any

from albert_tf.utils.files import check_is_file, decode_utf8
from albert_tf.utils.imports import tensorflow as tf

_MOST_DIGITS = 1_000
_MOST_BYTES = 1 << 26
# Only an escape can be a surrogate, since UTF-8 has none.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_json_object(path: str, kind: str = "file") -> dict[str, Any]:
    """Reads a JSON object from a file.

    Args:
      path: path of a file of at most 64 MB, which is read as a whole: a config, a manifest, a passage.
    """
    return parse_json_object(_read(path, kind), path)


def read_json_list(path: str) -> list[dict[str, Any]]:
    """Reads a list of JSON objects from a file."""
    text = _read(path, "file")
    value = _parse(text, path, None)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"{path}: expected a list of JSON objects, got {text.strip()[:40]!r}")
    return value


def _read(path: str, kind: str) -> str:
    """The text of a small file."""
    check_is_file(path, kind)
    size = tf.io.gfile.stat(path).length
    if size > _MOST_BYTES:
        raise ValueError(f"{path} has {size:,} bytes: a JSON {kind} has at most {_MOST_BYTES:,}")
    with tf.io.gfile.GFile(path, "rb") as file:
        return decode_utf8(file.read(), path)


def parse_json_object(text: str, path: str, line: int | None = None) -> dict[str, Any]:
    """Parses a JSON object.

    Args:
      line: number of the line, from 1, if the text is one line of the file.
    """
    value = _parse(text, path, line)
    if not isinstance(value, dict):
        raise ValueError(f"{_place(path, line)}: expected a JSON object, got {text.strip()[:40]!r}")
    return value


def _place(path: str, line: int | None) -> str:
    return path if line is None else f"{path} line {line}"


def _parse(text: str, path: str, line: int | None) -> Any:
    """Parses any JSON value; see parse_json_object."""
    value = parse_unchecked(text, path, line)
    if _SURROGATE_ESCAPE.search(text):
        check_characters(json.dumps(value, ensure_ascii=False), _place(path, line))
    return value


def parse_unchecked(text: str, path: str, line: int | None = None) -> Any:
    """Parses any JSON value as parse_json_object does. A string may have half of a surrogate pair."""
    place = _place(path, line)
    if not text.strip():
        raise ValueError(f"{place} is empty")
    try:
        return _DECODER.decode(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} line {(line or 1) + error.lineno - 1}: not JSON ({error.msg})") from error
    except RecursionError as error:
        raise ValueError(f"{place}: lists or objects are nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def check_characters(text: str, place: str) -> None:
    """Raises a ValueError with the place if a text has half of a surrogate pair, which is not a character."""
    half = _SURROGATE.search(text)
    if half:
        raise ValueError(f"{place}: {ascii(half.group())} is half of a surrogate pair, which is not a character")


def check_keys(
    content: Any, place: str, required: dict[str, type], optional: dict[str, type] | None = None
) -> dict[str, Any]:
    """Checks the keys of a JSON object and the types of their values, and returns the object.

    Args:
      place: where it is, for error messages: a path, or a path with keys.
      required, optional: types of the values by key. The object has all required keys and no others than these.
    """
    types = {**required, **(optional or {})}
    if not isinstance(content, dict):
        raise ValueError(f"{place} must be an object. Received: {content!r}")
    for key in required.keys() - content.keys():
        raise ValueError(f"{place}: {key!r} is missing")
    for key, value in content.items():
        if key not in types:
            raise ValueError(f"{place}: unknown key {key!r}; the known ones are {', '.join(types)}")
        if not isinstance(value, types[key]):
            raise ValueError(f"{place}: {key!r} must be of type {types[key].__name__}. Received: {value!r}")
    return content


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_whole_number)
