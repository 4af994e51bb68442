"""Standard errors of means over seeds, and 95 % intervals of differences."""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import numpy as np
from scipy import stats


class Interval(NamedTuple):
    """A difference and its 95 % interval. Both ends are nan if the interval cannot be computed."""

    difference: float
    low: float
    high: float


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean; nan for less than two values."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def over_seeds(a: Sequence[float], b: Sequence[float], paired: bool = False) -> Interval:
    """Mean of a minus mean of b, with Welch's interval, or Student's if the n-th values of both are of one model."""
    difference = float(np.mean(a) - np.mean(b))
    if min(len(a), len(b)) < 2:
        return Interval(difference, math.nan, math.nan)
    if np.ptp(np.subtract(a, b) if paired else [*np.subtract(a, a[0]), *np.subtract(b, b[0])]) == 0:
        return Interval(difference, difference, difference)
    test = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
    return Interval(difference, *map(float, test.confidence_interval(0.95)))


def over_examples(a: np.ndarray, b: np.ndarray) -> Interval:
    """Mean of a minus mean of b, with the interval of a paired bootstrap over the examples.

    Args:
      a, b: scores of the same examples in the same order, [seeds, examples] each; they are averaged over seeds.
    """
    differences = a.mean(axis=0) - b.mean(axis=0)  # [examples]
    low, high = stats.bootstrap([differences], np.mean, n_resamples=10_000, batch=500, method="percentile",
                                random_state=1).confidence_interval
    return Interval(float(differences.mean()), float(low), float(high))
