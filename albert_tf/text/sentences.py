"""Splits lines of text into sentences with the package sentencex, which is imported on first use (extra `sentences`)."""

from __future__ import annotations

import importlib.util
import re
from typing import Iterable, Iterator

# The code of a language: en, zh, pt-br.
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*")


def check_splitting(language: str) -> None:
    """Checks that `split_lines` can be called.

    Raises:
      ValueError: the language is not a code such as "en", or sentencex is not installed.
    """
    if not _LANGUAGE.fullmatch(language):
        raise ValueError(f"split_lines must be the code of the text's language, such as en or zh. Received: {language!r}")
    if importlib.util.find_spec("sentencex") is None:
        raise ValueError("split_lines needs the package sentencex, which is not installed: pip install sentencex")


def split_lines(lines: Iterable[str], language: str) -> Iterator[str]:
    """The sentences of each line, stripped, in order. An empty line, which ends a document, is kept.

    Args:
      lines: stripped lines.
      language: code of the language, such as "en". sentencex uses the rules of English for a language that it lacks.

    Example::

      split_lines(["It rained. Dr. Wu left.", "", "Why?"], "en") -> "It rained.", "Dr. Wu left.", "", "Why?"
    """
    import sentencex

    for line in lines:
        if line:
            yield from filter(None, (sentence.strip() for sentence in sentencex.segment(language, line)))
        else:
            yield line
