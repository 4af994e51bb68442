"""Accuracy on minimal pairs: how often the grammatical sentence has the higher score."""

from __future__ import annotations

import collections
from typing import Iterable, Sequence

import numpy as np

from albert_tf.tasks.masked_lm.minimal_pairs import MinimalPair


def accuracies(pairs: Sequence[MinimalPair], good: Sequence[float], bad: Sequence[float]) -> dict:
    """Accuracy over all pairs, by file and by field; a tie counts as half.

    Args:
      pairs: the pairs.
      good, bad: scores of their sentences, [pairs] each.

    Returns:
      {"all": 0.75, "files": {"anaphor_number_agreement": 0.75}, "fields": {"morphology": 0.75}}
    """
    credit = (1 + np.sign(np.subtract(good, bad))) / 2  # 1, 0.5 for a tie, or 0
    return {"all": float(np.mean(credit)),
            "files": _means((pair.file for pair in pairs), credit),
            "fields": _means((pair.field for pair in pairs), credit)}


def _means(names: Iterable[str | None], credit: np.ndarray) -> dict[str, float]:
    values = collections.defaultdict(list)
    for name, value in zip(names, credit):
        if name is not None:
            values[name].append(value)
    return {name: float(np.mean(values[name])) for name in values}
