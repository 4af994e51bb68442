"""NumPy arrays: reading .npy files, joining batches, and the softmax."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np

from albert_tf.utils.files import check_is_file
from albert_tf.utils.temporary_files import local_copy


def read_array(path: str) -> np.ndarray:
    """The array of an .npy file, of which only what is used is read into memory.

    Raises:
      ValueError: there is no file at the path, or it is not an array of numbers.
    """
    check_is_file(path)
    try:
        return np.load(local_copy(path), mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not an .npy file with an array of numbers: {error}") from error


def concatenated(batches: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The rows of all batches, by name: logits [2, 3] and logits [1, 3] give logits [3, 3]. {} without batches.

    Args:
      batches: arrays or tensors by name. A name may be missing in some batches.
    """
    columns: dict[str, list[np.ndarray]] = {}
    for batch in batches:
        for name, values in batch.items():
            columns.setdefault(name, []).append(np.asarray(values))
    return {name: np.concatenate(values) for name, values in columns.items()}


def softmax(logits: np.ndarray) -> np.ndarray:
    """The softmax over the last axis, without scipy, whose import takes time (see imports.py)."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
