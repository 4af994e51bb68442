"""A fast serializer of tf.Examples.

The bytes are those of tf.train.Example.SerializeToString(deterministic=True). A protobuf message would convert the
values one by one, and most values are padding.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

# Field numbers of tensorflow/core/example/example.proto and feature.proto.
_FEATURES, _ENTRY, _KEY, _VALUE, _LIST = 1, 1, 1, 2, 1
_FLOAT_LIST, _INT64_LIST = 2, 3
_LENGTH_DELIMITED = 2
# Encodings of numbers below this one are kept: ids, masks, labels.
_KEPT = 1 << 16


def serialize(**features: Sequence[int | float] | np.ndarray) -> bytes:
    """Serializes a tf.Example. Each feature is a list or 1-D array of integers or floats with at least one value."""
    encoded = {}
    for name, values in features.items():
        row: Any = values.tolist() if isinstance(values, np.ndarray) else values  # all integers, or all floats
        encoded[name] = float_feature(row) if isinstance(row[0], float) else int64_feature(varints(row))
    return example(encoded)


def example(features: Mapping[str, bytes]) -> bytes:
    """A serialized tf.Example of features by name, which int64_feature and float_feature have encoded."""
    entries = [_field(_ENTRY, _key(name) + _field(_VALUE, features[name])) for name in sorted(features)]
    return _field(_FEATURES, b"".join(entries))


def int64_feature(encoded: bytes) -> bytes:
    """An encoded feature of integers. `encoded` is the result of `varints`, or several results concatenated."""
    return _field(_INT64_LIST, _field(_LIST, encoded))


def float_feature(values: Iterable[float]) -> bytes:
    """An encoded feature of float32 numbers, at least one."""
    values = tuple(values)
    return _field(_FLOAT_LIST, _field(_LIST, struct.pack(f"<{len(values)}f", *values)))


def varints(values: Iterable[int]) -> bytes:
    """64-bit integers as protobuf varints: seven bits per byte, the lowest first."""
    return b"".join(map(_VARINTS.__getitem__, values))


class _Varints(dict):
    """The varint of each number; those of small numbers are kept."""

    def __missing__(self, number: int) -> bytes:
        rest, encoded = int(number) % (1 << 64), bytearray()  # negative numbers as two's complement
        while rest > 127:
            encoded.append(rest & 127 | 128)
            rest >>= 7
        encoded.append(rest)
        if 0 <= number < _KEPT:
            self[number] = bytes(encoded)
        return bytes(encoded)


_VARINTS = _Varints()


_TAGS = [bytes([number << 3 | _LENGTH_DELIMITED]) for number in range(_INT64_LIST + 1)]


def _field(number: int, content: bytes) -> bytes:
    return _TAGS[number] + _VARINTS[len(content)] + content


@functools.lru_cache(maxsize=None)
def _key(name: str) -> bytes:
    return _field(_KEY, name.encode())
