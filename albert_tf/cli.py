"""How every script starts: absl parses the flags, and a user's mistake ends in one line.

A script imports this module before all that may load TensorFlow, for it sets the environment first; "isort: split"
keeps the import at its place.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Callable

from absl import app, flags, logging

from albert_tf import help, quiet

quiet.import_tensorflow()

# What TensorFlow puts around the reason of an error: "{{function_node __wrapped__SaveV2_...}} a.data; File too large
# [Op:SaveV2]", and where a graph fails, the lines of Python that made the op.
_AROUND_THE_REASON = re.compile(
    r"""\{\{function_node [^}]*\}\}\s | \s\[Op:\w+\]
        | ^(Graph\ execution\ error: | Detected\ at\ node\ .* | \ \ File\ ".* | \s+\[\[\{\{node\ .*)$""", re.M | re.X)


def run(main: Callable[..., None], operands: int = 0) -> None:
    """Runs `main` as an absl app. ValueError, OSError and TensorFlow's errors become one line and exit status 1.

    --help prints the docstring of main's module and the flags in groups. With --verbosity=1 the whole traceback is
    logged before that line; with --verbosity=-1 only warnings are logged.

    Args:
      main: called with the arguments that are no flags.
      operands: how many of them there may be.
    """

    def guarded(argv: list[str]) -> None:
        _, *given = argv
        if len(given) > operands:
            raise app.UsageError(f"unexpected argument: {given[operands]}")
        import tensorflow as tf

        from albert_tf.training.workers import naming_lost_workers

        if not flags.FLAGS["verbosity"].present:  # absl's own default is warnings
            logging.set_verbosity(logging.INFO)
        quiet.drop_messages_of_libraries()
        tf.get_logger().setLevel("ERROR")  # how tensors are reduced, and that saving takes time, is not for users
        try:
            with naming_lost_workers():
                main(*given)
        except (ValueError, OSError, tf.errors.OpError) as error:
            logging.debug("traceback of the error below", exc_info=True)
            print(f"{_program(argv[0])}: error: {_one_line(error)}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit("interrupted")

    if help.is_requested(sys.argv[1:]):
        print(help.help_text(main.__globals__["__doc__"], sys.argv[0]))
        sys.exit(0)
    app.run(guarded)


def _program(path: str) -> str:
    """What a user calls a program: of `python -m studies` the package, and not its __main__.py."""
    folder, name = os.path.split(path)
    return os.path.basename(folder) if name == "__main__.py" else name


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    message = _AROUND_THE_REASON.sub("", getattr(error, "message", None) or str(error))
    return " ".join(message.split())[:1000]
