"""How a classifier reads texts that are longer than a row, in a file next to its weights.

    long_texts.json   {"pooling": "mean", "max_windows": 8, "doc_stride": 0}

Without the file, longer texts are truncated.
"""

from __future__ import annotations

import dataclasses
import json
import os

import tensorflow as tf

from albert_tf import bounds
from albert_tf.files import write_text
from albert_tf.json_files import check_keys, read_json_object
from albert_tf.modeling.pooling import MEAN_OR_MAX, LongTexts

LONG_TEXTS = "long_texts.json"


def long_texts_in(directory: str) -> LongTexts:
    """What is stored in a directory; a single window if nothing is.

    Raises:
      ValueError: the file is damaged.
    """
    path = os.path.join(directory, LONG_TEXTS)
    if not tf.io.gfile.exists(path):
        return LongTexts()
    stored = LongTexts(**check_keys(read_json_object(path), path, dict(pooling=str, max_windows=int, doc_stride=int)))
    if stored.pooling not in MEAN_OR_MAX:
        raise ValueError(f"{path}: pooling must be one of {', '.join(MEAN_OR_MAX)}. Received: {stored.pooling!r}")
    bounds.CANDIDATES.check(f"{path}: max_windows", stored.max_windows)
    bounds.SEQ_LENGTH.at_least(0).check(f"{path}: doc_stride", stored.doc_stride)
    return stored


def write_long_texts(long_texts: LongTexts, directory: str) -> None:
    """Writes long_texts.json to the directory of the weights; for a single window, an earlier file is removed."""
    path = os.path.join(directory, LONG_TEXTS)
    if long_texts.max_windows > 1:
        write_text(path, json.dumps(dataclasses.asdict(long_texts)))
    elif tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)
