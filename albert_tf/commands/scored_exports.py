"""Exports that are scored: what a model loses by being exported in a precision, and whether that is too much."""

from __future__ import annotations

from typing import Callable, Iterable

from albert_tf.modeling.predicting_model import PredictingModel
from albert_tf.tasks.scores import Scorer

_ROUNDING = 1e-6  # of float32: the same outputs in another order of additions


def check_scores(
    score: Scorer, model: PredictingModel, exports: Iterable[tuple[str, Callable[[], PredictingModel]]],
    max_score_drop: float | None,
) -> None:
    """Prints the score of a model and that of each export.

    Args:
      score: the result of scores.scorer.
      model: the model that is exported.
      exports: the name of each precision, and a function that opens the export.
      max_score_drop: the largest loss that is allowed, as a share of the model's score; None for any.

    Raises:
      ValueError: an export loses more.
    """
    before = score(model)
    print(f"{before.name} of the model: {before.value:.4f}", flush=True)
    for precision, opened in exports:
        after = score(opened())
        drop = before.drop_to(after)
        print(f"{after.name} in {precision}: {after.value:.4f} ({round(-drop, 4) + 0.0:+.2%})", flush=True)
        if max_score_drop is not None and drop > max_score_drop + _ROUNDING:
            raise ValueError(f"in {precision}, {after.name} is {after.value:.4f}, {drop:.2%} below the model's "
                             f"{before.value:.4f}, and --max_score_drop={max_score_drop:g} allows "
                             f"{max_score_drop:.2%}: nothing is written. Export without this precision, or allow more")
