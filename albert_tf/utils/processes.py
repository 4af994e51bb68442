"""How this program was started, how signals end it, and how it runs other programs."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import signal
import stat
import subprocess
import sys
from typing import Iterator, Mapping, Sequence

_MODULE = "python -m albert_tf"
_INSTALLED = "albert-tf"


def launcher() -> str:
    """What a user types before a command's name: `albert-tf` in an installed package, else `python -m albert_tf`."""
    return _INSTALLED if pathlib.Path(sys.argv[0]).name.split(" ")[0] == _INSTALLED else _MODULE


def typed_command(started: str) -> str:
    """What a user has typed before the flags, such as `python run_squad.py` or `albert-tf serve`."""
    if " " in started:  # set by albert_tf.__main__
        return started
    path = pathlib.Path(started)
    if path.name == "__main__.py":
        return f"python -m {path.parent.name}"
    return f"python {path.name}" if path.suffix == ".py" else path.name


def command_line() -> str:
    """The command line that started this command."""
    return f"{typed_command(sys.argv[0])} {shlex.join(sys.argv[1:])}".rstrip()


def command_name(started: str) -> str:
    """The name of a command, such as "run_squad", or of another program, at the start of an error message."""
    return typed_command(started).split(" ")[-1].removesuffix(".py")


def as_started(text: str) -> str:
    """A text such as a docstring with its commands as an installed package has them, if this is one."""
    if launcher() != _INSTALLED:
        return text
    return re.sub(rf"\b{_MODULE} (?=\w)", f"{_INSTALLED} ", text)


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, and SIGHUP of a terminal that is gone; without those that nohup or a shell made this process ignore."""
    return [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """A block that a signal ends with one line and the status of other Unix programs; temporary files are removed.

    Ctrl-C raises KeyboardInterrupt, as outside of the block.
    """
    raised: list[BaseException] = []

    def end(number, _):
        raised.append(SystemExit(128 + number))
        for each in ending_signals():  # the first one ends the process
            signal.signal(each, signal.SIG_IGN)
        leave_terminal(number)
        os.write(2, f"ended by {signal.Signals(number).name}\n".encode())  # the signal may have interrupted a print
        raise raised[-1]

    def interrupt(*_):
        raised.append(KeyboardInterrupt())
        raise raised[-1]

    handlers: dict = dict.fromkeys(ending_signals(), end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handlers[signal.SIGINT] = interrupt
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    except Exception:
        if not raised:
            raise
        # Code in C that a signal interrupts, and TensorFlow's device scopes, raise other errors instead.
        raise raised[-1] from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def leave_terminal(number: int) -> None:
    """After SIGHUP, drops output to the terminal, since writing to it is now an error."""
    if number == signal.SIGHUP:
        for descriptor in (1, 2):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def run_to_end(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Runs a command and returns its exit status.

    After Ctrl-C, SIGTERM or SIGHUP, this function waits until the command has ended, so that a training can save its
    step. SIGTERM and SIGHUP are passed on as SIGTERM; Ctrl-C is not, because a terminal sends it to both.

    Raises:
      KeyboardInterrupt: Ctrl-C was pressed.
      SystemExit: this process received SIGTERM or SIGHUP.
    """
    received = []
    with subprocess.Popen(command, env=environment) as process:
        def receive(number, _):
            received.append(number)
            leave_terminal(number)
            if number != signal.SIGINT:
                process.terminate()

        previous = {number: signal.signal(number, receive) for number in (signal.SIGINT, *ending_signals())}
        try:
            status = process.wait()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
    for number in received:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)
    return status
