"""Reads files of torch.save without torch, as NumPy arrays. No code of a file runs.

torch 1.6 and later write a zip file of a pickle and the values, earlier versions five pickles, then the values::

    archive/data.pkl, archive/data/0, archive/data/1, ...    the object, and the values of each storage by its key
    magic number, version, system, object, keys, values of the first key, values of the second key, ...

A pickle is a program. Here it can make numbers, texts, lists, tuples and dicts, and use _Reader._names. Nothing is
imported by its name, and any other name or instruction is an error (torch/serialization.py, Python's pickletools.py).
"""

from __future__ import annotations

import dataclasses
import io
import math
import os
import pickletools
import struct
import zipfile
from typing import Any, Callable

import ml_dtypes
import numpy as np

from albert_tf.utils.files import errors_at
from albert_tf.utils.outputs import local_copy

_MOST_BYTES = 1 << 22  # of a pickle, or of a zip file's directory: those of 20,000 tensors have some 3 MB
_MAGIC, _VERSION, _ZIP = 0x1950A86A20F9469CFC6C, 1001, b"PK\x03\x04"
# The types by the names of their storages.
TYPES = {f"torch {name}Storage": np.dtype(dtype) for name, dtype in dict(
    Double="<f8", Float="<f4", Half="<f2", BFloat16=ml_dtypes.bfloat16, Long="<i8", Int="<i4", Short="<i2", Char="i1",
    Byte="u1", Bool="?").items()}
# Instructions: values that a pickle has, and values that have special instructions.
_VALUES = ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT")
_MAKERS: dict[str, Callable[[], Any]] = dict(NONE=lambda: None, NEWTRUE=lambda: True, NEWFALSE=lambda: False,
                                             EMPTY_TUPLE=tuple, EMPTY_LIST=list, EMPTY_DICT=dict)


@dataclasses.dataclass(eq=False)
class _Storage:
    """Values in a file, which several tensors may use."""

    dtype: np.dtype
    count: int
    start: int = -1  # position of its first byte in the file


@dataclasses.dataclass(frozen=True, eq=False)
class TorchTensor:
    """A tensor in a file. Offset, strides and span (from its first to its last value) are in values of its storage."""

    path: str
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    span: int

    def read(self) -> np.ndarray:
        """Its values. Raises ValueError if the file has become shorter."""
        dtype, start = self.storage.dtype, self.storage.start + self.offset * self.storage.dtype.itemsize
        values = np.fromfile(local_copy(self.path), dtype, self.span, offset=start)
        if len(values) < self.span:
            raise ValueError(f"{self.path} has become shorter since it was opened")
        return np.lib.stride_tricks.as_strided(values, self.shape, [each * dtype.itemsize for each in self.strides])


class _Limited(io.FileIO):
    """A file of which only small parts are read."""

    def read(self, size: int | None = -1) -> bytes:
        left = max(os.fstat(self.fileno()).st_size - self.tell(), 0)
        size = left if size is None or size < 0 else min(size, left)
        if size > _MOST_BYTES:
            raise ValueError(f"what describes its weights has {size:,} bytes, more than {_MOST_BYTES:,}")
        return super().read(size)


def read_torch(path: str) -> Any:
    """The object in a file of torch.save: numbers, texts, lists, tuples, dicts and, for each tensor, a TorchTensor.

    Raises ValueError if it has another class, is damaged, or is of torch.jit or a big-endian machine.
    """
    with errors_at(f"{path} cannot be read as weights of torch.save"), _Limited(local_copy(path)) as file:
        try:
            return _Reader(path, file).saved()
        except (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError,
                struct.error, zipfile.BadZipFile) as error:
            raise ValueError(" ".join(str(error).split())[:300]) from error


class _Reader:
    """Reads one file. What it says of sizes and types is checked before it is used."""

    def __init__(self, path: str, file: _Limited):
        self._path, self._file, self._size = path, file, os.fstat(file.fileno()).st_size
        self._storages: dict[str, _Storage] = {}
        self._records: dict[str, tuple[int, int]] = {}  # start and size of the records of a zip file
        self._names: dict[str, Any] = {
            **TYPES, "collections OrderedDict": lambda: {}, "torch._utils _rebuild_tensor_v2": self._tensor,
            "torch._utils _rebuild_parameter": lambda data, *_: data}

    def saved(self) -> Any:
        """The object that was saved."""
        if self._file.read(len(_ZIP)) != _ZIP:
            return self._older_format()
        with zipfile.ZipFile(self._file) as archive:
            infos = archive.infolist()
        for info in infos:
            self._file.seek(info.header_offset + 26)
            start = info.header_offset + 30 + sum(struct.unpack("<2H", self._file.read(4)))
            if not info.compress_type and not info.flag_bits & 1 and start + info.file_size <= self._size:
                self._records[info.filename.partition("/")[2]] = start, info.file_size
        if "constants.pkl" in self._records:
            raise ValueError("it is a program of TorchScript (torch.jit.save): save the model's state_dict")
        if "byteorder" in self._records and self._record("byteorder").read() != b"little":
            raise ValueError("it was saved on a big-endian machine")
        return self._run(self._record("data.pkl"))

    def _record(self, name: str) -> io.BytesIO:
        self._file.seek(self._location(name)[0])
        return io.BytesIO(self._file.read(self._location(name)[1]))

    def _location(self, name: str) -> tuple[int, int]:
        """The start and the size of a record. torch compresses none, and may be set to write wrong checksums."""
        if name not in self._records:
            raise ValueError(f"the zip file has no {name[:80]!r}, or it is compressed, encrypted or cut")
        return self._records[name]

    def _older_format(self) -> Any:
        self._file.seek(0)
        stream = io.BytesIO(self._file.read(min(self._size, _MOST_BYTES)))
        if self._run(stream) != _MAGIC or self._run(stream) != _VERSION:
            raise ValueError("it is a pickle, but not of torch.save")
        if self._run(stream)["little_endian"] is not True:
            raise ValueError("it was saved on a big-endian machine")
        saved, keys = self._run(stream), self._run(stream)
        if {*map(type, keys)} - {str} or sorted(keys) != sorted(self._storages):
            raise ValueError("its list of storages is not that of its tensors")
        position = stream.tell()
        for storage in map(self._storages.__getitem__, keys):
            self._file.seek(position)
            storage.start, count = position + 8, int.from_bytes(self._file.read(8), "little")
            position = storage.start + count * storage.dtype.itemsize
            if count != storage.count or position > self._size:
                raise ValueError("it ends within the values of a storage, or has another number of them")
        return saved

    def _storage(self, reference: Any) -> _Storage:
        """The storage of ("storage", type, key, device, count), in the older format also None."""
        kind, dtype, key, _, count = reference[:5]
        if kind != "storage" or not isinstance(dtype, np.dtype) or type(key) is not str or type(count) is not int:
            raise ValueError("it refers to something else than a storage of numbers")
        storage = self._storages.setdefault(key, _Storage(dtype, count))
        if self._records:
            storage.start, size = self._location(f"data/{key}")
            if size < count * dtype.itemsize:
                raise ValueError(f"'data/{key[:80]}' in the zip file has less than {count:,} values")
        return storage

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> TorchTensor:
        are_tuples = type(shape) is type(strides) is tuple and len(shape) == len(strides) < 9
        if not isinstance(storage, _Storage) or not are_tuples or any(
                type(each) is not int or not 0 <= each < 1 << 63 for each in (offset, *shape, *strides)):
            raise ValueError("a tensor has no storage, shape or strides")
        count = math.prod(shape)  # which a stride of 0 makes larger than the storage
        span = count and 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
        if offset + span > storage.count or math.prod(each or 1 for each in shape) > self._size:
            raise ValueError(f"a tensor of {count:,} values has a storage of {storage.count:,}")
        return TorchTensor(self._path, storage, offset, shape, strides, span)

    def _run(self, stream: io.BytesIO) -> Any:
        """The object that a pickle makes."""
        stack: list[Any] = []
        marks: list[int] = []
        memo: dict[Any, Any] = {}

        def popped(count: int | None) -> list[Any]:  # None: what is after the last mark
            start = marks.pop() if count is None else -count
            values, stack[start:] = stack[start:], []
            return values

        for name, argument in ((opcode.name, argument) for opcode, argument, _ in pickletools.genops(stream)):
            if name in _VALUES:
                stack.append(argument)
            elif name in _MAKERS:
                stack.append(_MAKERS[name]())
            elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                memo[len(memo) if argument is None else argument] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET") and argument in memo:
                stack.append(memo[argument])
            elif name == "MARK":
                marks.append(len(stack))
            elif name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
                stack.append(tuple(popped(int(name[5:]) if name[5:] else None)))
            elif name in ("APPEND", "APPENDS"):
                items = popped(1 if name == "APPEND" else None)
                list.extend(stack[-1], items)
            elif name in ("SETITEM", "SETITEMS"):
                items = popped(2 if name == "SETITEM" else None)
                if not {*map(type, items[::2])} <= {str, int}:  # the hash of nested tuples can take any time
                    raise ValueError("a key of a dict is neither a text nor a number")
                dict.update(stack[-1], zip(items[::2], items[1::2]))
            elif name == "BUILD" and isinstance(stack[-2], dict):
                stack.pop()  # attributes of an OrderedDict: the versions of modules
            elif name == "BINPERSID":
                stack.append(self._storage(stack.pop()))
            elif name in ("GLOBAL", "STACK_GLOBAL"):
                full = argument or " ".join(popped(2))
                if full not in self._names:
                    raise ValueError(f"it names {full[:80]!r}: only numbers, texts, dicts, lists and tensors are read")
                stack.append(self._names[full])
            elif name == "REDUCE" and callable(stack[-2]) and type(stack[-1]) is tuple and len(stack[-1]) < 9:
                function, arguments = popped(2)
                stack.append(function(*arguments))  # one of _names
            elif name not in ("PROTO", "FRAME", "STOP"):
                raise ValueError(f"it has the instruction {name} of pickle, which weights do not need")
        return stack.pop()
