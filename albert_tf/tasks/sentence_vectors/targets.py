"""The vectors that a student learns: those of a teacher, in the width of the student and near its own ones.

Sentence vectors are compared by their cosines, which a rotation does not change. So the student learns the teacher's
vectors after the rotation that brings them nearest to what it computes before training. No projection is trained: with
one, the cosines of the student's own vectors would not be those of the teacher.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from albert_tf.modeling.pooling import LEAST_LENGTH

_BLOCK = 10_000  # vectors that are in memory in float64


def as_wide_as(vectors: np.ndarray, size: int) -> np.ndarray:
    """Vectors of another width with the same inner products, or as nearly the same as the width allows.

    Wider vectors are projected to their first principal components, not centred, so that cosines stay what they are as
    far as possible (Eckart and Young, 1936). Narrower ones get zeros.

    Args:
      vectors: float32 [texts, width].
      size: the width of the result.
    """
    width = vectors.shape[1]
    if width <= size:
        return np.pad(vectors, [(0, 0), (0, size - width)])
    products = np.zeros([width, width])
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        products += block.T @ block
    _, components = np.linalg.eigh(products)  # in the columns, by ascending eigenvalue
    return vectors @ components[:, -size:].astype(np.float32)


def turned_towards(vectors: np.ndarray, own: np.ndarray, places: slice = slice(None)) -> np.ndarray:
    """Vectors after the rotation that brings them nearest to others (Schoenemann, 1966). Their cosines stay the same.

    Args:
      vectors: float32 [texts, H].
      own: float32 [some texts, H], the others. Lengths do not count.
      places: the texts of `own`.
    """
    rotation, _ = scipy.linalg.orthogonal_procrustes(_of_length_1(vectors[places]), _of_length_1(own))
    return vectors @ rotation.astype(np.float32)


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_LENGTH)
