"""NumPy arrays: reading and writing .npy files, joining batches, and the softmax."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable, Iterator, Mapping

import numpy as np

from albert_tf.utils.files import check_is_file
from albert_tf.utils.outputs import local_copy, output


def read_array(path: str) -> np.ndarray:
    """The array of an .npy file, of which only what is used is read into memory."""
    check_is_file(path)
    try:
        return np.load(local_copy(path), mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not an .npy file with an array of numbers: {error}") from error


WriteRows = Callable[[int, np.ndarray], None]


@contextlib.contextmanager
def array_writer(path: str, shape: tuple[int, ...], dtype=np.float32) -> Iterator[WriteRows]:
    """Yields a function write(first, values), which writes rows of an array, starting at row `first`.

    Each row must be written once, in any order. The file appears at `path` when the block ends. (A memory map would
    instead end the process with a signal if the disk is full; a write raises OSError.)
    """
    dtype, row_shape = np.dtype(dtype), shape[1:]
    row_bytes = dtype.itemsize * int(np.prod(row_shape))
    header = dict(descr=np.lib.format.dtype_to_descr(dtype), fortran_order=False, shape=shape)
    with output(path) as temporary, open(temporary, "wb") as file:
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


def concatenated(batches: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The rows of all batches, by name: logits [2, 3] and logits [1, 3] give logits [3, 3]. {} without batches.

    A name may be missing in some batches.
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
