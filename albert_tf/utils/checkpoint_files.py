"""Writes TensorFlow checkpoints so that none is ever half written under its final name."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

from albert_tf.utils.lazy import tensorflow as tf
from albert_tf.utils.temporary_files import locked_directory, temporary_folder


@contextlib.contextmanager
def atomic_checkpoint(prefix: str) -> Iterator[str]:
    """Yields the prefix for a checkpoint in a temporary folder, and renames its files to `prefix` at the block's end.

    The index is renamed last, so a checkpoint with an index is complete. Several processes may write to one directory.

    Raises:
      OSError: the checkpoint cannot be written, or its temporary files were removed.
    """
    directory, name = os.path.split(prefix)
    with temporary_folder(prefix) as folder:
        yield os.path.join(folder, name)
        parts = sorted(part for part in _names(folder) if part.startswith(f"{name}."))  # data, index
        if len(parts) < 2 or parts[-1] != f"{name}.index":
            raise OSError(f"{prefix} was not saved, since another program has removed its temporary files: start again")
        with locked_directory(directory):  # training and an evaluation may replace model.ckpt-best at the same time
            # The old checkpoint of this name is invalid until it has been replaced completely.
            if tf.io.gfile.exists(f"{prefix}.index"):
                tf.io.gfile.remove(f"{prefix}.index")
            for part in parts:
                tf.io.gfile.rename(os.path.join(folder, part), os.path.join(directory, part), overwrite=True)


def _names(folder: str) -> list[str]:
    return tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
