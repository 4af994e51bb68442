"""Writes outputs: a file, a set of files with a manifest, a folder, a checkpoint. What is promised:

- Whole or not at all. Files are written under temporary names beside the output and renamed when they are complete. An
  error or a kill before that leaves an earlier output as it was.
- On the disk before it is called done. A file is synced before it is renamed, and its folder afterwards, so that an
  output outlives a power cut.
- A set appears as one. All of it is in the temporary folder before the first file is renamed: a manifest with complete:
  false, the new files in the place of the earlier ones, and a manifest with complete: true. Readers refuse a set that
  is incomplete (see checked_manifest), and files of two sets are never side by side. Of files without a manifest, the
  one that makes the others readable is removed first and written last: a checkpoint's index, a model's weights,
  saved_model.pb. An error puts all earlier files back.
- Repeatable. What a killed command left is replaced or removed when the same command runs again, and a finished output
  is made again. A file that is no output of ours is never replaced or removed by a set or a folder.
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
import dataclasses
import errno
import functools
import glob
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import tempfile
import zlib
from typing import Any, Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from albert_tf.utils.files import (
    absolute,
    check_directory,
    check_is_file,
    check_no_wildcard,
    is_remote,
    make_directory,
    names_in,
    open_binary,
    read_bytes,
    read_json_object,
    version,
    written_path,
)
from albert_tf.utils.imports import tensorflow as tf

# What the manifest of a folder is named after, which output_folder has written.
EXPORT = "export"
# Ends of the names of files without which the others of a checkpoint or a SavedModel are not read.
_LAST = (".index", "saved_model.pb")
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# Errors of writing. Python's own have no file name if they come from a file that is open already.
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
# Ends of the names of files whose checksums are in manifests. The records of a TFRecord file have checksums themselves.
_SUMMED = (".npy", ".safetensors")
_BLOCK = 1 << 20
_MANIFEST_START = b'{\n  "complete": '
# The number of files that are renamed at the same time. On an object store, each takes a few tenths of a second.
_RENAMING_THREADS = 16


# --- locks and errors ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: str, wait: bool = False, refusal: str | None = None) -> Iterator[bool]:
    """Keeps other blocks with the same path out, in this process and in others.

    Args:
      path: path beside which the lock is made.
      wait: whether to wait for the other block. If not, this one is refused.
      refusal: what the error message says of the other block.

    Yields:
      Whether there is a lock: remote paths and some file systems have none.
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
def _errors_naming(path: str, temporary: str, folder: str) -> Iterator[None]:
    """Makes errors of writing the files of a temporary folder name their places in `folder`, or the output `path`."""
    def renamed(text: str) -> str:
        return text.replace(os.path.join(temporary, ""), os.path.join(folder, "")).replace(temporary, path)

    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _CANNOT_WRITE:  # of an open file
            raise OSError(error.errno, error.strerror, path) from error
        if temporary in f"{error.filename} {error.filename2}":
            raise OSError(error.errno, error.strerror, renamed(error.filename)) from error
        if temporary in str(error):
            raise OSError(renamed(str(error))) from error
        raise
    except tf.errors.OpError as error:
        if temporary not in error.message:
            raise
        raise OSError(f"{path}: {renamed(error.message.rpartition('; ')[2])}") from error


@contextlib.contextmanager
def _temporary_folder(path: str, wait: bool = True, folder: str | None = None) -> Iterator[str]:
    """A locked block with an empty folder .NAME.tmp beside `path`, which is removed at its end.

    Args:
      folder: where its files will be; None: the folder of `path`.
    """
    temporary = _hidden(path, "tmp")
    with locked(path, wait), _errors_naming(path, temporary, os.path.dirname(path) if folder is None else folder):
        _remove(temporary)
        make_directory(temporary)
        try:
            yield temporary
        finally:
            try:
                _remove(temporary)
            except (OSError, tf.errors.OpError) as error:
                logging.warning("%s cannot be removed: %s", temporary, error)


# --- the disk --------------------------------------------------------------------------------------------------------


def _remove(path: str) -> None:
    """Removes a file or a folder, if there is one."""
    if tf.io.gfile.exists(path) or not is_remote(path) and os.path.islink(path):
        with contextlib.suppress(tf.errors.NotFoundError):  # ram:// takes the start of another file's name for a folder
            tf.io.gfile.rmtree(path) if tf.io.gfile.isdir(path) else tf.io.gfile.remove(path)


def _sync(path: str) -> None:
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


def _move(path: str, new_path: str) -> None:
    make_directory(os.path.dirname(new_path))
    if is_remote(path):
        tf.io.gfile.rename(path, new_path, overwrite=True)
    else:
        os.replace(path, new_path)


def _move_back(path: str, new_path: str) -> None:
    """Undoes _move, which may have failed, and removes folders that are empty now."""
    if tf.io.gfile.exists(new_path):
        _move(new_path, path)
    with contextlib.suppress(OSError):
        os.removedirs(os.path.dirname(new_path))


def _replace(earlier: Iterable[str], new: Mapping[str, str], temporary: str, undo: contextlib.ExitStack) -> None:
    """Replaces files. Those of _LAST are moved away first and appear last.

    Args:
      earlier: the files that are moved to the temporary folder, if they exist.
      new: the temporary path of each new file.
      undo: gets what puts all files back.
    """
    def move(paths: tuple[str, str]) -> None:
        undo.callback(_move_back, *paths)
        _move(*paths)

    moves = [(path, os.path.join(temporary, f"{number}.earlier")) for number, path in enumerate(earlier)
             if tf.io.gfile.exists(path)]
    stages = [[each for each in moves if each[0].endswith(_LAST) == is_last] for is_last in (True, False)]
    stages += [[(new[path], path) for path in new if path.endswith(_LAST) == is_last] for is_last in (False, True)]
    for temporary in new.values():
        _sync(temporary)
    for stage in stages:
        with concurrent.futures.ThreadPoolExecutor(_RENAMING_THREADS) as threads:
            list(threads.map(move, stage))
    for folder in {os.path.dirname(path) for path in new}:
        _sync(folder)


# --- one file --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def output(path: str) -> Iterator[str]:
    """Yields a local temporary path, and renames it to `path` when the block ends without an error.

    There is an empty file at the temporary path, with the permissions that the umask leaves. If `path` is a
    symbolic link, its target is replaced.
    """
    path = written_path(path)
    with _temporary_folder(path) as beside, contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory()) if is_remote(path) else beside
        local, temporary = (os.path.join(place, os.path.basename(path)) for place in (folder, beside))
        open(local, "w").close()
        yield local
        if is_remote(path):
            tf.io.gfile.copy(local, temporary)
        _sync(temporary)
        _move(temporary, path)
        _sync(os.path.dirname(path))


def write_bytes(path: str, content: bytes) -> None:
    """Writes `content` to `path`. The file is never left half written."""
    with output(path) as temporary, open(temporary, "wb") as file:
        file.write(content)


def write_text(path: str, text: str) -> None:
    """Writes `text` to `path` as UTF-8. The file is never left half written."""
    write_bytes(path, text.encode())


def write_csv(path: str, rows: Iterable[Sequence[Any]], excel_separator: str | None = None) -> None:
    """Writes rows, of which the first one has the names of the columns, to a CSV file as write_text does.

    Args:
      excel_separator: for Excel, which needs a byte-order mark, the separator of its language: "," or, where numbers
        have a decimal comma, ";".
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
        _remove(path)


# --- arrays: .npy files ----------------------------------------------------------------------------------------------


def read_array(path: str) -> np.ndarray:
    """The array of an .npy file, of which only what is used is read into memory."""
    check_is_file(path)
    try:
        return np.load(local_copy(path), mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not an .npy file with an array of numbers: {error}") from error


WriteRows = Callable[[int, np.ndarray], None]


@contextlib.contextmanager
def array_writer(path: str, shape: tuple[int, ...], dtype=np.float32) -> Iterator[WriteRows]:
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
    with (_temporary_folder(os.path.join(directory, "checkpoints")) as folder,
          _errors_naming(prefix, folder, directory), contextlib.ExitStack() as undo):
        yield os.path.join(folder, name)
        parts = sorted(part for part in names_in(folder) if part.startswith(f"{name}."))  # data, index
        if len(parts) < 2 or parts[-1] != f"{name}.index":
            raise OSError(f"{prefix} was not saved, since another program has removed its temporary files: start again")
        new = {os.path.join(directory, part): os.path.join(folder, part) for part in parts}
        _replace(new, new, folder, undo)
        undo.pop_all()


def checkpoint_reader(prefix: str) -> Any:
    """TensorFlow's reader of the checkpoint at a prefix."""
    check_no_wildcard(prefix)
    return tf.compat.v1.train.NewCheckpointReader(prefix)


# --- manifests -------------------------------------------------------------------------------------------------------


def manifest_path(path: str) -> str:
    """x.tfrecord -> x.manifest.json; x.npy -> x.npy.manifest.json."""
    return path.removesuffix(".tfrecord") + ".manifest.json"


def shard_paths(path: str, num_shards: int) -> list[str]:
    """The paths of shards: x.tfrecord -> x-00000-of-00008.tfrecord, ...; a single shard has the path itself."""
    if num_shards == 1:
        return [path]
    stem, ending = os.path.splitext(path)
    return [f"{stem}-{shard:05d}-of-{num_shards:05d}{ending}" for shard in range(num_shards)]


def manifest_of(path: str) -> str | None:
    """The path of the manifest of a file: its own or that of its shards. None if there is none."""
    own, of_shards = manifest_path(path), manifest_path(re.sub(r"-\d{5}-of-\d{5}(?=(\.\w+)?$)", "", path))
    return next(filter(tf.io.gfile.exists, (own, of_shards)), None)


def read_manifest(manifest: str) -> dict[str, Any]:
    """The content of a manifest: complete, made_from, and files: the size and further entries of each file by name.

    A manifest that was damaged, such as by a power cut, is that of an incomplete output whose files are not known.
    """
    try:
        content = read_json_object(manifest)
    except ValueError:
        rest = read_bytes(manifest).strip(b"\0")
        if rest and not rest.startswith(_MANIFEST_START):  # of another program
            raise
        return dict(complete=False, made_from={}, files={})
    files = content.get("files")
    if (type(content.get("complete")) is not bool or not isinstance(content.get("made_from"), dict)
            or not isinstance(files, dict) or not all(isinstance(file, dict) for file in files.values())):
        raise ValueError(f"{manifest} is not a manifest of this version: make the files again")
    return content


def checked_manifest(manifest: str) -> dict[str, Any]:
    """The content of a manifest whose files are all there, with their sizes."""
    content = read_manifest(manifest)
    if not content["complete"]:
        raise ValueError(f"{manifest} says that its files are not complete, since the command that writes them has not "
                         "ended or was stopped: run it again")
    for name, file in content["files"].items():
        path = os.path.join(os.path.dirname(manifest), name)
        if not tf.io.gfile.exists(path):
            raise ValueError(f"{path} is missing, which {manifest} lists: make the files again")
        size = tf.io.gfile.stat(path).length
        if size != file.get("size"):
            raise ValueError(f"{path} has {size:,} bytes but its manifest says {file.get('size')}: it was truncated or "
                             "changed; make it again")
    return content


def made_from_of(path: str) -> dict[str, Any] | None:
    """The made_from of a file with a complete manifest, whose checksum is compared; None without one."""
    manifest = manifest_of(path)
    if manifest is None or not tf.io.gfile.exists(path):
        return None
    content = checked_manifest(manifest)
    _check_sum(path, manifest, entry_of(path, manifest, content))
    return content["made_from"]


def _check_sum(path: str, manifest: str, entry: Mapping[str, Any]) -> None:
    if "crc32" in entry and _crc32(path) != entry["crc32"]:
        raise ValueError(f"{path} is damaged or was changed: its checksum is not that in {manifest}. Make it again, or "
                         f"remove {manifest} if another program has changed it")


def entry_of(path: str, manifest: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a file in its manifest, whose content is given. Raises ValueError if it does not list the file."""
    name = os.path.basename(path)
    if name not in content["files"]:
        raise ValueError(f"{manifest} does not list {path}, which is of an earlier output: make the files again, or "
                         "remove it")
    return content["files"][name]


def _write_manifest(path: str, content: Mapping[str, Any]) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(content, indent=2, sort_keys=True) + "\n")
    _sync(path)


def check_output(path: str, files: Iterable[str]) -> Collection[str]:
    """Checks that a set may be written: each path has no file, an empty file or an earlier output of this program.

    Returns:
      the names of the files of the earlier output.
    """
    manifest, earlier, known = manifest_path(path), [], []
    names = {os.path.relpath(file, os.path.dirname(manifest)): file for file in (manifest, *files)}
    with contextlib.suppress(ValueError):  # no manifest, or another file at its path
        earlier = list(read_manifest(manifest)["files"])
        known = [os.path.basename(manifest), *(earlier or names)]  # a damaged one lists none
    for name, file in names.items():
        if tf.io.gfile.isdir(file):
            raise ValueError(f"{file} is a directory, but must be a file")
        target = written_path(file)
        if name not in known and tf.io.gfile.exists(target) and tf.io.gfile.stat(target).length:
            raise ValueError(f"{file} exists, and no {manifest} says that it is an earlier output: choose another "
                             "path, or remove it")
    return earlier


# --- a set of files --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class OutputSet:
    """The outputs of one command, each a set of files with a manifest.

    Attributes:
      temporary: temporary path of each file, in a folder that may have other files, too.
      counts: the number of records of each file that the manifest shall have.
      made_from: the files and flags that the outputs depend on, as JSON values.
    """

    temporary: dict[str, str]
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    made_from: dict[str, Any] = dataclasses.field(default_factory=dict)

    def commit(self, outputs: Mapping[str, Sequence[str]], folders: Mapping[str, str]) -> None:
        """Replaces outputs by those of their files that were written. Manifests of several outputs name each other.

        Args:
          outputs: the files of each output.
          folders: the temporary folder of each output.
        """
        contents, files_of = {}, {}
        for path, files in outputs.items():
            written = [file for file in files if tf.io.gfile.exists(self.temporary[file])]
            contents[path] = dict(made_from=self.made_from, files={
                os.path.relpath(file, os.path.dirname(path)): dict(
                    {"count": self.counts[file]} if file in self.counts else {}, **_entry(self.temporary[file]))
                for file in written})
            # Checked again, since the work may take hours.
            files_of[path] = check_output(path, written), {_target(file): self.temporary[file] for file in written}
        if len(contents) > 1:
            key = hashlib.sha256(json.dumps(list(contents.values()), sort_keys=True).encode()).hexdigest()[:16]
            for path, content in contents.items():
                content["run"] = dict(id=key, manifests=sorted(
                    os.path.relpath(manifest_path(other), os.path.dirname(path)) for other in contents))
        with contextlib.ExitStack() as undo:
            for path, content in contents.items():
                # The earlier files are listed until they are removed.
                listed = {**dict.fromkeys(files_of[path][0], {}), **content["files"]}
                manifest, temporary = manifest_path(path), _temporary_manifest(path, folders[path])
                _write_manifest(temporary, dict(content, files=listed, complete=False))
                if tf.io.gfile.exists(manifest):
                    tf.io.gfile.copy(manifest, f"{temporary}.earlier")
                    undo.callback(_move, f"{temporary}.earlier", manifest)
                else:
                    undo.callback(_move_back, temporary, manifest)
                _move(temporary, manifest)
                _sync(os.path.dirname(path))
                _write_manifest(temporary, dict(content, complete=True))
            for path, (earlier, new) in files_of.items():
                places = (os.path.join(os.path.dirname(path), name) for name in earlier)
                removed = [_target(place) for place in places if is_remote(place) or not os.path.islink(place)]
                _replace(dict.fromkeys([*removed, *new]), new, folders[path], undo)
            for path in contents:
                _move(_temporary_manifest(path, folders[path]), manifest_path(path))
                _sync(os.path.dirname(path))
            undo.pop_all()


def _temporary_manifest(path: str, folder: str) -> str:
    return os.path.join(folder, os.path.basename(manifest_path(path)))


def _entry(path: str) -> dict[str, Any]:
    """What a manifest says of a file: its size, and the checksum of arrays."""
    entry = dict(size=tf.io.gfile.stat(path).length)
    return dict(entry, crc32=_crc32(path)) if path.endswith(_SUMMED) else entry


def _crc32(path: str) -> int:
    checksum = 0
    with open_binary(path) as file:
        while block := file.read(_BLOCK):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _target(path: str) -> str:
    """Where a link leads, also when the file there was removed."""
    return path if is_remote(path) else os.path.realpath(path)


@contextlib.contextmanager
def output_set(outputs: Mapping[str, Sequence[str]]) -> Iterator[OutputSet]:
    """Yields an OutputSet, whose files become the outputs when the block ends without an error.

    Args:
      outputs: the files of each output: {"x.tfrecord": ["x-00000-of-00002.tfrecord", ...]} or {"x.npy": ["x.npy",
        "x.ranges.npy"]}. Each output has one manifest. Files that were not written are no part of it.

    Example::

      with output_set({"x.npy": ["x.npy"]}) as outputs:
          np.save(outputs.temporary["x.npy"], array)
          outputs.made_from = dict(seed=1)
    """
    for path, files in outputs.items():
        check_output(path, files)
    with contextlib.ExitStack() as stack:
        folders = {path: stack.enter_context(_temporary_folder(_target(path), wait=False)) for path in sorted(outputs)}
        written = OutputSet({file: os.path.join(folders[path], os.path.basename(file))
                             for path, files in outputs.items() for file in files})
        yield written
        written.commit(outputs, folders)


# --- folders ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def output_folder(path: str, made_from: dict[str, Any] | None = None) -> Iterator[str]:
    """Yields a temporary folder, whose files become those of the folder `path` when the block ends without an error.

    They replace the files that this function wrote there before. Files that were added to the folder stay. If `path` is
    a symbolic link, its target is replaced.
    """
    check_export(path)
    path = written_path(path.rstrip("/"))
    with _temporary_folder(path, folder=path) as temporary:
        yield temporary
        files = [os.path.join(parent, name) for parent, _, names in tf.io.gfile.walk(temporary) for name in names]
        written = OutputSet({os.path.join(path, os.path.relpath(file, temporary)): file for file in files},
                            made_from=made_from or {})
        export = os.path.join(path, f".{EXPORT}")
        written.commit({export: list(written.temporary)}, {export: temporary})


def check_export(*paths: str | None) -> None:
    """Checks that output_folder may write folders. Commands call it before they start their work."""
    for path in filter(None, paths):
        check_no_wildcard(absolute(path))
        path = written_path(path.rstrip("/"))
        check_directory(path)
        has_files = any(not name.startswith(".") for name in names_in(path))
        if has_files and not tf.io.gfile.exists(_manifest_in(path, EXPORT)):
            raise ValueError(f"{path} exists and is not an earlier export: choose another path, or remove it")


def _manifest_in(folder: str, kind: str) -> str:
    return manifest_path(os.path.join(folder, f".{kind}"))


@contextlib.contextmanager
def model_files(folder: str, kind: str, made_from: dict[str, Any], last: Collection[str]) -> Iterator[None]:
    """A block that writes a model into a folder that may have other files, too. Only one may run at a time.

    Args:
      kind: what is written, such as "onnx" (EXPORT by output_folder). The manifest is .KIND.manifest.json.
      last: names of the files without which the others are no model. They are removed at first, and the block must
        write them last.
    """
    manifest = _manifest_in(folder, kind)
    with output(manifest) as temporary:
        _write_manifest(temporary, dict(complete=False, files={name: {} for name in last}, made_from=made_from))
    for name in last:
        _remove(os.path.join(folder, name))
    try:
        yield
    except BaseException:
        if all(name.startswith(".") for name in names_in(folder)):  # the block has written nothing
            _remove(manifest)
        raise
    files = {name: _entry(os.path.join(folder, name)) for name in last}
    with output(manifest) as temporary:
        _write_manifest(temporary, dict(complete=True, files=files, made_from=made_from))


def is_replaceable(folder: str, kind: str, made_from: dict[str, Any]) -> bool:
    """Whether the model in a folder was made from the same, or is incomplete. {} is never the same."""
    manifest = _manifest_in(folder, kind)
    if not tf.io.gfile.exists(manifest):
        return False
    content = read_manifest(manifest)
    return not content["complete"] or bool(made_from) and content["made_from"] == made_from


def check_model_file(folder: str, kind: str, name: str) -> None:
    """Raises ValueError if a file that model_files has written does not have the checksum of its manifest."""
    manifest = _manifest_in(folder, kind)
    if tf.io.gfile.exists(manifest):
        _check_sum(os.path.join(folder, name), manifest, read_manifest(manifest)["files"].get(name, {}))


# --- local copies ----------------------------------------------------------------------------------------------------


def folder_of_this_process() -> str:
    """An empty folder in the system's folder for temporary files. It is removed when the process ends.

    Those of killed processes are removed, too, if a lock tells that they are not in use.
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

    def remove() -> None:
        if os.getpid() == process:  # a forked child has this function, too
            shutil.rmtree(folder, ignore_errors=True)
            until_the_end.close()

    atexit.register(remove)
    return folder


def local_copy(path: str) -> str:
    """The path of a local file with the content of the file at `path`: `path` itself if it is local, or a copy.

    It is for libraries that read only local files. One copy is made for each version of a remote file, and is removed
    when the process ends.
    """
    return _copy_of(path, *version(path)) if is_remote(path) else path


@functools.lru_cache(maxsize=None)
def _copy_of(path: str, length: int, mtime_nsec: int) -> str:
    local = os.path.join(folder_of_this_process(), os.path.basename(path))
    tf.io.gfile.copy(path, local)
    return local
