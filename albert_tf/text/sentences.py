"""Splits lines of text into sentences with the package sentencex (extra `sentences`), imported on first use."""

from __future__ import annotations

import importlib.util
import re
from typing import Iterable, Iterator

# The code of a language: en, zh, pt-br.
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*")
# sentencex does not split quotations, and takes for one what is between two straight quotation marks, which may also be
# the text between two quotations. So they get a direction: a mark opens a quotation if it is at the start or after a
# space or a bracket.
_OPENING_QUOTE = re.compile(r'(?<![^\s(\[{-])"')
# If a quotation or an apostrophe has no counterpart nearby, a "sentence" can have pages. From this number of characters
# on, quotation marks are ignored.
_LONGEST = 500
_WITHOUT_QUOTES = str.maketrans(dict.fromkeys("\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d", " "))
_END = re.compile(r"\S*\s*")


def check_splitting(language: str) -> None:
    """Checks that `split_lines` can be called.

    Raises:
      ValueError: the language is not a code such as "en", or sentencex is not installed.
    """
    if not _LANGUAGE.fullmatch(language):
        raise ValueError("split_lines must be the code of the text's language, such as en or zh. "
                         f"Received: {language!r}")
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
    for line in lines:
        if line:
            yield from filter(None, map(str.strip, _sentences(line, language)))
        else:
            yield line


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
            # In between are white space and quotation marks: those that end this sentence, then those of the next one.
            cut = _END.match(text, end, start).end()  # type: ignore[union-attr]  # it matches the empty text too
            yield text[begin:cut]
            begin = cut
        end = start + len(part)
    yield text[begin:]
