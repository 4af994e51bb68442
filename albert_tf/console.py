"""The scripts as commands of an installed package: albert-run-classifier does what `python run_classifier.py` does."""

from __future__ import annotations

import functools
import pathlib
import runpy
from typing import Callable

# The scripts of an installed package. In a checkout they are in the top folder.
_SCRIPTS = pathlib.Path(__file__).parent / "scripts"


def __getattr__(name: str) -> Callable[[], object]:
    """A function that runs a script as the main module, so that --help shows the script's own flags."""
    if not (_SCRIPTS / f"{name}.py").is_file():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(runpy.run_module, f"albert_tf.scripts.{name}", run_name="__main__", alter_sys=True)
