"""How far a long job is: a bar on a terminal, a plain line now and then elsewhere; its rate of the last minute."""

from __future__ import annotations

import collections
import contextlib
import sys
import time
from typing import Callable, Iterator

from absl import logging
from tqdm import tqdm

# Seconds between two log lines, seconds that a rate is the mean of, and seconds between two of its samples.
LINE_SECONDS = 30
_RATE_SECONDS = 60
_SAMPLE_SECONDS = 1


class MovingRate:
    """The mean rate of the last minute, or of the last two updates where these are further apart.

    Time before the first update does not count: compilation and the start of workers fall into it.
    """

    def __init__(self):
        # (seconds, how much was done by then)
        self._samples: collections.deque[tuple[float, float]] = collections.deque()

    def update(self, done: float) -> None:
        """Takes in how much is done now, in all."""
        now = time.monotonic()
        if len(self._samples) > 1 and now - self._samples[-2][0] < _SAMPLE_SECONDS:
            self._samples.pop()
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= _RATE_SECONDS:
            self._samples.popleft()

    @property
    def per_second(self) -> float:
        """The rate; 0 as long as it is unknown."""
        if not self._samples:
            return 0.0
        (begin, first), (end, last) = self._samples[0], self._samples[-1]
        return (last - first) / (end - begin) if end > begin else 0.0

    def time_left(self, remaining: float) -> str:
        """Minutes and seconds that the rest takes at this rate; ? as long as the rate is unknown."""
        return tqdm.format_interval(remaining / self.per_second) if self.per_second else "?"


class Bar(tqdm):
    """tqdm's bar with the rate and the time left of a MovingRate."""

    def __init__(self, *args, **kwargs):
        self.rate = MovingRate()
        super().__init__(*args, **kwargs)

    def update(self, n=1):
        """Adds n to what is done."""
        self.rate.update(self.n + n)
        return super().update(n)

    @property
    def format_dict(self):
        """tqdm's values, with the rate of the last minute."""
        return dict(super().format_dict, rate=self.rate.per_second)


@contextlib.contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told each time how many more are done.

    Args:
      what: the job's name.
      total: how many there are to do; None where that is not known.
      unit: of what, as it stands behind a number.
    """
    if sys.stderr.isatty():
        with Bar(desc=what, total=total, unit=unit, unit_scale=True) as bar:
            yield bar.update
    else:
        lines = _Lines(what, total, unit)
        yield lines.update
        lines.end()


class _Lines:
    def __init__(self, what: str, total: int | None, unit: str):
        self._what, self._total, self._unit, self._done = what, total, unit, 0
        self._rate = MovingRate()
        self._start = self._last_line = time.monotonic()

    def update(self, count: int) -> None:
        self._done += count
        self._rate.update(self._done)
        now = time.monotonic()
        if now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            logging.info("%s", tqdm.format_meter(self._done, self._total, now - self._start, ncols=0, prefix=self._what,
                                                 unit=self._unit, unit_scale=True, rate=self._rate.per_second))

    def end(self) -> None:
        seconds = tqdm.format_interval(time.monotonic() - self._start)
        logging.info("%s: %s %s in %s", self._what, f"{self._done:,}", self._unit.strip(), seconds)
