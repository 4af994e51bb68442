"""`python -m albert_tf` lists the commands; `python -m albert_tf COMMAND --flag=value ...` runs one."""

import signal
import sys

from albert_tf.utils.imports import missing_package
from albert_tf.utils.processes import LAUNCHER


def main() -> None:
    """Runs the command that the first argument names. Without one, lists the commands."""
    name = sys.argv[1] if len(sys.argv) > 1 else "help"
    if name not in ("-h", "--help", "help"):
        sys.argv[:2] = [f"{LAUNCHER} {name.replace('-', '_')}"]
    try:
        try:
            from albert_tf.commands import app
        except ModuleNotFoundError as error:
            sys.exit(f"{LAUNCHER}: error: {missing_package(name, error)}")
        if name in ("-h", "--help", "help"):
            print(app.listing())
        else:
            app.run_command(name)
    except KeyboardInterrupt:  # before the command handles it
        print("interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
