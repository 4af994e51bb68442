"""How far a long job is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Callable, Iterator

from absl import logging
from tqdm import tqdm

_LINE_SECONDS = 30


@contextlib.contextmanager
def progress(what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told each time how many more are done.

    Args:
      what: the job's name.
      total: how many there are to do.
      unit: of what, as it stands behind a number.
    """
    if sys.stderr.isatty():
        with tqdm(desc=what, total=total, unit=unit, unit_scale=True) as bar:
            yield bar.update
    else:
        lines = _Lines(what, total, unit)
        yield lines.update
        lines.end()


class _Lines:
    def __init__(self, what: str, total: int, unit: str):
        self._what, self._total, self._unit, self._done = what, total, unit, 0
        self._start = self._last_line = time.monotonic()

    def update(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._last_line >= _LINE_SECONDS:
            self._last_line = now
            logging.info("%s", tqdm.format_meter(self._done, self._total, now - self._start, ncols=0, prefix=self._what,
                                                 unit=self._unit, unit_scale=True))

    def end(self) -> None:
        seconds = tqdm.format_interval(time.monotonic() - self._start)
        logging.info("%s: %s %s in %s", self._what, f"{self._done:,}", self._unit.strip(), seconds)
