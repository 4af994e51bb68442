"""Writes outputs: a file, an array, a checkpoint (manifests.py: sets of files and folders). Guarantees:

- Whole or not at all. Files are written under temporary names beside the output and renamed when they are complete. An
  error or a kill before that leaves an earlier output as it was.
- On the disk before it is called done. A file is synced before it is renamed, and its folder afterwards, so that an
  output outlives a power cut.
- Repeatable. What a killed command left is replaced or removed when the same command runs again, and a finished output
  is made again.
- One writer. A lock beside the output (flock on .NAME.lock) is held from before the work begins until its end. A second
  command is refused in one line. Short writes, checkpoints and exports at the end of a training, which are whole in any
  case, wait for each other. The lock ends with its process.
- An error of writing (a full disk, a folder that may not be written) names the output.

Temporary names are fixed (.NAME.tmp), since the lock makes the writer the only one. Remote paths (gs://) and file
systems without locks have none: there, two commands must not write one output.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import csv
import errno
import functools
import glob
import io
import os
import secrets
import shutil
import tempfile
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from albert_tf.utils.files import (
    check_directory,
    check_is_file,
    check_no_wildcard,
    errors_naming,
    is_remote,
    make_directory,
    names_in,
    scratch_folder,
    version,
    written_path,
)
from albert_tf.utils.imports import tensorflow as tf

# Ends of the names of files without which the others of a checkpoint or an export are not read.
_LAST = (".index", "saved_model.pb", ".onnx")
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# The number of files that are renamed at the same time. On an object store, each takes a few tenths of a second.
_RENAMING_THREADS = 16


# --- locks and errors ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: str, wait: bool = False, refusal: str | None = None) -> Iterator[bool]:
    """Keeps other blocks with the same path out, in this process and in others. The lock is beside the path.

    Yields whether there is a lock: remote paths and some file systems have none. Without `wait`, another block is an
    error; `refusal` says what it does.
    """
    if is_remote(path):
        yield False
        return
    import filelock

    directory = os.path.dirname(path)
    check_directory(directory)
    is_new, process = not os.path.isdir(directory or os.curdir), os.getpid()
    lock = filelock.FileLock(_hidden(path, "lock"), thread_local=False, fallback_to_soft=False)
    while not lock.is_locked:
        try:
            make_directory(directory)
            lock.acquire(timeout=-1 if wait else 0, poll_interval=0.02)
        except FileNotFoundError:  # the other block has removed the folder that was made for its lock
            continue
        except filelock.Timeout:
            what = refusal or f"{path} is being written by another command"
            raise ValueError(f"{what}: wait until it has ended, or choose another path") from None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                break
            is_of_lock = str(error.filename or ".lock").endswith(".lock")
            raise OSError(error.errno, error.strerror, path if is_of_lock else error.filename) from error
    try:
        yield lock.is_locked
    finally:
        if os.getpid() == process:  # not in a forked child that leaves the block, too
            if lock.is_locked:
                with contextlib.suppress(OSError):  # the folder was removed
                    os.remove(lock.lock_file)
                lock.release()
            if is_new:
                with contextlib.suppress(OSError):  # it has files
                    os.rmdir(directory)


def used_alone(directory: str, use: str) -> contextlib.AbstractContextManager[bool]:
    """A block in which the folder has no other use of the same name, such as "training" (see `locked`)."""
    return locked(os.path.join(directory, use), refusal=f"{directory} is in use by another {use}")


def _hidden(path: str, ending: str) -> str:
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.{ending}")


@contextlib.contextmanager
def _errors_of_output(path: str, temporary: str, folder: str) -> Iterator[None]:
    """Makes errors of writing the files of a temporary folder name their paths in `folder`, or the output `path`."""
    def renamed(text: str) -> str:
        return text.replace(os.path.join(temporary, ""), os.path.join(folder, "")).replace(temporary, path)

    try:
        with errors_naming(path):
            yield
    except OSError as error:
        if temporary in f"{error.filename} {error.filename2}":  # of a rename: the name that is not temporary
            name = error.filename2 if error.filename2 and temporary not in error.filename2 else error.filename
            raise OSError(error.errno, error.strerror, renamed(name)) from error
        if temporary in str(error):
            raise OSError(renamed(str(error))) from error
        raise
    except tf.errors.OpError as error:
        if temporary not in error.message:
            raise
        raise OSError(f"{path}: {renamed(error.message.rpartition('; ')[2])}") from error


@contextlib.contextmanager
def temporary_folder(path: str, wait: bool = True, folder: str | None = None) -> Iterator[str]:
    """A locked block with an empty folder .NAME.tmp beside `path`, which is removed at its end.

    `folder` is where its files will be; None: the folder of `path`.
    """
    temporary = _hidden(path, "tmp")
    with locked(path, wait), _errors_of_output(path, temporary, os.path.dirname(path) if folder is None else folder):
        remove(temporary)
        make_directory(temporary)
        try:
            yield temporary
        finally:
            try:
                remove(temporary)
            except (OSError, tf.errors.OpError) as error:
                logging.warning("%s cannot be removed: %s", temporary, error)


# --- the disk --------------------------------------------------------------------------------------------------------


def remove(path: str) -> None:
    """Removes a file or a folder, if there is one."""
    if tf.io.gfile.exists(path) or not is_remote(path) and os.path.islink(path):
        with contextlib.suppress(tf.errors.NotFoundError):  # ram:// takes the start of another file's name for a folder
            tf.io.gfile.rmtree(path) if tf.io.gfile.isdir(path) else tf.io.gfile.remove(path)


def sync(path: str) -> None:
    """Waits until a local file, or the names in a folder, are on the disk."""
    if is_remote(path):
        return
    descriptor = os.open(path or os.curdir, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(descriptor)


def move(path: str, new_path: str) -> None:
    """Renames a file. The folder of its new path is made if it does not exist."""
    make_directory(os.path.dirname(new_path))
    if is_remote(path):
        tf.io.gfile.rename(path, new_path, overwrite=True)
    else:
        os.replace(path, new_path)


def _is_file(path: str) -> bool:
    """Whether there is a file. At ram://, the beginning of another file's name exists too, as a folder."""
    return tf.io.gfile.exists(path) and not (is_remote(path) and tf.io.gfile.isdir(path))


def move_back(path: str, new_path: str) -> None:
    """Undoes move, which may have failed, and removes folders that are empty now."""
    if _is_file(new_path):
        move(new_path, path)
    with contextlib.suppress(OSError):
        os.removedirs(os.path.dirname(new_path))


def replace_files(earlier: Iterable[str], new: Mapping[str, str], temporary: str, undo: contextlib.ExitStack) -> None:
    """Moves earlier files to the temporary folder, and new files from their temporary paths to their final ones.

    The files in _LAST are moved away first and appear last. `undo` gets what puts all files back.
    """
    def move_one(paths: tuple[str, str]) -> None:
        undo.callback(move_back, *paths)
        move(*paths)

    moves = [(path, os.path.join(temporary, f"{number}.earlier")) for number, path in enumerate(earlier)
             if _is_file(path)]
    stages = [[each for each in moves if each[0].endswith(_LAST) == is_last] for is_last in (True, False)]
    stages += [[(new[path], path) for path in new if path.endswith(_LAST) == is_last] for is_last in (False, True)]
    for path in new.values():
        sync(path)
    for stage in stages:
        with concurrent.futures.ThreadPoolExecutor(_RENAMING_THREADS) as threads:
            list(threads.map(move_one, stage))
    for folder in {os.path.dirname(path) for path in new}:
        sync(folder)


# --- one file --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def output(path: str) -> Iterator[str]:
    """Yields a local temporary path, and renames it to `path` when the block ends without an error.

    There is an empty file at the temporary path, with the permissions that the umask leaves. If `path` is a
    symbolic link, its target is replaced.
    """
    path = written_path(path)
    with temporary_folder(path) as beside, contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch_folder()) if is_remote(path) else beside
        local, temporary = (os.path.join(parent, os.path.basename(path)) for parent in (folder, beside))
        open(local, "w").close()
        yield local
        if is_remote(path):
            tf.io.gfile.copy(local, temporary)
        sync(temporary)
        move(temporary, path)
        sync(os.path.dirname(path))


def write_bytes(path: str, content: bytes) -> None:
    """Writes `content` to `path`. The file is never left half written."""
    with output(path) as temporary, open(temporary, "wb") as file:
        file.write(content)


def write_text(path: str, text: str) -> None:
    """Writes `text` to `path` as UTF-8. The file is never left half written."""
    write_bytes(path, text.encode())


def write_csv(path: str, rows: Iterable[Sequence[Any]], excel_separator: str | None = None) -> None:
    """Writes rows, the first one with the names of the columns, to a CSV file as write_text does.

    For Excel, which needs a byte-order mark, excel_separator is "," or, where numbers have a decimal comma, ";".
    """
    def cell(value: Any) -> Any:
        if isinstance(value, float) and excel_separator == ";":
            return str(value).replace(".", ",")
        return value.replace("\r\n", "\n").replace("\r", "\n") if isinstance(value, str) else value

    text = io.StringIO()
    csv.writer(text, delimiter=excel_separator or ",", lineterminator="\n").writerows(map(cell, row) for row in rows)
    write_text(path, "\ufeff" * bool(excel_separator) + text.getvalue())


def write_or_remove(path: str, text: str | None) -> None:
    """Writes `text` to `path` as write_text does. If it is None, a file at `path` is removed."""
    if text is not None:
        write_text(path, text)
    else:
        remove(path)


# --- arrays: .npy files ----------------------------------------------------------------------------------------------


def read_array(path: str) -> np.ndarray:
    """The array of an .npy file. Only the parts that are used are read into memory."""
    check_is_file(path)
    try:
        return np.load(local_copy(path), mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not an .npy file with an array of numbers: {error}") from error


@contextlib.contextmanager
def array_writer(
    path: str, shape: tuple[int, ...], dtype: np.dtype | type[np.float32] = np.float32
) -> Iterator[Callable[[int, np.ndarray], None]]:
    """Yields a function write(first, values), which writes rows of an array, starting at row `first`.

    Each row must be written once, in any order. The file appears at `path` when the block ends. (A memory map would
    instead end the process with a signal if the disk is full; a write raises OSError.)
    """
    dtype, row_shape = np.dtype(dtype), shape[1:]
    row_bytes = dtype.itemsize * int(np.prod(row_shape))
    header = dict(descr=np.lib.format.dtype_to_descr(dtype), fortran_order=False, shape=shape)
    with output(path) as temporary, open(temporary, "wb") as file:
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


# --- a checkpoint ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def output_checkpoint(prefix: str) -> Iterator[str]:
    """Yields the prefix for a checkpoint in a temporary folder, and renames its files to `prefix` at the block's end.

    The index is renamed last, so a checkpoint with an index is complete. All checkpoints of a directory have the same
    lock and temporary folder, so that the next one removes what a killed one left.
    """
    check_no_wildcard(prefix)
    directory, name = os.path.split(prefix)
    with (temporary_folder(os.path.join(directory, "checkpoints")) as folder,
          _errors_of_output(prefix, folder, directory), contextlib.ExitStack() as undo):
        yield os.path.join(folder, name)
        parts = sorted(part for part in names_in(folder) if part.startswith(f"{name}."))  # data, index
        if len(parts) < 2 or parts[-1] != f"{name}.index":
            raise OSError(f"{prefix} was not saved, since another program has removed its temporary files: start again")
        new = {os.path.join(directory, part): os.path.join(folder, part) for part in parts}
        replace_files(new, new, folder, undo)
        undo.pop_all()


def checkpoint_reader(prefix: str) -> Any:
    """TensorFlow's reader of the checkpoint at a prefix."""
    check_no_wildcard(prefix)
    return tf.compat.v1.train.NewCheckpointReader(prefix)


# --- local copies ----------------------------------------------------------------------------------------------------


def folder_of_this_process() -> str:
    """An empty folder in the system's folder for temporary files. It is removed when the process ends.

    Folders of killed processes are removed, too, if a lock tells that they are not in use.
    """
    start = os.path.join(tempfile.gettempdir(), "albert_tf.")
    for left in glob.glob(f"{glob.escape(start)}*"):
        with contextlib.suppress(ValueError, OSError), locked(left) as is_unused:  # or in use, or of another user
            if is_unused:
                shutil.rmtree(left)
    folder, process = f"{start}{secrets.token_hex(8)}", os.getpid()
    until_the_end = contextlib.ExitStack()
    until_the_end.enter_context(locked(folder))
    os.mkdir(folder, 0o700)  # for this user only, since other users can read the system's folder

    def remove_folder() -> None:
        if os.getpid() == process:  # a forked child has this function, too
            shutil.rmtree(folder, ignore_errors=True)
            until_the_end.close()

    atexit.register(remove_folder)
    return folder


def local_copy(path: str) -> str:
    """The path of a local file with the content of the file at `path`, for libraries that read only local files.

    One copy is made for each version of a remote file, and is removed when the process ends.
    """
    return _copy_of(path, *version(path)) if is_remote(path) else path


@functools.lru_cache(maxsize=None)
def _copy_of(path: str, length: int, mtime_nsec: int) -> str:
    local = os.path.join(folder_of_this_process(), os.path.basename(path))
    tf.io.gfile.copy(path, local)
    return local
