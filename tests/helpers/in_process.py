"""Runs our commands in the test's own process, for tests of mistakes that end a script before its work.

    with loaded("run_race") as run:
        status = run(data_dir="nowhere", output_dir="out")
"""

import contextlib
import functools
import importlib
import pathlib
import runpy
import sys
from typing import Callable, Iterator
from unittest import mock

from absl import flags
from absl.testing import flagsaver
from script_session import status_of

from albert_tf.commands import app
from albert_tf.commands.usage import NAMES

REPOSITORY = pathlib.Path(__file__).parents[2]


@contextlib.contextmanager
def loaded(script: str) -> Iterator[Callable[..., int]]:
    """Yields run(*operands, **flags), which runs a command or the program at a path, and returns its exit status.

    `run.flags` are its flags.

    A flag whose value is a list is repeated, and a flag whose value is None is left out. Flags of other modules, such
    as the demo's, are removed for this time, and the script's flags are removed afterwards.
    """
    set_aside = {name: flags.FLAGS[name] for name in _defined_flags()}
    flags.FLAGS.remove_flag_values(set_aside)
    try:
        if script in NAMES:
            command = importlib.import_module(f"albert_tf.commands.{script}")
            command.define_flags()
            yield _runner(f"python -m albert_tf {script}", command.main)
        else:
            yield _runner(script, runpy.run_path(str(REPOSITORY / script))["main"])
    finally:
        flags.FLAGS.remove_flag_values(_defined_flags())
        for name, flag in set_aside.items():
            flags.FLAGS[name] = flag


def _defined_flags() -> list[str]:
    """The names of the flags that no library has defined."""
    of_libraries = {flag.name for module, defined in flags.FLAGS.flags_by_module_dict().items() if _is_library(module)
                    for flag in defined}
    return [name for name in flags.FLAGS if flags.FLAGS[name].name not in of_libraries]


def _is_library(module: str) -> bool:
    """Whether a module is not of the repository."""
    packages = {path.stem for path in REPOSITORY.iterdir() if path.is_dir() or path.suffix == ".py"}
    return module in sys.modules and module.partition(".")[0] not in packages


def _runner(script: str, main: Callable[[], None]) -> Callable[..., int]:
    def run(*operands, **values) -> int:
        given = [f"--{name}={value}" for name, of_flag in values.items()
                 for value in (of_flag if isinstance(of_flag, list) else [of_flag]) if value is not None]
        argv = [script, *operands, *given]
        with flagsaver.flagsaver(), mock.patch.object(sys, "argv", argv):
            return status_of(functools.partial(app.run, operands=len(operands)), main)

    run.flags = [flags.FLAGS[name] for name in _defined_flags()]
    return run
