"""The outputs of data creation: all shards are written to temporary folders, and renamed when all are complete."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
from typing import Iterator

from albert_tf.data.records import all_or_none, check_outputs
from albert_tf.utils.counts import count_of
from albert_tf.utils.manifests import move_with_manifest
from albert_tf.utils.remote import written_path
from albert_tf.utils.temporary_files import temporary_folder

# The number of outputs that are renamed at the same time. On an object store, each takes a few tenths of a second.
_RENAMING_THREADS = 16


@contextlib.contextmanager
def temporary_shards(output_files: list[str]) -> Iterator[list[str]]:
    """Yields a temporary path for each output, in a temporary folder next to it."""
    directories = [os.path.dirname(written_path(path)) for path in output_files]
    with contextlib.ExitStack() as stack:
        folders = {directory: stack.enter_context(temporary_folder(os.path.join(directory, "create_pretraining_data"),
                                                                   output=directory or os.curdir))
                   for directory in dict.fromkeys(directories)}
        yield [os.path.join(folders[directory], f"shard-{number:06d}") for number, directory in enumerate(directories)]


def move_shards(shard_files: list[str], output_files: list[str], counts: list[int], made_from: dict) -> None:
    """Renames the shards to the outputs, and writes their manifests.

    Args:
      shard_files: the paths of temporary_shards, where all shards are complete.
      output_files: paths of the outputs.
      counts: the number of records of each shard.
      made_from: the made_from entry of the manifests.

    Raises:
      ValueError: a shard has no records, or an output would replace a file that is not an earlier output. No earlier
        output has been replaced then.
    """
    if 0 in counts:
        raise ValueError(f"shard {counts.index(0) + 1} of {len(counts)}, {output_files[counts.index(0)]}, has no "
                         f"records, since the text gives only {count_of(sum(counts), 'example')}: set --num_shards "
                         "to a smaller number, or name fewer output files")
    check_outputs(output_files)  # again, since the work takes hours

    def move(source: str, path: str, count: int) -> None:
        move_with_manifest(source, path, made_from, count=count)

    with all_or_none(output_files), concurrent.futures.ThreadPoolExecutor(_RENAMING_THREADS) as threads:
        list(threads.map(move, shard_files, output_files, counts))
