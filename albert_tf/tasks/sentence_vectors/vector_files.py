"""The files next to an .npy file of token vectors: which rows belong to which line, and the tokens' ids."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from albert_tf.utils.writing import write_array


class TokenFiles(NamedTuple):
    """The paths of the two files: row_splits int64 [lines + 1], and input_ids int32 [tokens]."""

    row_splits: str
    input_ids: str


def token_files(path: str) -> TokenFiles:
    """x.npy -> x.row_splits.npy, x.input_ids.npy."""
    stem = os.path.splitext(path)[0]
    return TokenFiles(f"{stem}.row_splits.npy", f"{stem}.input_ids.npy")


def companions(path: str, per_token: bool) -> tuple[str, ...]:
    """The files that are written with the vectors at `path`: those of token_files, or none if not per_token."""
    return token_files(path) if per_token else ()


def write_token_files(path: str, lengths: np.ndarray, input_ids: np.ndarray) -> None:
    """Writes the files of token_files.

    Args:
      path: path of the vectors.
      lengths: integers [lines], the number of tokens of each line.
      input_ids: int32 [tokens], the ids of all lines one after the other.
    """
    files = token_files(path)
    write_array(files.row_splits, np.cumsum(np.concatenate([[0], lengths]), dtype=np.int64))
    write_array(files.input_ids, input_ids)
