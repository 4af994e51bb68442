"""Modules of a package that are loaded when first used: `albert_tf.data.glue` after `import albert_tf` alone."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Callable


def loader_of(package: str) -> Callable[[str], ModuleType]:
    """A module-level __getattr__ for a package: it imports the module of that name.

    Raises (the function that is returned):
      AttributeError: the package has no such module.
    """

    def load(name: str) -> ModuleType:
        wanted = f"{package}.{name}"
        try:
            return importlib.import_module(wanted)
        except ModuleNotFoundError as error:
            if error.name != wanted:  # the module is there, and what it imports is not
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load
