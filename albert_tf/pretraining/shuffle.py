"""A global shuffle of more records than fit into memory: each record has a random key, and records are sorted by key.

Each bucket file has the records of a range of keys. Writers append to these files, and then each bucket is sorted in
memory, one after the other. The order depends on the keys only, not on the number of writers.
"""

from __future__ import annotations

import glob
import os
import struct
from typing import Iterator

_HEADER = struct.Struct("<QI")  # key, length of the record
_KEY_BITS = 63
# A writer appends to the buckets when it has about this many bytes in memory.
_BUFFER_BYTES = 16 << 20


def bucket_of(key: int, num_buckets: int) -> int:
    """The bucket of a key. Each of the `num_buckets` buckets has a range of keys of the same size."""
    return key * num_buckets >> _KEY_BITS


def packed(key: int, record: bytes) -> bytes:
    """Encodes a key and a record for a bucket file.

    Args:
      key: a random integer from 0 to 2**63 - 1.
      record: a serialized record.
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
      folder: folder of the bucket files.
      num_buckets: the number of buckets.
    """

    def __init__(self, folder: str, num_buckets: int):
        self._folder, self._num_buckets = folder, num_buckets
        self._buffers: dict[int, bytearray] = {}
        self._buffered = 0

    def write(self, key: int, record: bytes) -> None:
        """Adds a record. The key is a random integer from 0 to 2**63 - 1."""
        buffer = self._buffers.setdefault(bucket_of(key, self._num_buckets), bytearray())
        buffer += packed(key, record)
        self._buffered += len(record)
        if self._buffered >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Appends the records in memory to the bucket files."""
        for bucket, buffer in self._buffers.items():
            with open(os.path.join(self._folder, f"{bucket:06d}.{os.getpid()}"), "ab") as file:
                file.write(buffer)
        self._buffers.clear()
        self._buffered = 0


def sorted_records(folder: str, buckets: range) -> Iterator[bytes]:
    """The records of several buckets in the order of their keys. A bucket's files are removed once they are read."""
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
