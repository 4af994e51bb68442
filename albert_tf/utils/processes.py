"""Runs another program to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Mapping, Sequence


def run_to_end(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Runs a command and returns its exit status.

    After Ctrl-C or SIGTERM, this function waits until the command has ended, so that a training can save its step.
    SIGTERM is passed on to the command; Ctrl-C is not, because a terminal sends it to both.

    Args:
      command: the program and its arguments.
      environment: the environment of the command; None for that of this process.

    Raises:
      KeyboardInterrupt: Ctrl-C was pressed.
      SystemExit: this process received SIGTERM.
    """
    received = []
    with subprocess.Popen(command, env=environment) as process:
        def receive(number, _):
            received.append(number)
            if number == signal.SIGTERM:
                process.terminate()

        previous = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            status = process.wait()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
    if signal.SIGTERM in received:
        sys.exit(128 + signal.SIGTERM)
    if received:
        raise KeyboardInterrupt
    return status
