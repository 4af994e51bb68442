"""NumPy arrays: reading .npy files, and the softmax."""

from __future__ import annotations

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


def softmax(logits: np.ndarray) -> np.ndarray:
    """The softmax over the last axis, without scipy, whose import takes time (see imports.py)."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
