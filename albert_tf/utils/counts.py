"""Numbers of things as text: "1 file", "1,024 files"."""

from __future__ import annotations


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """The number with thousands separators, and the noun in the singular or the plural.

    Args:
      number: how many there are.
      noun: the singular: "record file".
      plural: the plural, if it is not the singular with an "s".

    Example::

      count_of(1, "record file") -> "1 record file"
      count_of(1024, "query", "queries") -> "1,024 queries"
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
