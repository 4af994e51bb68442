"""Scripts of ours run in the test's own process, for mistakes that end them before they work: nothing is loaded anew.

    with loaded("run_race.py") as run:
        status = run(data_dir="nowhere", output_dir="out")
"""

import contextlib
import pathlib
import runpy
import sys
from typing import Callable, Iterator
from unittest import mock

from absl import flags
from absl.testing import flagsaver
from script_session import status_of

from albert_tf import cli

REPOSITORY = pathlib.Path(__file__).parent.parent


@contextlib.contextmanager
def loaded(script: str) -> Iterator[Callable[..., int]]:
    """Gives run(**flags), which runs a script and returns its exit status; `run.flags` are the flags that it defines.

    A flag whose value is a list is given several times, one that is None not at all. The flags are gone afterwards, so
    that another script can define its own.
    """
    before = set(flags.FLAGS)
    with mock.patch.object(sys, "path", [str(REPOSITORY), *sys.path]):
        main = runpy.run_path(str(REPOSITORY / script))["main"]
    defined = [name for name in flags.FLAGS if name not in before]

    def run(**values) -> int:
        given = [f"--{name}={value}" for name, of_flag in values.items()
                 for value in (of_flag if isinstance(of_flag, list) else [of_flag]) if value is not None]
        with flagsaver.flagsaver(), mock.patch.object(sys, "argv", [script, *given]):
            return status_of(cli.run, main)

    run.flags = [flags.FLAGS[name] for name in defined]
    try:
        yield run
    finally:
        flags.FLAGS.remove_flag_values(defined)
        sys.modules.pop("run_classifier", None)  # run_glue.py imports it for its flags
