"""A global shuffle of more records than memory holds: each record has a random key, and the files are sorted by it.

Writers append to bucket files by ranges of the key; then each bucket is sorted in memory, one after the other. The
order depends on the keys alone, and so not on how many processes wrote them.
"""

from __future__ import annotations

import glob
import os
import struct
from typing import Iterator

_HEADER = struct.Struct("<QI")  # key, length of the record
_KEY_BITS = 63
# Each writer keeps about this much before it appends to the buckets.
_BUFFER_BYTES = 16 << 20


def bucket_of(key: int, num_buckets: int) -> int:
    """The number of the bucket that takes a key, where all keys are cut into `num_buckets` ranges of one size."""
    return key * num_buckets >> _KEY_BITS


def packed(key: int, record: bytes) -> bytes:
    """A key and a record as a bucket holds them, one after the other.

    Args:
      key: a random whole number below 2**63.
      record: serialized.
    """
    return _HEADER.pack(key, len(record)) + record


def unpacked(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The keys and records of a bucket's content."""
    position = 0
    while position < len(content):
        key, length = _HEADER.unpack_from(content, position)
        position += _HEADER.size
        yield key, content[position : position + length]
        position += length


class BucketWriter:
    """Appends records to the bucket files of a folder, under names that no other process uses.

    Args:
      folder: where.
      num_buckets: how many ranges the keys are cut into.
    """

    def __init__(self, folder: str, num_buckets: int):
        self._folder, self._num_buckets = folder, num_buckets
        self._buffers: dict[int, bytearray] = {}
        self._buffered = 0

    def write(self, key: int, record: bytes) -> None:
        """Key: a random whole number below 2**63."""
        buffer = self._buffers.setdefault(bucket_of(key, self._num_buckets), bytearray())
        buffer += packed(key, record)
        self._buffered += len(record)
        if self._buffered >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Appends what is in memory to the buckets' files."""
        for bucket, buffer in self._buffers.items():
            with open(os.path.join(self._folder, f"{bucket:06d}.{os.getpid()}"), "ab") as file:
                file.write(buffer)
        self._buffers.clear()
        self._buffered = 0


def sorted_records(folder: str, buckets: range) -> Iterator[bytes]:
    """The records of some buckets, bucket after bucket, each sorted by key; a bucket's files are removed when read."""
    for bucket in buckets:
        records: list[tuple[int, bytes]] = []
        for path in glob.glob(os.path.join(glob.escape(folder), f"{bucket:06d}.*")):
            with open(path, "rb") as file:
                content = file.read()
            os.remove(path)
            records.extend(unpacked(content))
        records.sort()
        for _, record in records:
            yield record
