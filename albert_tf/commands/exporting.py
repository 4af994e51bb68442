"""Common options and functions of the commands that export files in several precisions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from albert_tf import options as fields
from albert_tf.options import Config
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.classification.table_format import read_table_format
from albert_tf.weights.source import FirstLayers, HeadChoice, NormalizedPooling, Source

if TYPE_CHECKING:
    from albert_tf.tasks.scores import Scorer
    from albert_tf.weights.resolved_model import ResolvedModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring(Config):
    """A dev file on which an export is scored."""

    GROUP: ClassVar[str | None] = "Export"

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
        None, "Path of a JSON file that describes another task, instead of --task_name (docs/fine_tuning.md "
        "shows one).", needs="score_data")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoredExport(Source, HeadChoice, NormalizedPooling, FirstLayers, Scoring):
    """A model to export in several precisions, and a dev file on which it is scored."""

    def scorer(self, model: ResolvedModel, head: str) -> Scorer | None:
        """The function that scores a model with a head on --score_data; None if the flag is not set."""
        from albert_tf.tasks.scores import scorer

        if not self.score_data:
            return None
        if self.task_name and self.task_config:
            raise ValueError("set either --task_name or --task_config")
        task = read_table_format(self.task_config) if self.task_config else None
        return scorer(head, self.score_data, model.vocabulary.tokenizer(model.config),
                      find_task(self.task_name) if self.task_name else task)
