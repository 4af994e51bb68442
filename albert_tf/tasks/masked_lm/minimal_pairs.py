"""Minimal pairs: a grammatical sentence, and an ungrammatical one that differs from it in one thing.

Files are JSON lines as in BLiMP (Warstadt et al., 2020)::

    {"sentence_good": "The cats annoy Tim.", "sentence_bad": "The cats annoys Tim.", "field": "morphology"}

"field" is optional. Other keys are ignored.
"""

from __future__ import annotations

import os
import reprlib
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.data.tables import read_json_lines
from albert_tf.utils.files import expand_globs

_ENDING = ".jsonl"


class MinimalPair(NamedTuple):
    """A minimal pair.

    Args:
      good, bad: the grammatical and the ungrammatical sentence.
      file: name of its file, without the extension.
      field: the field of linguistics, as in BLiMP; None if the file does not say.
      place: file and line of the pair.
    """

    good: str
    bad: str
    file: str
    field: str | None
    place: str


def read_minimal_pairs(paths: str) -> list[MinimalPair]:
    """Reads the pairs of several files.

    Args:
      paths: comma-separated list of files, globs and folders. Of a folder, all .jsonl files are read.

    Raises:
      ValueError: a file does not exist or has no pairs, two files have the same name, or a line is not a pair.
    """
    pairs: list[MinimalPair] = []
    path_of: dict[str, str] = {}
    for path in _files(paths):
        name = os.path.basename(path).removesuffix(_ENDING)
        if name in path_of:
            raise ValueError(f"{path_of[name]} and {path} have the same name: accuracies are reported by file name, so "
                             "rename one of them")
        path_of[name] = path
        of_file = [_pair(values, name, f"{path} line {line}") for line, values in read_json_lines(path)]
        if not of_file:
            raise ValueError(f"{path} has no pairs")
        pairs += of_file
    return pairs


def _files(paths: str) -> list[str]:
    parts = filter(None, (part.strip() for part in paths.split(",")))
    patterns = (os.path.join(part, f"*{_ENDING}") if tf.io.gfile.isdir(part) else part for part in parts)
    return expand_globs(",".join(patterns))


def _pair(values: dict[str, Any], file: str, place: str) -> MinimalPair:
    good, bad, field = (values.get(key) for key in ("sentence_good", "sentence_bad", "field"))
    if not isinstance(good, str) or not isinstance(bad, str):
        raise ValueError(f"{place}: sentence_good and sentence_bad must be strings. "
                         f"Received: {reprlib.repr([good, bad])}")
    return MinimalPair(good, bad, file, field if field is None else str(field), place)
