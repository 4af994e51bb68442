"""Writes and reads sets of files with a manifest, and folders of them. Guarantees besides those in outputs.py:

- A set appears as one. All of it is in the temporary folder before the first file is renamed: a manifest with complete:
  false, the new files, which replace the earlier ones, and a manifest with complete: true. Readers refuse a set that is
  incomplete (see checked_manifest), and files of two sets are never side by side. Of files without a manifest, the one
  that makes the others readable is removed first and written last: a checkpoint's index, a model's weights,
  saved_model.pb. An error puts all earlier files back.
- A file that is no output of ours is never replaced or removed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import zlib
from typing import Any, Collection, Iterable, Iterator, Mapping, Sequence

from albert_tf.utils.files import (
    absolute,
    check_directory,
    check_name_fits,
    check_no_wildcard,
    is_inside,
    is_remote,
    names_in,
    open_binary,
    read_bytes,
    read_json_object,
    written_path,
)
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.outputs import move, move_back, output, remove, replace_files, sync, temporary_folder

# The manifest of a folder that output_folder has written is named after this.
EXPORT = "export"
# Manifests have checksums of files with these endings. The records of a TFRecord file have checksums themselves.
_SUMMED = (".npy", ".safetensors", ".t7")
_BLOCK = 1 << 20
_MANIFEST_START = b'{\n  "complete": '


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
    """The path of the manifest of a file, or of the shards it belongs to. None if there is none."""
    own, of_shards = manifest_path(path), manifest_path(re.sub(r"-\d{5}-of-\d{5}(?=(\.\w+)?$)", "", path))
    return next(filter(tf.io.gfile.exists, (own, of_shards)), None)


def read_manifest(manifest: str) -> dict[str, Any]:
    """The content of a manifest: complete, made_from, and files: the size and further entries of each file by name.

    A manifest that was damaged, such as by a power cut, counts as incomplete, with no files.
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
    for name in files:  # the next output removes them
        if os.path.isabs(name) or os.pardir in name.split("/"):
            raise ValueError(f"{manifest} names {name!r}, which is outside of its folder: it is damaged, or not ours")
    return content


def checked_manifest(manifest: str) -> dict[str, Any]:
    """The content of a manifest. Raises ValueError unless all files exist and have the sizes in it."""
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
    """The made_from in the manifest of a file, after checking the file; None without a file or manifest."""
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
    """The entry of a file in the content of its manifest. Raises ValueError if the manifest does not list the file."""
    name = os.path.basename(path)
    if name not in content["files"]:
        raise ValueError(f"{manifest} does not list {path}, which is of an earlier output: make the files again, or "
                         "remove it")
    return content["files"][name]


def _write_manifest(path: str, content: Mapping[str, Any]) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(content, indent=2, sort_keys=True) + "\n")
    sync(path)


def check_output(path: str, files: Iterable[str]) -> Collection[str]:
    """Raises ValueError if a path of a set has a file that is not empty, and no earlier output of this program.

    Returns the names of the files of the earlier output.
    """
    manifest, earlier, known = manifest_path(path), [], []
    names = {os.path.relpath(file, os.path.dirname(manifest)): file for file in (manifest, *files)}
    with contextlib.suppress(ValueError):  # no manifest, or another file at its path
        earlier = list(read_manifest(manifest)["files"])
        known = [os.path.basename(manifest), *(earlier or names)]  # a damaged one lists none
    for name, file in names.items():
        if not is_remote(file):
            check_name_fits(file, ".earlier")  # of a manifest
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
    """The outputs of one command, each a set of files with a manifest."""

    temporary: dict[str, str]  # the temporary path of each file, in a folder that may have other files, too
    counts: dict[str, int] = dataclasses.field(default_factory=dict)  # of records, by file, for the manifest
    made_from: dict[str, Any] = dataclasses.field(default_factory=dict)  # files and flags, as JSON values

    def commit(self, outputs: Mapping[str, Sequence[str]], folders: Mapping[str, str]) -> None:
        """Replaces the files of each output by those in its temporary folder. Manifests of several name each other."""
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
                    undo.callback(move, f"{temporary}.earlier", manifest)
                else:
                    undo.callback(move_back, temporary, manifest)
                move(temporary, manifest)
                sync(os.path.dirname(path))
                _write_manifest(temporary, dict(content, complete=True))
            for path, (earlier, new) in files_of.items():
                others = (os.path.join(os.path.dirname(path), name) for name in earlier)
                removed = [_target(other) for other in others if is_remote(other) or not os.path.islink(other)
                           and is_inside(other, os.path.dirname(path))]  # no link to a folder leads out of it
                replace_files(dict.fromkeys([*removed, *new]), new, folders[path], undo)
            for path in contents:
                move(_temporary_manifest(path, folders[path]), manifest_path(path))
                sync(os.path.dirname(path))
            undo.pop_all()


def _temporary_manifest(path: str, folder: str) -> str:
    return os.path.join(folder, os.path.basename(manifest_path(path)))


def _entry(path: str) -> dict[str, Any]:
    """The entry of a file in a manifest: its size, and the checksum of an array."""
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
    """Yields an OutputSet. Its files become the outputs when the block ends without an error.

    `outputs` has the files of each output: {"x.tfrecord": ["x-00000-of-00002.tfrecord", ...]}. Each output has one
    manifest. Files that were not written are no part of it.
    """
    for path, files in outputs.items():
        check_output(path, files)
    with contextlib.ExitStack() as stack:
        folders = {path: stack.enter_context(temporary_folder(_target(path), wait=False)) for path in sorted(outputs)}
        written = OutputSet({file: os.path.join(folders[path], os.path.basename(file))
                             for path, files in outputs.items() for file in files})
        yield written
        written.commit(outputs, folders)


# --- folders ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def output_folder(path: str, made_from: dict[str, Any] | None = None) -> Iterator[str]:
    """Yields a temporary folder. Its files are moved to the folder `path` when the block ends without an error.

    They replace the files that this function wrote there before. Files that were added to the folder stay. If `path` is
    a symbolic link, its target is replaced.
    """
    check_export(path)
    path = written_path(path.rstrip("/"))
    with temporary_folder(path, folder=path) as temporary:
        yield temporary
        files = [os.path.join(parent, name) for parent, _, names in tf.io.gfile.walk(temporary) for name in names
                 if not name.endswith(".lock")]  # one that could not be removed
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

    The files in `last`, without which the others are no model, are removed at first, and the block must write them
    last. After an error without any of them, a folder that had no files is empty again, since settings alone are no
    model; in another folder, new files may be somebody else's, and stay. The manifest is .KIND.manifest.json.
    """
    manifest, was_empty = _manifest_in(folder, kind), all(name.startswith(".") for name in names_in(folder))
    with output(manifest) as temporary:
        _write_manifest(temporary, dict(complete=False, files={name: {} for name in last}, made_from=made_from))
    for name in last:
        remove(os.path.join(folder, name))
    try:
        yield
    except BaseException:
        if was_empty and not any(tf.io.gfile.exists(os.path.join(folder, name)) for name in last):
            for name in names_in(folder):
                if not name.startswith("."):
                    remove(os.path.join(folder, name))
            remove(manifest)
        raise
    files = {name: _entry(os.path.join(folder, name)) for name in last}
    with output(manifest) as temporary:
        _write_manifest(temporary, dict(complete=True, files=files, made_from=made_from))


def is_replaceable(folder: str, kind: str, made_from: dict[str, Any]) -> bool:
    """Whether the model in a folder is incomplete or has the same made_from, which must not be {}."""
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
