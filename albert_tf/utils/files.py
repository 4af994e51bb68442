"""Local and remote files: their paths, checks that name them, and their content; JSON and YAML of others.

tf.io.gfile supports local and remote paths (gs://). Local files are read without TensorFlow, so that a tokenizer needs
no TensorFlow.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import glob
import io
import json
import os
import re
import reprlib
import shutil
import stat
import tempfile
from typing import Any, BinaryIO, Iterator, cast

from albert_tf.utils.imports import tensorflow as tf

_BUFFER_BYTES = 1 << 20


def is_remote(path: str) -> bool:
    """Whether a path is on a file system that only tf.io.gfile supports: gs://, ram://."""
    return "://" in os.fspath(path)


def absolute(path: str) -> str:
    """A path that means the same in a process with another working directory."""
    return path if is_remote(path) else os.path.abspath(path)


def written_path(path: str) -> str:
    """The path that an output at `path` replaces: of a symbolic link, its target."""
    if is_remote(path) or not os.path.islink(path):
        return path
    try:
        os.stat(path)
    except OSError as error:
        raise ValueError(f"{path} is a symbolic link to {os.readlink(path)}, which cannot be followed "
                         f"({error.strerror}): remove the link, or choose another path") from error
    return os.path.realpath(path)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or is in it."""
    folder, location = (os.path.realpath(name) for name in (folder, path))
    return os.path.commonpath([folder, location]) == folder


def make_directory(path: str) -> None:
    """Makes a directory and its parents, unless they exist. Local ones have the permissions that the umask leaves."""
    if is_remote(path):
        tf.io.gfile.makedirs(path)
    else:  # tf.io.gfile would make directories in which only their owner can write
        os.makedirs(path or os.curdir, exist_ok=True)


def version(path: str) -> tuple[int, int]:
    """The size and the time of change of a file, in bytes and in nanoseconds, which tell whether it was replaced."""
    if is_remote(path):
        remote = tf.io.gfile.stat(path)
        return remote.length, remote.mtime_nsec
    local = os.stat(path)  # TensorFlow's time of a local file has whole seconds only
    return local.st_size, local.st_mtime_ns


@contextlib.contextmanager
def errors_at(location: str) -> Iterator[None]:
    """Starts the message of a ValueError that the block raises with `location`: "task.json: unknown key"."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from error


@contextlib.contextmanager
def errors_naming_origin(path: str, directory: str) -> Iterator[None]:
    """Makes ValueErrors name `path`, such as an archive, instead of the directory to which it was unpacked."""
    try:
        yield
    except ValueError as error:
        error.args = tuple(argument.replace(directory, path) if isinstance(argument, str) else argument
                           for argument in error.args)
        raise


# Errors of writing. Python gives them no file name if the file is open already.
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextlib.contextmanager
def errors_naming(path: str, temporary: str | None = None) -> Iterator[None]:
    """Makes errors of writing that name no file, or one in the folder `temporary`, name a path."""
    try:
        yield
    except OSError as error:
        is_unnamed = error.filename is None and error.errno in _CANNOT_WRITE
        if is_unnamed or temporary and temporary in str(error.filename):
            raise OSError(error.errno, error.strerror, path) from error
        raise


@contextlib.contextmanager
def scratch_folder(parent: str | None = None) -> Iterator[str]:
    """A new folder that is removed at the end, below `parent` or in the system's folder for temporary files."""
    # tempfile.TemporaryDirectory calls itself without end where permissions keep it from removing a file.
    folder = tempfile.mkdtemp(dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def names_in(folder: str) -> list[str]:
    """The names in a folder; none if there is no such folder."""
    return tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []


def check_is_file(path: str, kind: str = "file") -> None:
    """Raises ValueError if there is no file at the path."""
    paths = tf.io.gfile if is_remote(path) else os.path
    if not paths.exists(path):
        raise ValueError(f"no such {kind}: {path}")
    if paths.isdir(path):
        raise ValueError(f"{path} is a directory, but must be a {kind}")
    if not is_remote(path) and not stat.S_ISREG(mode := os.stat(path).st_mode):
        what = "pipe" if stat.S_ISFIFO(mode) else "device or a socket"
        raise ValueError(f"{path} is a {what}, which can be read only once: write its content to a file first")


def check_name_fits(path: str, ending: str) -> None:
    """Raises ValueError if the file system has no names as long as that of a local path with an ending."""
    try:
        os.lstat(f"{path}{ending}")
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError(f"{path} is too long, since files beside it have names with {ending!r} at the end: choose "
                             "another path") from error


def check_directory(path: str) -> None:
    """Raises ValueError if a directory cannot be made at a local path, since it or a parent is a file or a bad link."""
    if is_remote(path):  # an object store has no directories
        return
    check_name_fits(path.rstrip("/"), "..lock")  # .NAME.lock
    while path and not os.path.exists(path):
        written_path(path)
        path = os.path.dirname(path)
    if path and not os.path.isdir(path):
        raise ValueError(f"{path} is a file, but must be a directory")


def check_no_wildcard(path: str) -> None:
    """Raises ValueError if the path of a checkpoint or a SavedModel is one that TensorFlow would read as a pattern."""
    if glob.has_magic(path) or "\\" in path:
        raise ValueError("the path of a checkpoint or a SavedModel must not have * ? [ or \\, which TensorFlow reads "
                         f"as a pattern: rename the folder, or choose another one. Received: {path}")


def check_name(name: str, what: str) -> None:
    """Raises ValueError if a name cannot be part of a file's name. `what` describes it: "the name of a task"."""
    if name in ("", os.curdir, os.pardir) or any(mark in name for mark in "/\\\0"):
        raise ValueError(f"{what} must be a plain file name, without a folder. Received: {name!r}")


def check_one_line(text: str, what: str) -> None:
    """Raises ValueError if a text has a line break, so that it cannot be a line of a file."""
    if "\n" in text or "\r" in text:
        raise ValueError(f"{what} must not have a line break. Received: {reprlib.repr(text)}")


def expand_globs(patterns: str) -> list[str]:
    """The files of a comma-separated list of paths and globs, in order and without repetitions."""
    files: dict[str, None] = {}
    for pattern in filter(None, (part.strip() for part in patterns.split(","))):
        if glob.has_magic(pattern) and not tf.io.gfile.exists(pattern):
            matches = [path for path in sorted(tf.io.gfile.glob(pattern)) if not tf.io.gfile.isdir(path)]
            if not matches:
                raise ValueError(f"no file matches {pattern}")
        else:
            matches = [pattern]
        for path in matches:
            check_is_file(path)
        files.update(dict.fromkeys(matches))
    if not files:
        raise ValueError(f"expected at least one file. Received: {patterns!r}")
    return list(files)


def listed(names: list[str], most: int = 3) -> str:
    """A short list of names or paths for a message: "a.txt, b.txt, c.txt and 7 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def read_bytes(path: str, kind: str = "file") -> bytes:
    """The content of a file. A local one is read without TensorFlow, so that a tokenizer needs no TensorFlow."""
    check_is_file(path, kind)
    with open_binary(path) as file:
        return file.read()


def open_binary(path: str) -> BinaryIO:
    """A local or a remote file, read as bytes. The lines of tf.io.gfile have no carriage returns."""
    return cast(BinaryIO, io.BufferedReader(_Remote(path), _BUFFER_BYTES)) if is_remote(path) else open(path, "rb")


class _Remote(io.RawIOBase):
    """A file that tf.io.gfile reads, as a file object of Python."""

    def __init__(self, path: str):
        self._file = tf.io.gfile.GFile(path, "rb")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        # Each size is a request to the store.
        start = 0 if whence == io.SEEK_SET else self.tell() if whence == io.SEEK_CUR else self._file.size()
        self._file.seek(start + offset)
        return start + offset

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def decode_utf8(content: bytes, path: str, first_line: int = 1) -> str:
    """Decodes the bytes of a file, or of some of its lines."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + len((content[: error.start] + b".").splitlines()) - 1
        is_utf16 = line == 1 and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = "UTF-16" if is_utf16 else "WINDOWS-1252"
        cure = f"Save the text as UTF-8 (Excel: CSV UTF-8), or convert it: iconv -f {encoding} -t UTF-8"
        if b"\0" in content and not is_utf16:
            cure = "This is no text: unpack an archive, and save a workbook as CSV UTF-8"
        raise ValueError(f"{path} line {line}: not UTF-8 ({error.reason}). {cure}") from error


# --- JSON and YAML ---------------------------------------------------------------------------------------------------
#
# Every error is a ValueError that names the file and the line. Python's reader raises RecursionError for "[[[[",
# and an error without a line for numbers of thousands of digits. It accepts half of a surrogate pair ("\ud83d" alone)
# as text, which cannot be written to a file or a tensor.

_MOST_DIGITS = 1_000
_MOST_BYTES = 1 << 26
_MOST_YAML = 1 << 16  # PyYAML reads it in a second; others' files have some thousand
# Only an escape can be a surrogate, since UTF-8 has none.
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BETWEEN = re.compile(r"[\s,]*")  # two values of a list


def read_json_object(path: str, kind: str = "file") -> dict[str, Any]:
    """Reads a JSON object from a file of at most 64 MB: a config, a manifest, a passage."""
    return parse_json_object(_read(path, kind), path)


def read_json_list(path: str) -> list[dict[str, Any]]:
    """Reads a list of JSON objects from a file."""
    return [value for _, value in parse_json_list(_read(path, "file"), path)]


def read_yaml_object(path: str) -> dict[Any, Any]:
    """Reads an object of YAML from a file. Its keys may be other values than texts."""
    return parse_yaml_object(_read(path, "YAML file", 4 * _MOST_YAML), path)  # a character has up to 4 bytes


def _read(path: str, kind: str, most: int = _MOST_BYTES) -> str:
    """The text of a small file."""
    check_is_file(path, kind)
    size = tf.io.gfile.stat(path).length
    if size > most:
        raise ValueError(f"{path} has {size:,} bytes: such a {kind} has at most {most:,}")
    with tf.io.gfile.GFile(path, "rb") as file:
        return decode_utf8(file.read(), path)


def parse_json_object(text: str, path: str, line: int | None = None) -> dict[str, Any]:
    """Parses a JSON object. If the text is one line of the file, `line` is its number, from 1."""
    value = _parse(text, path, line)
    if not isinstance(value, dict):
        raise ValueError(f"{_location(path, line)}: expected a JSON object, got {text.strip()[:40]!r}")
    return value


def parse_json_list(text: str, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Parses a list of JSON objects, and yields each with the number of the line on which it begins, from 1."""
    values = _parse(text, path, None)
    if not isinstance(values, list):
        raise ValueError(f"{path}: expected a list of JSON objects, got {text.strip()[:40]!r}")
    line, counted, end = 1, 0, text.index("[") + 1
    for value in values:
        start = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]  # it matches the empty text too
        line, counted = line + text.count("\n", counted, start), start
        if not isinstance(value, dict):
            raise ValueError(f"{path} line {line}: expected a JSON object, got {text[start:start + 40]!r}")
        yield line, value
        end = _DECODER.raw_decode(text, start)[1]


def _location(path: str, line: int | None) -> str:
    return path if line is None else f"{path} line {line}"


def _parse(text: str, path: str, line: int | None) -> Any:
    """Parses any JSON value; see parse_json_object."""
    value = parse_unchecked(text, path, line)
    if _SURROGATE_ESCAPE.search(text):
        check_characters(json.dumps(value, ensure_ascii=False), _location(path, line))
    return value


def parse_unchecked(text: str, path: str, line: int | None = None) -> Any:
    """Parses any JSON value as parse_json_object does. A string may have half of a surrogate pair."""
    location = _location(path, line)
    if not text.strip():
        raise ValueError(f"{location} is empty")
    try:
        return _DECODER.decode(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        hint = "" if line is None else ": each line must be an object, or the whole file a list of objects"
        raise ValueError(f"{path} line {(line or 1) + error.lineno - 1}: not JSON ({error.msg}){hint}") from error
    except RecursionError as error:
        raise ValueError(f"{location}: lists or objects are nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from error


def parse_yaml_object(text: str, path: str) -> dict[Any, Any]:
    """Parses an object of YAML of at most 64 kB. References are refused: a small text could be a large object."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("references (*name) are not followed")
            return super().compose_node(parent, index)

    if len(text) > _MOST_YAML:
        raise ValueError(f"{path} has {len(text):,} characters of YAML: at most {_MOST_YAML:,} are read")
    try:
        value = yaml.load(text, Loader)  # noqa: S506  it is a SafeLoader
    except RecursionError as error:
        raise ValueError(f"{path}: lists or objects are nested too deeply") from error
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # PyYAML raises the errors of Python for values that are not of the type of their tag.
        raise ValueError(f"{path} is not a YAML file: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object of YAML, got {text.strip()[:40]!r}")
    return value


def check_characters(text: str, location: str) -> None:
    """Raises ValueError if a text has half of a surrogate pair, which is not a character."""
    half = _SURROGATE.search(text)
    if half:
        raise ValueError(f"{location}: {ascii(half.group())} is half of a surrogate pair, which is not a character")


def check_keys(
    content: Any, location: str, required: dict[str, type], optional: dict[str, type] | None = None
) -> dict[str, Any]:
    """Returns a JSON object that has all required keys, and no others than the optional ones, with these types.

    Error messages start with `location`, the path of the file, or path and keys.
    """
    types = {**required, **(optional or {})}
    if not isinstance(content, dict):
        raise ValueError(f"{location} must be an object. Received: {content!r}")
    for key in required.keys() - content.keys():
        raise ValueError(f"{location}: {key!r} is missing")
    for key, value in content.items():
        if key not in types:
            raise ValueError(f"{location}: unknown key {key!r}; the known ones are {', '.join(types)}")
        if not isinstance(value, types[key]):
            raise ValueError(f"{location}: {key!r} must be of type {types[key].__name__}. Received: {value!r}")
    return content


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_whole_number)
