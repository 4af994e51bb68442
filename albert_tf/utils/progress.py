"""Shows progress and rate (of the last minute) of a long job: a bar on a terminal, or else log lines at intervals."""

from __future__ import annotations

import collections
import contextlib
import sys
import time
from typing import Any, Callable, Iterator

from absl import logging
from tqdm import tqdm

LINE_SECONDS = 30  # between two log lines
_RATE_SECONDS = 60  # over which a rate is averaged
_SAMPLE_SECONDS = 1  # between two samples of a rate


class MovingRate:
    """The mean rate of the last minute, or between the last two updates if they are more than a minute apart.

    The time before the first update, with compilation and the start of workers, does not count.
    """

    def __init__(self) -> None:
        # (time in seconds, amount that was done by then)
        self._samples: collections.deque[tuple[float, float]] = collections.deque()

    def update(self, done: float) -> None:
        """Adds a sample: the total amount that is done now."""
        now = time.monotonic()
        if len(self._samples) > 1 and now - self._samples[-2][0] < _SAMPLE_SECONDS:
            self._samples.pop()
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= _RATE_SECONDS:
            self._samples.popleft()

    def leave_out(self, seconds: float, amount: float = 0) -> None:
        """Leaves out the last seconds, which were spent on something else, and what was done in them."""
        self._samples = collections.deque((time + seconds, done + amount) for time, done in self._samples)

    def skip(self, done: float) -> None:
        """Leaves out the time since the last update, and what was done in it."""
        if self._samples:
            self.leave_out(time.monotonic() - self._samples[-1][0], done - self._samples[-1][1])

    @property
    def per_second(self) -> float:
        """The rate; 0 while it is unknown."""
        if not self._samples:
            return 0.0
        (begin, first), (end, last) = self._samples[0], self._samples[-1]
        return (last - first) / (end - begin) if end > begin else 0.0

    def time_left(self, remaining: float, more: float = 0.0) -> str:
        """The time for the remaining amount, and more seconds, as minutes:seconds; "?" while the rate is unknown."""
        return tqdm.format_interval(remaining / self.per_second + more) if self.per_second else "?"


class Bar(tqdm):
    """tqdm's bar with the rate and time left of a MovingRate. `more` seconds of other work are added to the time."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.rate, self.more = MovingRate(), 0.0
        super().__init__(*args, **kwargs)

    def update(self, n: float | None = 1) -> bool | None:
        """Adds n to the amount that is done."""
        self.rate.update(self.n + n)
        return super().update(n)

    @property
    def format_dict(self) -> dict[str, Any]:
        """tqdm's values, with the rate of the last minute, or that which fits the time left."""
        rate, remaining = self.rate.per_second, (self.total or self.n) - self.n
        if rate and remaining > 0:
            rate = remaining / (remaining / rate + self.more)
        return dict(super().format_dict, rate=rate)


@contextlib.contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with each further amount. The unit is written after a number: "B" or " lines"."""
    if sys.stderr.isatty():
        with Bar(desc=what, total=total, unit=unit, unit_scale=True) as bar:
            yield bar.update
        return
    done, rate, start = 0, MovingRate(), time.monotonic()
    last_line = start

    def update(count: int) -> None:
        nonlocal done, last_line
        done += count
        rate.update(done)
        now = time.monotonic()
        if now - last_line >= LINE_SECONDS:
            last_line = now
            logging.info("%s", tqdm.format_meter(done, total, now - start, ncols=0, prefix=what, unit=unit,
                                                 unit_scale=True, rate=rate.per_second))

    yield update
    name = unit.strip()
    amount = count_of(done, name[:-1]) if name.endswith("s") else f"{done:,} {name}"
    logging.info("%s: %s in %s", what, amount, tqdm.format_interval(time.monotonic() - start))


def count_of(number: int, noun: str) -> str:
    """The number with thousands separators, and the noun in the singular or with an "s": "1 file", "1,024 files"."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"
