"""Runs our commands in the test's own process, for tests of mistakes that end a script before its work.

    with loaded("run_race") as run:
        status = run(data_dir="nowhere", output_dir="out")
"""

import contextlib
import functools
import runpy
import sys
import traceback
from typing import Callable, Iterator
from unittest import mock

from absl import flags
from absl.testing import flagsaver
from script_process import REPOSITORY, arguments_of

from albert_tf import keras
from albert_tf.commands import app
from albert_tf.commands.app import NAMES


@contextlib.contextmanager
def loaded(script: str) -> Iterator[Callable[..., int]]:
    """Yields run(*operands, **flags), which runs a command or the program at a path, and returns its exit status.

    `run.flags` are its flags, and run.arguments(["--name=value", ...]) runs it with a command line.

    A flag whose value is a list is repeated, and a flag whose value is None is left out. Flags of other modules, such
    as the demo's, are removed for this time, and the script's flags are removed afterwards.
    """
    set_aside = {name: flags.FLAGS[name] for name in _defined_flags()}
    flags.FLAGS.remove_flag_values(set_aside)
    try:
        if script in NAMES:
            yield _runner(f"python -m albert_tf {script}", app.load(script))
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
    def run_arguments(arguments: list, operands: int = 0) -> int:
        with flagsaver.flagsaver(), mock.patch.object(sys, "argv", [script, *arguments]):
            return _status_of(functools.partial(app.run, main, operands=operands))

    def run(*operands, **values) -> int:
        return run_arguments([*operands, *arguments_of(values)], len(operands))

    run.arguments, run.flags = run_arguments, [flags.FLAGS[name] for name in _defined_flags()]
    return run


def _status_of(run: Callable[[], None]) -> int:
    try:
        run()
    except SystemExit as end:
        return end.code or 0
    except Exception:  # a script never ends so: whatever status is expected, it is not this one
        traceback.print_exc()
        return -1
    finally:
        keras.mixed_precision.set_global_policy("float32")
        keras.backend.clear_session()
    return 0
