"""Checks that numbers are finite when they are set, as arguments or flags."""

from __future__ import annotations

import math
from typing import Any

from absl import flags

flags.disclaim_key_flags()  # --help lists a flag under the module that calls define_float


def check_finite(name: str, value: Any, lower: float | None = None) -> None:
    """Raises a ValueError with name and value if a number is NaN, infinite or below the bound.

    Args:
      name: name of the argument.
      value: int or float.
      lower: the smallest allowed value; None for no bound.
    """
    if not _is_finite(value) or lower is not None and value < lower:
        bound = "" if lower is None else f" of at least {lower:g}"
        raise ValueError(f"{name} must be a finite number{bound}. Received: {value!r}")


def define_float(name: str, default: float | None, help: str, lower_bound: float | None = None,
                 upper_bound: float | None = None) -> None:
    """flags.DEFINE_float for finite numbers. absl itself accepts "nan" and "inf", whatever the bounds."""
    parser = _FiniteFloatParser(lower_bound, upper_bound)
    flags.DEFINE(parser, name, default, help, serializer=flags.ArgumentSerializer())


class _FiniteFloatParser(flags.FloatParser):
    def convert(self, argument):
        try:
            value = super().convert(argument)
        except OverflowError:  # a whole number of more than 308 digits
            value = math.inf
        if not math.isfinite(value):
            raise ValueError("expected a finite number")
        return value


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
