"""Writes files as torch.save does, in both of its formats, without torch."""

import dataclasses
import io
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from unittest import mock

import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C
SYSTEM = dict(protocol_version=1001, little_endian=True, type_sizes=dict(short=2, int=4, long=4))
STORAGES = {"<f8": "Double", "<f4": "Float", "<f2": "Half", "<i8": "Long", "<i4": "Int", "<i2": "Short", "|i1": "Char",
            "|u1": "Byte", "|b1": "Bool"}


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor as a part of an array with one dimension, which others may share. Strides count values."""

    storage: np.ndarray
    offset: int
    shape: tuple
    strides: tuple


@dataclasses.dataclass(frozen=True)
class Storage:
    """The values of a tensor."""

    values: np.ndarray


def save(value, path, older=False, system=SYSTEM, order="little", protocol=2, **more):
    """Writes an object with arrays and Views, which become tensors. `more` are more records of the zip file."""
    storages: dict[str, np.ndarray] = {}
    program = pickled(value, storages, older, protocol)
    if older:
        parts = [pickle.dumps(each, 2) for each in (MAGIC, 1001, system)] + [program, pickle.dumps(sorted(storages), 2)]
        parts += [struct.pack("<q", storages[key].size) + storages[key].tobytes() for key in sorted(storages)]
        path.write_bytes(b"".join(parts))
        return
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {"data.pkl": program, "byteorder": order, "version": "3\n", **more}.items():
            archive.writestr(f"{path.stem}/{name}", content)
        for key, values in storages.items():
            archive.writestr(f"{path.stem}/data/{key}", values.tobytes())


def pickled(value, storages, older=False, protocol=2):
    """The pickle of an object. The storages of its tensors are added to `storages` by their keys."""
    modules = {name: types.ModuleType(name) for name in ("torch", "torch._utils")}
    for name in STORAGES.values():
        setattr(modules["torch"], f"{name}Storage", type(f"{name}Storage", (), dict(__module__="torch")))

    def _rebuild_tensor_v2():
        pass

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    modules["torch._utils"]._rebuild_tensor_v2 = _rebuild_tensor_v2
    keys = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, item):
            if not isinstance(item, Storage):
                return None
            key = keys.setdefault(id(item.values), str(len(keys)))
            storages[key] = item.values
            kind = getattr(modules["torch"], f"{STORAGES[item.values.dtype.str]}Storage")
            return ("storage", kind, key, "cpu", item.values.size, *([None] if older else []))

        def reducer_override(self, item):
            if isinstance(item, np.ndarray):
                item = np.asarray(item, order="C")
                item = View(item.reshape(-1), 0, item.shape, tuple(each // item.itemsize for each in item.strides))
            if not isinstance(item, View):
                return NotImplemented
            return _rebuild_tensor_v2, (Storage(item.storage), item.offset, item.shape, item.strides, False,
                                        OrderedDict())

    stream = io.BytesIO()
    with mock.patch.dict(sys.modules, modules):
        Pickler(stream, protocol).dump(value)
    return stream.getvalue()
