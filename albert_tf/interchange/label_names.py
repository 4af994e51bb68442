"""The names of a model's labels, in a file next to its weights: one per line, in the order of the logits."""

from __future__ import annotations

import os
from typing import Sequence

import tensorflow as tf

from albert_tf.files import write_text
from albert_tf.text.lines import read_lines

LABEL_NAMES = "label_names.txt"


def label_names_in(directory: str) -> tuple[str, ...] | None:
    """The names in a directory; None if it has no such file.

    Raises:
      ValueError: the file is not UTF-8.
    """
    path = os.path.join(directory, LABEL_NAMES)
    return tuple(read_lines(path)) if tf.io.gfile.exists(path) else None


def check_label_names(names: Sequence[str], directory: str) -> None:
    """Raises ValueError if the weights in a directory were trained with other labels, or in another order."""
    stored = label_names_in(directory)
    if stored is not None and stored != tuple(names):
        raise ValueError(f"{directory}: the model was trained with the labels {', '.join(stored)} ({LABEL_NAMES}), but "
                         f"those of the task are {', '.join(names)}")


def write_label_names(names: Sequence[str], directory: str) -> None:
    """Writes the names to the directory of the weights, which is made if it does not exist."""
    write_text(os.path.join(directory, LABEL_NAMES), "".join(f"{name}\n" for name in names))
