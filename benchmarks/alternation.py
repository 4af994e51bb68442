"""Measures programs against each other in turns, so that other work of the machine slows all of them alike."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Callable, Iterator, Mapping, Sequence, TypeVar

ROOT = pathlib.Path(__file__).parents[1]
Name = TypeVar("Name")
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


class Worker:
    """A module of benchmarks.workers that runs as a separate process and waits between its turns. `running` stops it.

    Args:
      module: name of the module.
      arguments: arguments of the module's command line.
      python: the Python interpreter that runs it.
      cpu_time: whether to measure CPU time on one thread instead of elapsed time on two, for a machine that does other
        work at the same time.
    """

    def __init__(self, module: str, *arguments: str, python: str = sys.executable, cpu_time: bool = False):
        self._name, self._log = f"{module} {' '.join(arguments)}", tempfile.TemporaryFile("w+")
        environment = dict(os.environ, PYTHONPATH=str(ROOT), TF_CPP_MIN_LOG_LEVEL="3",
                           **dict.fromkeys(THREADS, "1" if cpu_time else "2"))
        if cpu_time:
            environment["CPU_TIME"] = "1"
        try:
            self._process = process = subprocess.Popen([python, "-m", f"benchmarks.workers.{module}", *arguments],
                                                       env=environment, text=True, stdin=subprocess.PIPE,
                                                       stdout=subprocess.PIPE, stderr=self._log)
        except OSError as error:
            raise ValueError(f"--peer_python: {python} cannot be run: {error.strerror}") from error
        assert process.stdin is not None and process.stdout is not None  # they are pipes
        self._stdin, self._stdout = process.stdin, process.stdout
        self._answer()

    def seconds(self, steps: int) -> float:
        print(steps, file=self._stdin, flush=True)
        return float(self._answer())

    def stop(self) -> None:
        self._stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        answer = self._stdout.readline()
        if not answer:
            self._log.seek(0)
            raise ValueError(f"{self._name} ended: {_last_line(self._log.read())}")
        return answer


def output_of(command: Sequence[str], **environment: str) -> str:
    """What a command of this repository prints. Raises ValueError if it cannot be started or fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, env=dict(os.environ, PYTHONPATH=str(ROOT), **environment),
                              capture_output=True, text=True)
    except OSError as error:
        raise ValueError(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise ValueError(f"{' '.join(command[1:])[:200]} ended: {_last_line(done.stderr)}")
    return done.stdout


def compare(
    make_workers: Mapping[str, Callable[[], Worker]], rounds: int, seconds: float, tokens: int
) -> dict[str, float]:
    """The median tokens per second of each program. In a round each program has one turn.

    Args:
      make_workers: functions that start a worker, by the name of the program.
      rounds: the number of rounds.
      seconds: the approximate duration of a turn.
      tokens: the number of tokens of a step.
    """
    with running(make_workers) as workers:
        steps = {name: max(1, round(2 * seconds / worker.seconds(2))) for name, worker in workers.items()}
        medians = in_turns({name: functools.partial(worker.seconds, steps[name]) for name, worker in workers.items()},
                           rounds)
    return {name: steps[name] * tokens / median for name, median in medians.items()}


@contextlib.contextmanager
def running(make_workers: Mapping[str, Callable[[], Worker]]) -> Iterator[dict[str, Worker]]:
    """The workers by the name of the program, from functions that start them. All of them are stopped in the end."""
    with contextlib.ExitStack() as stack:
        workers = {}
        for name, make in make_workers.items():
            workers[name] = make()
            stack.callback(workers[name].stop)
        yield workers


def latencies(make_workers: Mapping[str, Callable[[], Worker]], rounds: int) -> dict[str, float]:
    """The median seconds of one step of each program. In a round each program takes one step."""
    with running(make_workers) as workers:
        return in_turns({name: functools.partial(worker.seconds, 1) for name, worker in workers.items()}, rounds)


def in_turns(turns: Mapping[Name, Callable[[], float]], rounds: int) -> dict[Name, float]:
    """The median of what each function returns. In a round each is called once."""
    found: dict[Name, list[float]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            found[name].append(turn())
    return {name: statistics.median(values) for name, values in found.items()}


def print_head(names: Sequence[str]) -> None:
    """Prints the head of the table. The first name is our program, the last name the peer's."""
    columns = "".join(f"{name:>16}" for name in names)
    print(f"tokens per second, median\n{'':36}{columns}{'ratio':>9}", flush=True)


def print_row(what: str, rates: dict[str, float]) -> None:
    """Prints what was measured, the tokens per second of each program, and the ratio of first to last."""
    first, *_, last = rates.values()
    columns = "".join(f"{rate:16.0f}" for rate in rates.values())
    print(f"{what:36}{columns}{first / last:9.2f}", flush=True)


def _last_line(log: str) -> str:
    return (log.strip().splitlines() or ["no output"])[-1]
