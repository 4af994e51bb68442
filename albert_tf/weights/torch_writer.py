"""Writes a file that torch.load reads, without torch. torch_file.py describes the format, a zip file."""

from __future__ import annotations

import struct
import zipfile
from typing import Any

import numpy as np

from albert_tf.utils.outputs import output
from albert_tf.weights.torch_file import TYPES, TorchTensor

_NAMES = {dtype: name.replace(" ", "\n") for name, dtype in TYPES.items()}  # of the types of storages
# The instructions before and after the parts of a value.
_MARKS = {dict: (b"}(", b"u"), list: (b"](", b"e"), tuple: (b"(", b"t")}
_CONSTANTS = {None: b"N", True: b"\x88", False: b"\x89"}


def write_torch(value: Any, path: str) -> None:
    """Writes dicts, lists, tuples, texts, numbers, NumPy arrays and TorchTensors, which become tensors."""
    arrays: list[np.ndarray] = []
    program = b"\x80\x02" + _instructions(value, arrays) + b"."
    records = {"data.pkl": program, "byteorder": b"little", "version": b"3\n"}
    with output(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, content in records.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), content)
        for number, array in enumerate(arrays):
            archive.writestr(zipfile.ZipInfo(f"archive/data/{number}"), array.tobytes())


def _instructions(value: Any, arrays: list[np.ndarray]) -> bytes:
    """The instructions of a pickle that make a value. Its arrays are appended to `arrays`."""
    kind = next((kind for kind in _MARKS if isinstance(value, kind)), None)
    if kind:
        parts = [part for item in value.items() for part in item] if kind is dict else value
        start, end = _MARKS[kind]
        return start + b"".join(_instructions(part, arrays) for part in parts) + end
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    if isinstance(value, int):
        content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(content)]) + content
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    array = np.asarray(value.read() if isinstance(value, TorchTensor) else value, order="C")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    encoded = [_instructions(part, arrays) for part in (str(len(arrays)), "cpu", array.size, 0, array.shape, strides)]
    arrays.append(array)
    storage = b"(X\7\0\0\0storage" + f"c{_NAMES[array.dtype]}\n".encode() + b"".join(encoded[:3]) + b"tQ"
    hooks = b"ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"".join(encoded[3:]) + b"\x89" + hooks + b"tR"
