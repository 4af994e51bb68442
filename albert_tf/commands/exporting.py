"""The dev file on which the commands that export files in several precisions score them."""

from __future__ import annotations

import dataclasses

from albert_tf import options as fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring(fields.Config, group="Export"):
    """A dev file on which an export is scored."""

    score_data: str | None = fields.string(
        None, "Path of a dev file of the model's task, on which the model is scored before and after the export: "
        "SQuAD's JSON, CoNLL for tags, JSON lines for multiple choice; for texts and sentence vectors a file with the "
        "columns of --task_name or --task_config. Default: nothing is scored.")
    max_score_drop: float | None = fields.number(
        None, "Largest part of the score that an export of --score_data may lose: 0.005 allows half a per cent. If one "
        "loses more, nothing is written. Default: any.", 0.0, needs="score_data")
    task_name: str | None = fields.string(None, "GLUE task of --score_data, such as sst-2.", needs="score_data")
    task_config: str | None = fields.string(
        None, "Path of a JSON file that describes another task, as in docs/fine_tuning.md.", needs="score_data")
