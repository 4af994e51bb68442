"""`python -m albert_tf` lists the commands; `python -m albert_tf COMMAND --flag=value ...` runs one."""

import signal
import sys

from albert_tf.commands import usage


def main() -> None:
    """Runs the command that the first argument names. Without one, lists the commands."""
    _, *arguments = sys.argv
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage.listing())
        return
    try:
        command = usage.find_command(arguments[0])
    except ValueError as error:
        sys.exit(f"{usage.launcher()}: error: {error}")
    sys.argv[:2] = [f"{usage.launcher()} {command}"]
    try:
        from albert_tf.commands import app

        app.run_command(command)
    except KeyboardInterrupt:  # before the command handles it
        print("interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
