"""Exports that are scored: their flags, what a model loses in a precision, and whether that is too much."""

from __future__ import annotations

import dataclasses
from typing import Callable, Iterable

from albert_tf.commands import flag_fields as fields, shared_flags as shared, vector_flags
from albert_tf.modeling.arguments import PredictingModel
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.task_config import load_task_config
from albert_tf.tasks.scores import Scorer, scorer
from albert_tf.weights.resolved_model import ResolvedModel

_ROUNDING = 1e-6  # of float32: the same outputs in another order of additions


@dataclasses.dataclass(frozen=True)
class ScoreFlags:
    """The flags of a dev file on which an export is scored."""

    GROUP = "Export"

    score_data: str | None = fields.string(
        None, "Path of a dev file of the model's task, on which the model is scored before and after the export: "
        "SQuAD's JSON, CoNLL for tags, JSON lines for multiple choice; for texts and sentence vectors a file with the "
        "columns of --task_name or --task_config. Default: nothing is scored.")
    max_score_drop: float | None = fields.number(
        None, "Largest part of the score that an export of --score_data may lose: 0.005 allows half a per cent. If one "
        "loses more, nothing is written. Default: any.", 0.0, needs="score_data")
    task_name: str | None = fields.string(
        None, "Name of the GLUE task of --score_data, such as sst-2.", needs="score_data")
    task_config: str | None = fields.string(
        None, "Path of a JSON file that describes a task of your own, instead of --task_name (docs/fine_tuning.md "
        "shows one).", needs="score_data")


@dataclasses.dataclass(frozen=True)
class ExportOptions(shared.SourceFlags, shared.HeadFlags, vector_flags.VectorFlags, vector_flags.PrecisionFlags,
                    shared.NumLayersFlags, ScoreFlags):
    """The flags of a command that exports files in several precisions."""

    def scorer(self, model: ResolvedModel, head: str) -> Scorer | None:
        """The function that scores a model with a head on --score_data; None if the flag is not set."""
        if not self.score_data:
            return None
        if self.task_name and self.task_config:
            raise ValueError("set either --task_name or --task_config")
        task = load_task_config(self.task_config) if self.task_config else None
        return scorer(head, self.score_data, model.vocabulary.tokenizer(model.config),
                      find_task(self.task_name) if self.task_name else task, self.stored_precision())


def check_scores(
    score: Scorer, model: PredictingModel, exports: Iterable[tuple[str, Callable[[], PredictingModel]]],
    max_score_drop: float | None,
) -> None:
    """Prints the score of a model and that of each export.

    Args:
      exports: the name of each precision, and a function that opens the export.
      max_score_drop: the largest loss that is allowed, as a share of the model's score; None for any.
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
