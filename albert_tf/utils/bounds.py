"""Bounds of numbers, and choices. They catch typing errors that would otherwise be noticed only when memory runs out.

Configs check them, and so do the flags that set their options::

    max_seq_length: Annotated[int, bounds.SEQ_LENGTH, "Largest number of tokens of an example."] = 512
"""

from __future__ import annotations

import math
import reprlib
from typing import Any, Collection, NamedTuple


class Bounds(NamedTuple):
    """The smallest and the largest allowed value."""

    lower: int
    upper: int

    def check(self, name: str, value: Any) -> None:
        """Raises a ValueError with name and value unless the value is a whole number within the bounds."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.lower <= value <= self.upper:
            raise ValueError(f"{name} must be a whole number from {self.lower:,} to {self.upper:,}. "
                             f"Received: {name}={reprlib.repr(value)}")

    def at_least(self, lower: int) -> Bounds:
        """Bounds with another lower bound and the same upper bound."""
        return Bounds(lower, self.upper)


class Range(NamedTuple):
    """The smallest and the largest allowed finite number; None: any."""

    lower: float | None = None
    upper: float | None = None

    def check(self, name: str, value: Any) -> None:
        """Raises a ValueError with name and value unless the value is a finite number within the bounds."""
        check_finite(name, value, self.lower, self.upper)


class OneOf(NamedTuple):
    """Choices."""

    values: Collection[str]

    def check(self, name: str, value: Any) -> None:
        """Raises a ValueError with name and value if the value is none of the choices."""
        check_one_of(name, value, self.values)


def check_finite(name: str, value: Any, lower: float | None = None, upper: float | None = None) -> None:
    """Raises a ValueError with name and value if a number is NaN, infinite or outside the bounds."""
    try:
        is_finite = not isinstance(value, bool) and math.isfinite(value)
    except (OverflowError, TypeError):
        is_finite = False
    if not is_finite or lower is not None and value < lower or upper is not None and value > upper:
        bound = "" if lower is None else f" of at least {lower:g}"
        bound += "" if upper is None else f" and at most {upper:g}"
        raise ValueError(f"{name} must be a finite number{bound}. Received: {value!r}")


def check_one_of(name: str, value: Any, choices: Collection[str]) -> None:
    """Raises a ValueError with name and value if the value is none of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}. Received: {reprlib.repr(value)}")


SEQ_LENGTH = Bounds(1, 65_536)
ROW_LENGTH = Bounds(4, 65_536)  # [CLS], [SEP], [SEP] and a piece
PREDICTIONS = Bounds(1, 65_536)
NGRAM = Bounds(1, 100)
BATCH_SIZE = Bounds(1, 1_048_576)
TOKENS = Bounds(1, 2**31 - 1)
STEPS = Bounds(1, 2**31 - 1)
RUNS = Bounds(1, 1_000)
SHARES = Bounds(1, 1_000)
SEED = Bounds(0, 2**31 - 1)  # NumPy's and TensorFlow's seeds have 32 bits
DUPE_FACTOR = Bounds(1, 100_000)
DEVICES = Bounds(1, 65_536)
WORKERS = Bounds(1, 1_024)
SHARDS = Bounds(1, 99_999)  # x-00000-of-99999.tfrecord: five digits
CANDIDATES = Bounds(1, 10_000)
VOCAB_SIZE = Bounds(1, 10_000_000)
WIDTH = Bounds(1, 1_048_576)
LAYERS = Bounds(1, 1_000)
