"""Minimal pairs: a grammatical sentence, and an ungrammatical one that differs from it in one thing.

Files are JSON lines as in BLiMP (Warstadt et al., 2020)::

    {"sentence_good": "The cats annoy Tim.", "sentence_bad": "The cats annoys Tim.", "field": "morphology"}

"field" is optional. Other keys are ignored.
"""

from __future__ import annotations

import collections
import os
import reprlib
from typing import Any, Iterable, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.rows import is_parquet, read_objects
from albert_tf.utils.files import expand_globs

_ENDING = ".jsonl"


class MinimalPair(NamedTuple):
    """A grammatical and an ungrammatical sentence."""

    good: str
    bad: str
    file: str  # its name without the extension
    field: str | None  # the field of linguistics, as in BLiMP
    place: str  # file and line


def read_minimal_pairs(paths: str) -> list[MinimalPair]:
    """Reads the pairs of a comma-separated list of files, globs and folders. Of a folder, all .jsonl files are read."""
    pairs: list[MinimalPair] = []
    path_of: dict[str, str] = {}
    for path in _files(paths):
        name = os.path.splitext(os.path.basename(path))[0] if is_parquet(path) else (
            os.path.basename(path).removesuffix(_ENDING))
        if name in path_of:
            raise ValueError(f"{path_of[name]} and {path} have the same name: accuracies are reported by file name, so "
                             "rename one of them")
        path_of[name] = path
        file_pairs = [_pair(values, name, f"{path} line {line}") for line, values in read_objects(path)]
        if not file_pairs:
            raise ValueError(f"{path} has no pairs")
        pairs += file_pairs
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


def accuracies(pairs: Sequence[MinimalPair], good: Sequence[float], bad: Sequence[float]) -> dict:
    """Accuracy over all pairs, by file and by field; a tie counts as half.

      {"all": 0.75, "files": {"anaphor_number_agreement": 0.75}, "fields": {"morphology": 0.75}}
    """
    credit = (1 + np.sign(np.subtract(good, bad))) / 2  # 1, 0.5 for a tie, or 0
    return {"all": float(np.mean(credit)),
            "files": _means((pair.file for pair in pairs), credit),
            "fields": _means((pair.field for pair in pairs), credit)}


def _means(names: Iterable[str | None], credit: np.ndarray) -> dict[str, float]:
    values = collections.defaultdict(list)
    for name, value in zip(names, credit):
        if name is not None:
            values[name].append(value)
    return {name: float(np.mean(values[name])) for name in values}
