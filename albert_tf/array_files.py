"""NumPy arrays of any size as .npy files."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

import numpy as np

from albert_tf.local_copies import written_locally

WriteRows = Callable[[int, np.ndarray], None]


@contextlib.contextmanager
def array_writer(path: str, shape: tuple[int, ...], dtype=np.float32) -> Iterator[WriteRows]:
    """Gives write(first, values), which writes rows of an array from row `first` on. The file appears when it is whole.

    The rows may come in any order; each must come once. They are written and not mapped into memory: on a full disk a
    write fails with an OSError, and a memory map with a signal that ends the process.

    Args:
      path: of the .npy file.
      shape, dtype: of the array.
    """
    dtype, row_shape = np.dtype(dtype), shape[1:]
    row_bytes = dtype.itemsize * int(np.prod(row_shape))
    header = dict(descr=np.lib.format.dtype_to_descr(dtype), fortran_order=False, shape=shape)
    with written_locally(path) as temporary, open(temporary, "wb") as file:
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
    """Writes an array as an .npy file, whole or not at all."""
    with array_writer(path, array.shape, array.dtype) as write:
        write(0, array)
