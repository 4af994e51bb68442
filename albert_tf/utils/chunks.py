"""Divides any number of elements into lists of a limited length."""

from __future__ import annotations

import itertools
from typing import Iterable, Iterator, TypeVar

_Element = TypeVar("_Element")


def chunks(elements: Iterable[_Element], size: int) -> Iterator[list[_Element]]:
    """Consecutive elements in lists of `size`. The last list may be shorter; none is empty."""
    remaining = iter(elements)
    while chunk := list(itertools.islice(remaining, size)):
        yield chunk
