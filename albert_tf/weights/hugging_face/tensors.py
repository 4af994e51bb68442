"""Reads the tensors of a folder's model.safetensors (one file or several), each only when it is needed.

Pickles, the format of PyTorch's other weights, are refused, since reading one can run any code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os

import ml_dtypes  # noqa: F401  gives NumPy the type bfloat16; TensorFlow brings it
import numpy as np
import tensorflow as tf
from safetensors import SafetensorError, safe_open

from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import local_copy
from albert_tf.weights.hugging_face import INDEX, WEIGHTS

_TYPES = ("F64", "F32", "F16", "BF16")
# The library maps a file into memory, and the pages that were read stay there until the file is closed.
_BYTES_AT_ONCE = 32 * 1024 * 1024
# TensorFlow uses memory that begins at a multiple of this without a copy.
_ALIGNMENT = 64
# The endings of pickles, and their first bytes; and those of zip files, the format of newer PyTorch files.
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle")
_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_ZIP = b"PK\x03\x04"


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor in a safetensors file.

    Args:
      shape: shape in the file.
      dtype: name of the data type in the file: "F32".
    """

    path: str
    key: str
    shape: tuple[int, ...]
    dtype: str

    def read(self, transpose: bool = False) -> tf.Tensor:
        """The values as float32, without a second copy in memory."""
        if self.dtype not in _TYPES:
            raise ValueError(f"{self.path}: {self.key} has type {self.dtype}, but only {', '.join(_TYPES)} can be read")
        values = _aligned(self.shape[::-1] if transpose else self.shape)
        rows = values.T if transpose else values
        at_once = max(1, _BYTES_AT_ONCE * len(rows) // max(1, values.nbytes))
        for first in range(0, len(rows), at_once):
            part = slice(first, min(first + at_once, len(rows)))
            with _opened(self.path) as file:
                rows[part] = file.get_slice(self.key)[part]
        return tf.experimental.dlpack.from_dlpack(values.__dlpack__())  # convert_to_tensor would copy, twice


def stored_tensors(folder: str) -> dict[str, StoredTensor]:
    """The tensors of a folder, by key."""
    index = os.path.join(folder, INDEX)
    if not tf.io.gfile.exists(index):
        return _tensors_of(os.path.join(folder, WEIGHTS))
    tensors = {}
    for name in _shards(index):
        tensors.update(_tensors_of(os.path.join(folder, name)))
    return tensors


def refuse_pickle(path: str) -> None:
    """Raises ValueError if the file at the path is a pickle or a zip file by its name or its first bytes."""
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return
    if path.endswith(".keras"):
        raise ValueError(f"{path} is a file that Keras reads: use keras.models.load_model. save_pretrained writes a "
                         "folder with weights, config and vocabulary, which from_pretrained reads")
    with tf.io.gfile.GFile(path, "rb") as file:
        start = file.read(4)
    if start.startswith(_STARTS) or path.endswith(PICKLES):
        raise _refusal(path)
    if start == _ZIP:
        raise _refusal(path, "a zip file, as PyTorch's weights are")


def refuse_pickles_in(folder: str) -> None:
    """Raises ValueError if a file in the folder is a pickle."""
    for name in sorted(tf.io.gfile.listdir(folder)):
        refuse_pickle(os.path.join(folder, name))


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    """An uninitialized float32 array at an aligned address."""
    size = 4 * math.prod(shape)
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(np.float32).reshape(shape)


def _shards(index: str) -> list[str]:
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ValueError(f"{index} has no weight_map from keys to safetensors files")
    for name in weight_map.values():
        if not isinstance(name, str) or os.path.basename(name) != name or not name.endswith(".safetensors"):
            raise ValueError(f"{index} names {name!r}, but must name .safetensors files in its own folder")
    return sorted(set(weight_map.values()))


def _tensors_of(path: str) -> dict[str, StoredTensor]:
    with _opened(path) as file:
        slices = {key: file.get_slice(key) for key in file.keys()}
        return {key: StoredTensor(path, key, tuple(part.get_shape()), part.get_dtype()) for key, part in slices.items()}


@contextlib.contextmanager
def _opened(path: str):
    try:
        with safe_open(local_copy(path), framework="np") as file:
            yield file
    except (FileNotFoundError, tf.errors.NotFoundError) as error:
        raise ValueError(f"no such file: {path}") from error
    except (SafetensorError, OSError) as error:
        refuse_pickle(path)
        raise ValueError(f"{path} is not a safetensors file: {error}") from error


def _refusal(path: str, kind: str = "a pickle") -> ValueError:
    return ValueError(f"{path} is {kind}, which can run any code when it is read: save the model as safetensors "
                      "(Hugging Face's save_pretrained does), and use that folder")
