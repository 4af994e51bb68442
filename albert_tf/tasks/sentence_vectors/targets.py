"""The vectors that a student learns: those of a teacher, in the width of the student and near its own ones.

Sentence vectors are compared by their cosines, which a rotation does not change. So the student learns the teacher's
vectors after the rotation that brings them nearest to what it computes before training. No projection is trained: with
one, the cosines of the student's own vectors would not be those of the teacher.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from albert_tf.modeling.vectors import LEAST_LENGTH

_BLOCK = 10_000  # vectors that are in memory in float64


def projection(
    vectors: np.ndarray, size: int, own: np.ndarray | None = None, places: slice = slice(None)
) -> np.ndarray:
    """The matrix that makes a student's targets of a teacher's vectors, float32 [width, size].

    Inner products stay the same, or as nearly the same as the size allows: wider vectors are projected to their first
    principal components, not centred (Eckart and Young, 1936); narrower ones get zeros. Then they are rotated towards
    the student's own vectors (Schoenemann, 1966).

    The vectors are float32 [texts, width]. `own` has the student's of the texts at `places`, [some texts, size]; their
    lengths do not count. None: no rotation.
    """
    width = vectors.shape[1]
    matrix = np.eye(width, size) if width <= size else _principal_components(vectors)[:, :size]  # [width, size]
    if own is not None:
        rotation, _ = scipy.linalg.orthogonal_procrustes(_of_length_1(vectors[places] @ matrix), _of_length_1(own))
        matrix = matrix @ rotation
    return matrix.astype(np.float32)


def _principal_components(vectors: np.ndarray) -> np.ndarray:
    """The components in the columns, the largest first, float64 [width, width]."""
    products = np.zeros([vectors.shape[1]] * 2)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK].astype(np.float64)
        products += block.T @ block
    return np.linalg.eigh(products)[1][:, ::-1]  # eigh's eigenvalues ascend


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_LENGTH)
