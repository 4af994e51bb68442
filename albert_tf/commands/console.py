"""The scripts as commands of an installed package: albert-run-classifier does what `python run_classifier.py` does."""

from __future__ import annotations

import functools
import pathlib
import re
import runpy
import sys
from typing import Callable

# The scripts of an installed package. In a checkout they are in the top folder.
_SCRIPTS = pathlib.Path(__file__).parent / "scripts"


def __getattr__(name: str) -> Callable[[], object]:
    """A function that runs a script as the main module, so that --help shows the script's own flags."""
    if not (_SCRIPTS / f"{name}.py").is_file():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(_run, name)


def _run(name: str) -> None:
    sys.path.insert(0, str(_SCRIPTS))  # as `python SCRIPT.py` does: run_glue.py imports run_classifier.py
    runpy.run_module(f"albert_tf.scripts.{name}", run_name="__main__", alter_sys=True)


def program(path: str) -> str:
    """The name by which users start a script: its file's, its command's, or its package's for `python -m studies`.

    Args:
      path: the script's path, as in sys.argv.
    """
    script = pathlib.Path(path)
    if script.parent == _SCRIPTS:
        return _command(script.stem)
    return script.parent.name if script.name == "__main__.py" else script.name


def with_commands(text: str, path: str) -> str:
    """A text with the commands of an installed package instead of `python SCRIPT.py`, if the script is in it.

    Args:
      text: text with commands, such as a script's docstring.
      path: the script's path, as in sys.argv.
    """
    if pathlib.Path(path).parent != _SCRIPTS:
        return text
    return re.sub(r"\bpython (\w+)\.py\b", lambda match: _command(match[1]), text)


def _command(script: str) -> str:
    return f"albert-{script.replace('_', '-')}"
