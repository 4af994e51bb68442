"""Compares texts that differ only in Unicode normalization: an "é" of one character, and one of "e" and an accent."""

from __future__ import annotations

import functools
import re
import unicodedata

nfc = functools.partial(unicodedata.normalize, "NFC")


def end_of_character(text: str, end: int) -> int:
    """The end of a span that ends at `end`, with the combining marks of its last character."""
    while 0 < end < len(text) and unicodedata.category(text[end])[0] == "M":
        end += 1
    return end


def find_equivalent(wanted: str, text: str) -> list[tuple[int, int]]:
    """The spans of a text that are canonically equivalent to another text."""
    pattern, searched = (unicodedata.normalize("NFD", each) for each in (wanted, text))
    origins = [i for i, character in enumerate(text) for _ in unicodedata.normalize("NFD", character)]
    spans = [(origins[match.start()], origins[match.end() - 1] + 1)
             for match in re.finditer(re.escape(pattern), searched) if pattern]
    return [(start, end) for start, end in spans if end_of_character(text, end) == end]
