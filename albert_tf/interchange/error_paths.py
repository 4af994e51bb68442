"""Messages that name the archive that a user has given, and not the temporary directory that it was unpacked to."""

from __future__ import annotations

import contextlib
from typing import Iterator


@contextlib.contextmanager
def errors_naming(path: str, directory: str) -> Iterator[None]:
    """In messages of ValueErrors, an archive's path takes the place of the directory that it was unpacked to."""
    try:
        yield
    except ValueError as error:
        error.args = tuple(argument.replace(directory, path) if isinstance(argument, str) else argument
                           for argument in error.args)
        raise
