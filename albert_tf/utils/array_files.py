"""NumPy arrays of any size as .npy files."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

import numpy as np

from albert_tf.utils.files import atomic_local_write

WriteRows = Callable[[int, np.ndarray], None]


@contextlib.contextmanager
def array_writer(path: str, shape: tuple[int, ...], dtype=np.float32) -> Iterator[WriteRows]:
    """Yields a function write(first, values), which writes rows of an array, starting at row `first`.

    Each row must be written once, in any order. The file appears at `path` when the block ends. (A memory map would
    instead end the process with a signal if the disk is full; a write raises OSError.)

    Args:
      path: path of the .npy file.
      shape, dtype: shape and data type of the array.
    """
    dtype, row_shape = np.dtype(dtype), shape[1:]
    row_bytes = dtype.itemsize * int(np.prod(row_shape))
    header = dict(descr=np.lib.format.dtype_to_descr(dtype), fortran_order=False, shape=shape)
    with atomic_local_write(path) as temporary, open(temporary, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()

        def write(first: int, values: np.ndarray) -> None:
            values = np.ascontiguousarray(values, dtype)
            if values.shape[1:] != row_shape or not 0 <= first <= first + len(values) <= shape[0]:
                raise ValueError(f"values of shape {values.shape} do not fit at row {first} of shape {shape}")
            file.seek(start + first * row_bytes)
            file.write(values.data)

        yield write


def write_array(path: str, array: np.ndarray) -> None:
    """Writes an array to an .npy file, which is never left half written."""
    with array_writer(path, array.shape, array.dtype) as write:
        write(0, array)
