"""Error messages that name an archive, and not the temporary directory to which it was unpacked."""

from __future__ import annotations

import contextlib
from typing import Iterator


@contextlib.contextmanager
def errors_naming(path: str, directory: str) -> Iterator[None]:
    """Replaces the directory to which an archive was unpacked by the archive's path in the messages of ValueErrors."""
    try:
        yield
    except ValueError as error:
        error.args = tuple(argument.replace(directory, path) if isinstance(argument, str) else argument
                           for argument in error.args)
        raise
