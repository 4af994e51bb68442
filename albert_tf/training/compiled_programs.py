"""Keeps compiled programs for later runs, in a folder of the user: --compilation_cache_dir.

XLA ends a run if a file of its persistent cache is cut, changed or missing, and executes what it reads. So each process
has a folder of its own, which starts with copies of the user's programs. At the end of the process, its new programs
are moved to the user's folder, and those that it has used become the latest ones.

A file there is KIND/DIGEST.NAME. KIND is a hash of everything besides the program on which its machine code depends.
The digest is the content's, so a damaged file is recognized; it is removed and compiled again.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import re
import secrets
import shutil

import albert_tf
from albert_tf import devices
from albert_tf.utils.outputs import folder_of_this_process

_MOST_BYTES = 64_000_000  # of all programs of a user; those that were used longest ago are removed
_FILE = re.compile(r"([0-9a-f]{64})\.(.+)")
_ENDINGS = (".pb", "-cache")  # of TensorFlow's and jax's files
_UNUSED = 0  # the time of access of a copy until it is read
_TENSORFLOW = "TF_XLA_FLAGS"
_FLAGS = '--tf_xla_persistent_cache_directory="{}" --tf_xla_persistent_cache_device_types=CPU '
_FLAGS_OF_PARENT = re.compile(_FLAGS.format(r'[^"]*/albert_tf\.[0-9a-f]+'))


def keep_programs_of_tensorflow(directory: str | None) -> None:
    """Makes TensorFlow 2.21 keep what XLA compiles for the CPU (2.15 cannot). For `directory` see kept_programs.

    It must be called before both TensorFlow is imported and absl's app has started: TensorFlow looks for devices then,
    and reads TF_XLA_FLAGS. A cache that the user has set there stays.
    """
    flags = _FLAGS_OF_PARENT.sub("", os.environ.pop(_TENSORFLOW, ""))  # a process that started this one has its folder
    if flags:
        os.environ[_TENSORFLOW] = flags
    if (_tensorflow_version().startswith("2.21.") and "persistent_cache" not in flags
            and (programs := kept_programs(directory))):
        os.environ[_TENSORFLOW] = _FLAGS.format(programs) + flags


@functools.cache
def kept_programs(directory: str | None) -> str | None:
    """The folder in which this process keeps its programs; None if they are not kept.

    Args:
      directory: where the user's programs are; None for the default, "" for none. If it cannot be written, or if
        another user could write there, there is none.
    """
    if directory is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        directory = os.path.join(home, "albert_tf", "programs") if os.path.isabs(home) else ""
    if not directory or not devices.cpu_kind():
        return None
    kept = pathlib.Path(directory).absolute() / _kind()
    try:
        kept.mkdir(0o700, parents=True, exist_ok=True)
        status = kept.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022 or not os.access(kept, os.W_OK):
            return None
        folder = pathlib.Path(folder_of_this_process())
        if shutil.disk_usage(folder).free < 10 * _MOST_BYTES:  # XLA ends a run that cannot write a program
            return None
    except OSError:
        return None
    copies = {}
    for path in _programs(kept):
        with contextlib.suppress(OSError):  # another process has removed it
            if copy := _copy(path, folder):
                copies[copy.name] = path
    process = os.getpid()

    def keep() -> None:
        if os.getpid() == process:  # a forked child has this function, too
            with contextlib.suppress(OSError):
                _keep(folder, copies, kept)
                _remove_oldest(kept.parent)

    atexit.register(keep)
    return str(folder)


@functools.cache
def _kind() -> str:
    """A name for processor, versions and flags. The number of cores can change how XLA divides a loop."""
    facts = (devices.cpu_kind(), devices.available_cores(), _tensorflow_version(), albert_tf.__version__,
             os.environ.get("XLA_FLAGS"), os.environ.get(_TENSORFLOW))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _tensorflow_version() -> str:
    """The version, without the seconds of an import; "" for a distribution of another name, such as tf-nightly."""
    try:
        return importlib.metadata.version("tensorflow")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _programs(folder: pathlib.Path, pattern: str = "*") -> list[pathlib.Path]:
    return [path for path in folder.glob(pattern) if _FILE.fullmatch(path.name)]


def _copy(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path | None:
    """Copies a program if its digest is right, and removes it otherwise."""
    digest, _, name = path.name.partition(".")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        path.unlink()
        return None
    path = folder / "copy"
    path.write_bytes(content)
    os.utime(path, (_UNUSED, _UNUSED))
    return path.rename(folder / name)


def _keep(folder: pathlib.Path, copies: dict[str, pathlib.Path], kept: pathlib.Path) -> None:
    """Moves new programs to the user's folder, and marks the copied ones that were read as used now."""
    names = {path.name.partition(".")[2] for path in _programs(kept)}
    for program in folder.iterdir():
        if program.name in copies:
            if program.stat().st_atime != _UNUSED:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(copies[program.name])
        elif program.name.endswith(_ENDINGS) and program.name not in names:
            content = program.read_bytes()
            path = kept / f"{hashlib.sha256(content).hexdigest()}.{program.name}"
            temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
            temporary.write_bytes(content)
            temporary.replace(path)


def _remove_oldest(directory: pathlib.Path) -> None:
    """Removes the programs of all kinds that were used longest ago, down to _MOST_BYTES."""
    total = 0
    for path in sorted(_programs(directory, "*/*"), key=lambda path: path.stat().st_mtime, reverse=True):
        total += path.stat().st_size
        if total > _MOST_BYTES:
            path.unlink(missing_ok=True)
