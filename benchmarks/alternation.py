"""Programs measured against each other in one run, in turns: what the machine does besides then strikes all alike."""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from benchmarks.workers.serving import BATCH, SEQ

ROOT = pathlib.Path(__file__).parents[1]
_TWO_THREADS = dict(OMP_NUM_THREADS="2", TF_NUM_INTRAOP_THREADS="2", TF_NUM_INTEROP_THREADS="2",
                    TF_CPP_MIN_LOG_LEVEL="3")


class Worker:
    """A module of benchmarks.workers as a process of its own, kept ready between its turns.

    Args:
      module: its name.
      arguments: of its command line.
      python: of the environment that it runs in.
    """

    def __init__(self, module: str, *arguments: str, python: str = sys.executable):
        self._name, self._log = f"{module} {' '.join(arguments)}", tempfile.TemporaryFile("w+")
        environment = dict(os.environ, PYTHONPATH=str(ROOT), **_TWO_THREADS)
        try:
            self._process = subprocess.Popen([python, "-m", f"benchmarks.workers.{module}", *arguments],
                                             env=environment, text=True, stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, stderr=self._log)
        except OSError as error:
            raise ValueError(f"--peer_python: {python} cannot be run: {error.strerror}") from error
        self._answer()

    def seconds(self, steps: int) -> float:
        print(steps, file=self._process.stdin, flush=True)
        return float(self._answer())

    def tokens_per_second(self, steps: int) -> float:
        return steps * BATCH * SEQ / self.seconds(steps)

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        answer = self._process.stdout.readline()
        if not answer:
            self._log.seek(0)
            raise ValueError(f"{self._name} ended: {(self._log.read().strip().splitlines() or ['no output'])[-1]}")
        return answer


def compare(make_workers: dict, rounds: int, seconds: float) -> dict[str, float]:
    """Median tokens per second of each, over rounds in which all of them have their turn.

    Args:
      make_workers: by name, functions that start a worker.
      rounds: how many.
      seconds: about how long a turn lasts.
    """
    workers = {}
    try:
        for name, make in make_workers.items():
            workers[name] = make()
        steps = {name: max(1, round(seconds * worker.tokens_per_second(2) / (BATCH * SEQ)))
                 for name, worker in workers.items()}
        rates = {name: [] for name in workers}
        for _ in range(rounds):
            for name, worker in workers.items():
                rates[name].append(worker.tokens_per_second(steps[name]))
    finally:
        for worker in workers.values():
            worker.stop()
    return {name: statistics.median(found) for name, found in rates.items()}


def print_head(peer: str) -> None:
    print("tokens per second, median\n"
          f"{'':24}{'ours':>10}{'ours, XLA':>12}{peer:>16}{'ratio':>10}{'XLA':>8}{'wanted':>9}", flush=True)


def print_row(what: str, rates: dict[str, float], peer: str, wanted: float) -> None:
    """Args: what was measured, tokens per second by name, the peer's name, the ratio that is wanted."""
    plain, compiled, theirs = (rates[name] for name in ("ours", "ours, XLA", peer))
    print(f"{what:24}{plain:10.0f}{compiled:12.0f}{theirs:16.0f}"
          f"{plain / theirs:10.2f}{compiled / theirs:8.2f}{wanted:9.2f}", flush=True)
