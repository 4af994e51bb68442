"""Writes files, folders and checkpoints so that none is ever half written under its final name.

`array_writer` writes NumPy arrays of any size, row by row.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import pathlib
import stat
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np

from albert_tf.utils.files import check_directory, is_remote, local_place, make_directory, names_in, written_path
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.temporary_files import locked_directory, temporary_file, temporary_folder

# The name of a file in each folder that atomic_folder has written. It lists the folder's files, one per line.
_MARK = ".written_by_albert_tf"


@contextlib.contextmanager
def atomic_write(path: str) -> Iterator[str]:
    """Yields a temporary path next to `path`, and renames it to `path` when the block ends without an error.

    There is an empty file at the temporary path. On an error it is removed, and a file at `path` is not changed. Paths
    can be local ones or those that tf.io.gfile supports (gs://). If `path` is a symbolic link, its target is replaced.

    Raises:
      OSError: the file cannot be written.
    """
    path = written_path(path)
    with temporary_file(path) as temporary:
        yield temporary
        tf.io.gfile.rename(temporary, path, overwrite=True)


@contextlib.contextmanager
def atomic_local_write(path: str) -> Iterator[str]:
    """Like atomic_write, with a temporary path that is always local: for libraries that write only local files.

    The file is copied to a remote `path` at the end.
    """
    if not is_remote(path):
        with atomic_write(path) as temporary:
            yield temporary
        return
    with temporary_file(local_place(path)) as local:
        yield local
        with atomic_write(path) as temporary:
            tf.io.gfile.copy(local, temporary, overwrite=True)


@contextlib.contextmanager
def atomic_folder(path: str, added: Sequence[str] = ()) -> Iterator[str]:
    """Yields a temporary folder next to `path`, and renames it to `path` when the block ends without an error.

    For a remote path the temporary folder is local and is copied. A folder that this function wrote before is replaced.
    If `path` is a symbolic link, its target is replaced.

    Args:
      path: path of the folder.
      added: names of files that the caller writes into the folder later. A later export may replace them, too.

    Raises:
      ValueError: there is a file at `path`, or a non-empty folder that this function did not write, or to which another
        file was added.
      OSError: the folder cannot be written.
    """
    path = written_path(path.rstrip("/"))
    check_export(path)
    with temporary_folder(local_place(path), output=path) as temporary:
        yield temporary
        names = {_MARK, *_files_in(temporary), *added}
        write_text(os.path.join(temporary, _MARK), "".join(f"{name}\n" for name in sorted(names)))
        if is_remote(path):  # an object store has no folders that could be renamed
            _check_export(path)
            if tf.io.gfile.exists(path):
                tf.io.gfile.rmtree(path)
            _copy_folder(temporary, path)
        else:
            _share_permissions(temporary)
            _replace_folder(path, temporary)


def _share_permissions(folder: str) -> None:
    """Gives all inner folders the permissions of the folder, since TensorFlow makes them for their owner alone."""
    mode = os.stat(folder).st_mode
    for parent, names, _ in os.walk(folder):
        for name in names:
            os.chmod(os.path.join(parent, name), stat.S_IMODE(mode))


def _replace_folder(path: str, new: str) -> None:
    """Renames `new` to `path`. An earlier export is removed only then, and on an error it is put back.

    Other processes may export to the same path at the same time: the last one's folder stays.
    """
    with temporary_folder(path) as place, locked_directory(os.path.dirname(path)):
        _check_export(path)
        earlier = os.path.join(place, "earlier")
        if os.path.exists(path):
            os.rename(path, earlier)
        try:
            os.rename(new, path)
        except BaseException:
            if os.path.exists(earlier):
                os.rename(earlier, path)
            raise


def check_export(*paths: str | None) -> None:
    """Checks that atomic_folder may write folders. Scripts call it before they start their work.

    Args:
      *paths: paths of the folders; None is ignored.

    Raises:
      ValueError: there is a file at a path, or a non-empty folder that is not an earlier export, or an earlier export
        to which another file was added.
    """
    for path in filter(None, paths):
        directory = os.path.dirname(path.rstrip("/"))
        check_directory(directory)
        if tf.io.gfile.exists(path):
            with locked_directory(directory):  # so that no other process replaces the folder while it is looked at
                _check_export(path)


def is_replaced(path: str, export: str) -> bool:
    """Whether `path` is the folder of an export or is in it, so that the export replaces what is there."""
    folder, place = pathlib.Path(export).resolve(), pathlib.Path(path).resolve()
    return folder in (place, *place.parents)


def _check_export(path: str) -> None:
    mark = os.path.join(path, _MARK)
    if not tf.io.gfile.exists(mark):
        if tf.io.gfile.exists(path) and (not tf.io.gfile.isdir(path) or tf.io.gfile.listdir(path)):
            raise ValueError(f"{path} exists and is not an earlier export: choose another path, or remove it")
        return
    with tf.io.gfile.GFile(mark) as file:
        own = file.read().splitlines()
    for name in _files_in(path):
        if name not in own:
            raise ValueError(f"{path} is an earlier export, but {os.path.join(path, name)} was added to it, which "
                             "would be lost: choose another path, or move that file")


def _files_in(folder: str) -> list[str]:
    """The sorted paths of all files in a folder and its subfolders, relative to it."""
    return sorted(os.path.relpath(os.path.join(parent, name), folder).replace(os.sep, "/")
                  for parent, _, names in tf.io.gfile.walk(folder) for name in names)


def _copy_folder(source: str, target: str) -> None:
    """Copies a local folder to a remote one.

    _MARK is copied first, so that the incomplete folder of a killed run can be replaced. saved_model.pb is copied last,
    since a folder without it is not a SavedModel.
    """
    order = {_MARK: 0, "saved_model.pb": 2}
    for name in sorted(_files_in(source), key=lambda name: order.get(name, 1)):
        copy = os.path.join(target, name)
        make_directory(os.path.dirname(copy))
        tf.io.gfile.copy(os.path.join(source, name), copy, overwrite=True)


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
        parts = sorted(part for part in names_in(folder) if part.startswith(f"{name}."))  # data, index
        if len(parts) < 2 or parts[-1] != f"{name}.index":
            raise OSError(f"{prefix} was not saved, since another program has removed its temporary files: start again")
        with locked_directory(directory):  # training and an evaluation may replace model.ckpt-best at the same time
            # The old checkpoint of this name is invalid until it has been replaced completely.
            if tf.io.gfile.exists(f"{prefix}.index"):
                tf.io.gfile.remove(f"{prefix}.index")
            for part in parts:
                tf.io.gfile.rename(os.path.join(folder, part), os.path.join(directory, part), overwrite=True)


def write_text(path: str, text: str) -> None:
    """Writes `text` to `path` as UTF-8. The file is never left half written."""
    with atomic_write(path) as temporary:
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write(text)


def write_csv(path: str, rows: Iterable[Sequence[Any]]) -> None:
    """Writes rows, of which the first one has the names of the columns, to a CSV file as write_text does."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(path, text.getvalue())


def write_or_remove(path: str, text: str | None) -> None:
    """Writes `text` to `path` as write_text does. If it is None, a file at `path` is removed."""
    if text is not None:
        write_text(path, text)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


def write_bytes(path: str, content: bytes) -> None:
    """Writes `content` to `path`. The file is never left half written."""
    with atomic_write(path) as temporary, tf.io.gfile.GFile(temporary, "wb") as file:
        file.write(content)


WriteRows = Callable[[int, np.ndarray], None]


@contextlib.contextmanager
def array_writer(path: str, shape: tuple[int, ...], dtype=np.float32) -> Iterator[WriteRows]:
    """Yields a function write(first, values), which writes rows of an array, starting at row `first`.

    Each row must be written once, in any order. The file appears at `path` when the block ends. (A memory map would
    instead end the process with a signal if the disk is full; a write raises OSError.)

    Args:
      path: path of the .npy file.
      shape, dtype: shape and data type of the array.
    """
    dtype, row_shape = np.dtype(dtype), shape[1:]
    row_bytes = dtype.itemsize * int(np.prod(row_shape))
    header = dict(descr=np.lib.format.dtype_to_descr(dtype), fortran_order=False, shape=shape)
    with atomic_local_write(path) as temporary, open(temporary, "wb") as file:
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
