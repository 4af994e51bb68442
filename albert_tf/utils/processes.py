"""Runs another program to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Callable, Mapping, Sequence

_SECONDS = 5.0  # between two calls of should_end


def run_to_end(
    command: Sequence[str], environment: Mapping[str, str] | None = None, should_end: Callable[[], bool] | None = None
) -> int:
    """Runs a command and returns its exit status; 0 if should_end has ended it.

    After Ctrl-C or SIGTERM, this function waits until the command has ended, so that a training can save its step.
    SIGTERM is passed on to the command; Ctrl-C is not, because a terminal sends it to both.

    Args:
      command: the program and its arguments.
      environment: the environment of the command; None for that of this process.
      should_end: called every few seconds; when it returns True, the command receives SIGTERM. None for no such call.

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
            status = _wait(process, should_end)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
    if signal.SIGTERM in received:
        sys.exit(128 + signal.SIGTERM)
    if received:
        raise KeyboardInterrupt
    return status


def _wait(process: subprocess.Popen, should_end: Callable[[], bool] | None) -> int:
    while should_end is not None:
        try:
            return process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            if should_end():
                process.terminate()
                process.wait()
                return 0
    return process.wait()
