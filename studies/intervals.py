"""Means over seeds with standard errors, and intervals of differences."""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import numpy as np
from scipy import stats

_RESAMPLES, _SEED = 10_000, 1
_ROWS_AT_ONCE = 500  # resamples in memory


class Interval(NamedTuple):
    """A difference and its 95 % interval. Both ends are nan if the interval cannot be computed."""

    difference: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the difference is significant at 5 %."""
        return self.low > 0 or self.high < 0


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean; nan for less than two values."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def difference_over_seeds(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Mean of a minus mean of b, with Welch's interval. Each value is of one seed, and the seeds are independent."""
    difference = float(np.mean(a) - np.mean(b))
    if min(len(a), len(b)) < 2:
        return Interval(difference, math.nan, math.nan)
    variance_a, variance_b = standard_error(a) ** 2, standard_error(b) ** 2
    if variance_a + variance_b == 0:
        return Interval(difference, difference, difference)
    freedom = (variance_a + variance_b) ** 2 / (variance_a**2 / (len(a) - 1) + variance_b**2 / (len(b) - 1))
    half = stats.t.ppf(0.975, freedom) * math.sqrt(variance_a + variance_b)
    return Interval(difference, difference - half, difference + half)


def paired_difference_over_seeds(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Mean of a minus mean of b, with Student's interval. The n-th values of a and b are of the same pre-trained model.

    Raises:
      ValueError: the numbers of values differ.
    """
    differences = [left - right for left, right in zip(a, b, strict=True)]
    difference, error = float(np.mean(differences)), standard_error(differences)
    half = 0.0 if error == 0 else stats.t.ppf(0.975, len(differences) - 1) * error
    return Interval(difference, difference - half, difference + half)


def paired_bootstrap(a: np.ndarray, b: np.ndarray) -> Interval:
    """Mean of a minus mean of b over examples that two models answered. The interval is from resampled examples.

    The interval describes other examples of the same distribution. It does not describe other seeds.

    Args:
      a, b: scores of the same examples in the same order, [seeds, examples] each; they are averaged over seeds.

    Raises:
      ValueError: the numbers of examples differ.
    """
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"{a.shape[1]} and {b.shape[1]} examples cannot be compared in pairs")
    differences = a.mean(axis=0) - b.mean(axis=0)  # [examples]
    random = np.random.default_rng(_SEED)
    means = np.concatenate([
        differences[random.integers(0, len(differences), [_ROWS_AT_ONCE, len(differences)])].mean(axis=1)
        for _ in range(_RESAMPLES // _ROWS_AT_ONCE)])
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(differences.mean()), float(low), float(high))
