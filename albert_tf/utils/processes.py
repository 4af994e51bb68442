"""How this program was started, how signals end it, and how it runs other programs."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import Collection, Iterator, Mapping, Sequence

LAUNCHER = "python -m albert_tf"  # what stands before a command's name in messages


def typed_command(started: str) -> str:
    """What a user has typed before the flags, such as `python run_squad.py`."""
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


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, and SIGHUP of a terminal that is gone; without those that nohup or a shell made this process ignore."""
    return [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]


# Seconds in which a command may end after a signal before it says what it does, and in which SIGTERM or SIGHUP after
# another signal is the same one: `timeout` sends it to its command and to the command's group.
_SILENCE, _SAME_SIGNAL = 0.2, 1
_NO_SIGNAL = 0
_announcements = ["the command ends when its current work is done"]


@contextlib.contextmanager
def announcing(consequence: str) -> Iterator[None]:
    """A block in which a signal has another consequence, which ended_by_signals announces."""
    _announcements.append(consequence)
    try:
        yield
    finally:
        _announcements.pop()


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """A block that a signal ends with one line and the status of other Unix programs; temporary files are removed.

    Ctrl-C raises KeyboardInterrupt, as outside of the block. Python handles signals only between the operations of the
    main thread, and a training step or its compilation is one operation. So a thread says what will happen if the
    first signal has not ended the block, and ends the process at the second signal.
    """
    raised: list[BaseException] = []

    def end(number: int, _: FrameType | None) -> None:
        if raised:  # the block ends already
            return
        raised.append(KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number))
        if number != signal.SIGINT:
            leave_terminal(number)
            _write_error(f"ended by {signal.Signals(number).name}")
        raise raised[-1]

    handled = [*ending_signals(), *[signal.SIGINT] * (signal.getsignal(signal.SIGINT) is signal.default_int_handler)]
    previous = {number: signal.signal(number, end) for number in handled}
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    other = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading, handled, raised), daemon=True).start()
    try:
        yield
    except Exception:
        if not raised:
            raise
        # Code in C that a signal interrupts, and TensorFlow's device scopes, raise other errors instead.
        raise raised[-1] from None
    finally:
        signal.set_wakeup_fd(other)
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.write(writing, bytes([_NO_SIGNAL]))  # ends the thread
        os.close(writing)


def _watch(reading: int, handled: Collection[int], raised: Sequence[BaseException]) -> None:
    """Reads numbers of signals from a pipe, up to _NO_SIGNAL; see ended_by_signals."""
    last = None  # the time of the last signal
    while (number := os.read(reading, 1)[0]) != _NO_SIGNAL:
        if number not in handled:
            continue
        now = time.monotonic()
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        if last is None:
            time.sleep(_SILENCE)
            if not raised:
                leave_terminal(number)
                _write_error(f"{name}: {_announcements[-1]}. A second signal ends it at once")
        elif number == signal.SIGINT or now - last > _SAME_SIGNAL:
            _write_error(f"ended at once by {name}")
            os._exit(128 + number)
        last = now
    os.close(reading)


def _write_error(line: str) -> None:
    """Writes a line to the standard error without Python's buffers, since a signal may have interrupted a print."""
    with contextlib.suppress(OSError):  # a terminal or reader that is gone
        os.write(2, f"{line}\n".encode())


def leave_terminal(number: int) -> None:
    """After SIGHUP, drops output to the terminal, since writing to it is now an error."""
    if number == signal.SIGHUP:
        for descriptor in (1, 2):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def run_to_end(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Runs a command and returns its exit status.

    After a signal, this function waits until the command has ended, so that a training can save its step, and raises
    KeyboardInterrupt or SystemExit. SIGTERM and SIGHUP are passed on as SIGTERM; Ctrl-C is not, because a terminal
    sends it to both. The command itself answers signals (see ended_by_signals).
    """
    received: list[int] = []
    with subprocess.Popen(command, env=environment) as process:
        def receive(number: int, _: FrameType | None) -> None:
            received.append(number)
            leave_terminal(number)
            if number != signal.SIGINT:
                process.terminate()

        previous = {number: signal.signal(number, receive) for number in (signal.SIGINT, *ending_signals())}
        watching = signal.set_wakeup_fd(-1)
        try:
            status = process.wait()
        finally:
            signal.set_wakeup_fd(watching, warn_on_full_buffer=False)
            for number, handler in previous.items():
                signal.signal(number, handler)
    if received:
        if received[0] == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + received[0])
    return status
