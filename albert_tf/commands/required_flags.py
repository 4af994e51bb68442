"""Flags that must be given."""

from __future__ import annotations

from absl import flags

flags.disclaim_key_flags()  # --help lists a flag under the module that calls define_required


def define_required(name: str, help: str) -> None:
    """Defines a string flag that must be set to a non-empty value.

    (`--output_dir=$DIRECTORY` is empty if the variable is not set.)
    """
    flags.DEFINE_string(name, None, help)
    require(name)


def require(name: str) -> None:
    """Makes a string flag of another module required."""
    flags.register_validator(name, _is_set)


def _is_set(value: str | None) -> bool:
    if not value:
        raise flags.ValidationError("it is required" if value is None else "it must not be empty")
    return True
