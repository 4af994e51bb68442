"""Minimal pairs: two sentences that differ in one thing, of which the first one is grammatical.

Files are JSON lines as in BLiMP (Warstadt et al., 2020):

    {"sentence_good": "The cats annoy Tim.", "sentence_bad": "The cats annoys Tim.", "field": "morphology"}

field may be left out. Other keys are ignored.
"""

from __future__ import annotations

import os
import reprlib
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.data.tables import read_json_lines
from albert_tf.files import expand_globs

_ENDING = ".jsonl"


class MinimalPair(NamedTuple):
    """A pair.

    Args:
      good, bad: the sentences.
      file: name of its file, without the ending.
      field: of linguistics, as BLiMP has them; None if the file does not say.
      place: file and line.
    """

    good: str
    bad: str
    file: str
    field: str | None
    place: str


def read_minimal_pairs(paths: str) -> list[MinimalPair]:
    """The pairs of all files that a comma-separated list of files, globs and folders (their .jsonl files) names.

    Raises:
      ValueError: there is no such file, two have the same name, one has no pairs, or a line is not a pair.
    """
    pairs: list[MinimalPair] = []
    path_of: dict[str, str] = {}
    for path in _files(paths):
        name = os.path.basename(path).removesuffix(_ENDING)
        if name in path_of:
            raise ValueError(f"{path_of[name]} and {path} have the same name, by which accuracies are reported")
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
