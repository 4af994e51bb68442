"""Errors of the command line in one line, in place of absl's."""

from __future__ import annotations

import re

from absl import flags

# absl's messages about a value, and what they mean.
_VALUES = (
    (r"flag --(\w+)=(.*): invalid literal for int\(\).*", r"--\1 must be a whole number. Received: \2"),
    (r"flag --(\w+)=(.*): could not convert string to float.*", r"--\1 must be a number. Received: \2"),
    (r"flag --(\w+)=(.*): \('Non-boolean argument to boolean flag'.*", r"--\1 must be true or false. Received: \2"),
    (r"flag --(\w+)=(.*): value should be one of <(.*)>", r"--\1 must be one of \3. Received: \2"),
    (r"flag --(\w+)=(.*): \S+ is not (an? .*)", r"--\1 must be \3. Received: \2"),
    (r"flag --(\w+)=\S*: it (is required|must not be empty)", r"--\1 \2"),
    (r"Missing value for flag --?(\w+).*", r"--\1 has no value"),
    (r"flag (--\w+=.*)", r"\1"),
)


def described(error: flags.Error) -> str:
    """What is wrong with the flags, in one line."""
    if isinstance(error, flags.UnrecognizedFlagError):
        suggestions = re.search(r"Did you mean: (.*?) \?", str(error))
        similar = f" (did you mean --{suggestions[1].replace(', ', ' or --')}?)" if suggestions else ""
        return f"unknown flag --{error.flagname.lstrip('-')}{similar}; --help lists all flags"
    message = " ".join(str(error).split())
    for pattern, meaning in _VALUES:
        message, count = re.subn(f"^{pattern}$", meaning, message)
        if count:
            break
    return message
