"""Lines of text: UTF-8, ended by a newline, a carriage return (Excel for Mac) or both, with or without byte-order mark.

U+2028, U+0085 and the like end no line, as in the release.

A line may be split into sentences, with the package sentencex (extra `sentences`), which is imported on first use.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import os
import re
import sys
import zlib
from typing import Any, BinaryIO, Iterable, Iterator

from albert_tf.utils.files import check_is_file, decode_utf8, open_binary
from albert_tf.utils.imports import check_installed

_MOST_BYTES = 1 << 28  # of a line, which can be a whole JSON file
_DECOMPRESSORS: dict[str, Any] = {".gz": lambda file: gzip.GzipFile(fileobj=file), ".bz2": bz2.BZ2File}
_OTHER_ENDINGS = (".zst", ".xz", ".zip", ".lz4", ".7z", ".rar")


def check_compression(path: str) -> None:
    """Raises ValueError if a file is compressed by another program than gzip and bzip2, by its name."""
    ending = os.path.splitext(path)[1].lower()
    if ending in _OTHER_ENDINGS:
        raise ValueError(f"{path}: {ending} files are not read: decompress it, or compress it with gzip or bzip2")


def is_compressed(path: str) -> bool:
    """Whether a file is compressed, by the extension of its name: .gz or .bz2."""
    return os.path.splitext(path)[1] in _DECOMPRESSORS


def uncompressed_name(path: str) -> str:
    """The path of a file without the extension of its compression: a.conllu for a.conllu.gz and for a.conllu."""
    return os.path.splitext(path)[0] if is_compressed(path) else path


def read_lines(path: str, start: int = 0, stop: int | None = None) -> Iterator[str]:
    """The lines of a file that begin at bytes `start` to `stop` - 1, without their ends.

    Consecutive ranges give every line once. Files with names in .gz or .bz2 are decompressed, from the start.
    """
    check_is_file(path)
    check_compression(path)
    decompressed = _DECOMPRESSORS.get(os.path.splitext(path)[1], contextlib.nullcontext)
    try:
        with open_binary(path) as stored, decompressed(stored) as file:
            if start:  # a line begins at `start` only if the byte before it is a newline
                file.seek(start - 1)
                file.readline()
                start = file.tell()
            yield from _decode(_until(file, stop), path, start)
    except (EOFError, zlib.error, OSError) as error:
        if not is_compressed(path) or getattr(error, "errno", None):  # errors of the file system have a number
            raise
        raise ValueError(f"{path} is truncated, damaged or not compressed as its extension says: {error}") from error


def read_standard_input() -> Iterator[str]:
    """The lines of standard input, each as soon as it arrives. A line that is not UTF-8 raises a ValueError."""
    return _decode(_until(sys.stdin.buffer, None), "standard input")


def _until(file: BinaryIO, stop: int | None) -> Iterator[bytes]:
    """The parts of a file that end with a newline and begin before `stop`."""
    if stop is None:
        yield from iter(functools.partial(file.readline, _MOST_BYTES + 1), b"")
        return
    while file.tell() < stop and (line := file.readline(_MOST_BYTES + 1)):
        yield line


def _decode(parts: Iterable[bytes], path: str, start: int = 0) -> Iterator[str]:
    """The lines of parts of a file. The first part begins at byte `start`, and each part ends with a newline."""
    number = 0
    for part in parts:
        if len(part) > _MOST_BYTES:
            line_number = number + 1 + (_count_lines(path, start) if start else 0)
            raise ValueError(f"{path} line {line_number} has more than {_MOST_BYTES:,} bytes")
        for line in _lines_of(part):
            number += 1
            try:
                yield line.decode("utf-8" if start or number > 1 else "utf-8-sig")
            except UnicodeDecodeError:  # the next line raises; it names file and line
                decode_utf8(line, path, number + (_count_lines(path, start) if start else 0))


def _lines_of(part: bytes) -> Iterator[bytes]:
    """The lines of a part of a file without their ends. Carriage returns before a newline are one end with it."""
    part = part.rstrip(b"\r\n") if part.endswith(b"\n") else part.removesuffix(b"\r")
    first = 0
    while (end := part.find(b"\r", first)) >= 0:  # a list of all lines would be a multiple of the part
        yield part[first:end]
        first = end + 1
    yield part[first:]


def _count_lines(path: str, stop: int) -> int:
    """The number of lines that begin before byte `stop` of a file. They are counted only for an error message."""
    with open_binary(path) as file:
        return sum(1 for part in _until(file, stop) for _ in _lines_of(part))


_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*")  # en, zh, pt-br
# sentencex does not split quotations, and takes any text between two straight quotation marks for one, even the text
# between two quotations. So a mark gets a direction: at the start or after a space or a bracket, it opens a quotation.
_OPENING_QUOTE = re.compile(r'(?<![^\s(\[{-])"')
# Characters. A mark without a counterpart makes sentences of pages; longer ones are split without regard to the marks.
_LONGEST = 500
_WITHOUT_QUOTES = str.maketrans(dict.fromkeys("\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d", " "))
_END = re.compile(r"\S*\s*")


def check_splitting(language: str) -> None:
    """Raises ValueError if the language is not a code such as "en", or sentencex is not installed."""
    if not _LANGUAGE.fullmatch(language):
        raise ValueError("split_lines must be the code of the text's language, such as en or zh. "
                         f"Received: {language!r}")
    check_installed("split_lines", "sentencex")


def split_lines(lines: Iterable[str], language: str) -> Iterator[str]:
    """The sentences of each stripped line, stripped, in order. An empty line, which ends a document, is kept.

    sentencex uses the rules of English for a language that it lacks.

    Example::

      split_lines(["It rained. Dr. Wu left.", "", "Why?"], "en") -> "It rained.", "Dr. Wu left.", "", "Why?"
    """
    for line in lines:
        yield from filter(None, map(str.strip, _sentences(line, language))) if line else [line]


def _sentences(line: str, language: str) -> Iterator[str]:
    directed = _OPENING_QUOTE.sub("\u201c", line).replace('"', "\u201d")
    for sentence in _cut(line, directed, language):
        if len(sentence) <= _LONGEST:
            yield sentence
        else:
            yield from _cut(sentence, sentence.translate(_WITHOUT_QUOTES), language)


def _cut(text: str, changed: str, language: str) -> Iterator[str]:
    """Cuts a text where sentencex would cut another text of the same length."""
    import sentencex

    begin = end = 0
    for part in filter(None, map(str.strip, sentencex.segment(language, changed))):
        start = changed.index(part, end)
        if end:
            # In between are white space and quotation marks that end this sentence, then marks that open the next.
            cut = _END.match(text, end, start).end()  # type: ignore[union-attr]  # it matches the empty text too
            yield text[begin:cut]
            begin = cut
        end = start + len(part)
    yield text[begin:]
