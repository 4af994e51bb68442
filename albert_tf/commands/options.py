"""Flags of kinds that absl does not have: those that must be given, and finite numbers."""

from __future__ import annotations

import math

from absl import flags

flags.disclaim_key_flags()  # --help lists a flag under the module that calls these functions


def define_required(name: str, help: str) -> None:
    """Defines a string flag that must be set to a non-empty value.

    (`--output_dir=$DIRECTORY` is empty if the variable is not set.)
    """
    flags.DEFINE_string(name, None, help)
    require(name)


def require(name: str) -> None:
    """Makes a string flag of another module required."""
    flags.register_validator(name, _is_set)


def define_float(name: str, default: float | None, help: str, lower_bound: float | None = None,
                 upper_bound: float | None = None) -> None:
    """flags.DEFINE_float for finite numbers. absl itself accepts "nan" and "inf", whatever the bounds."""
    parser = _FiniteFloatParser(lower_bound, upper_bound)
    flags.DEFINE(parser, name, default, help, serializer=flags.ArgumentSerializer())


def _is_set(value: str | None) -> bool:
    if not value:
        raise flags.ValidationError("it is required" if value is None else "it must not be empty")
    return True


class _FiniteFloatParser(flags.FloatParser):
    def convert(self, argument):
        try:
            value = super().convert(argument)
        except OverflowError:  # a whole number of more than 308 digits
            value = math.inf
        if not math.isfinite(value):
            raise ValueError("expected a finite number")
        return value
