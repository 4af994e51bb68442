"""TaskData: the files, columns, labels and metrics of a classification or a regression.

glue.py has those of GLUE, and task_config.py reads those of one's own.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from typing import Mapping

import tensorflow as tf

from albert_tf.data.rows import Column, as_text

BALANCED = "balanced"
# The index of a class, a score, or with several labels per text 1 for those that apply and 0 for others.
LabelId = int | float | list[float]
# float() also accepts the underscores of Python's source code (1_0 is 10), and digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclasses.dataclass(frozen=True)
class SplitFile:
    """The file of a split, and the columns of the fields guid, text_a, text_b and label.

    Without a guid column, a row's guid is its split and its line number (from 0, counting the header): train-1, ...
    """

    path: str  # relative to data_dir
    columns: Mapping[str, Column]
    has_header: bool = True

    def path_in(self, data_dir: str) -> str:
        """The path of the file in data_dir, which has the folders of all tasks, or is itself the folder of this one."""
        folder, name = os.path.split(self.path)
        path, own = os.path.join(data_dir, self.path), os.path.join(data_dir, name)
        is_own = folder and os.path.basename(os.path.normpath(data_dir)) == folder and not tf.io.gfile.exists(path)
        return own if is_own else path


@dataclasses.dataclass(frozen=True)
class TaskData:
    """A classification or regression task.

    Args:
      name: the release's name of the task.
      sources: the file of each split. The test set has no label column.
      labels: the class names in the order of their ids; None for regression.
      metrics: names of metrics, as in eval_results.txt. The best checkpoint is chosen by the first one.
      skips_short_rows: whether a row with too few columns is skipped, as in the release; if not, it is an error.
      companions: names of tasks that are evaluated and predicted with the same model.
      score_range: the range to which predicted scores are clipped; None for no clipping.
      multi_label: whether a text can have several labels, or none. The label field has their names.
      label_separator: what is between the names in a label field that is not a JSON list.
      class_weights: a weight of each label in the loss, or BALANCED; None for equal weights.
      is_ranking: whether the scores are 0 or 1, whether a passage is relevant for a query (see ranking.py).
    """

    name: str
    sources: Mapping[str, SplitFile]
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...] = ("eval_accuracy",)
    skips_short_rows: bool = False
    companions: tuple[str, ...] = ()
    score_range: tuple[float, float] | None = None
    multi_label: bool = False
    label_separator: str = ","
    class_weights: tuple[float, ...] | str | None = None
    is_ranking: bool = False

    @property
    def is_regression(self) -> bool:
        """Whether the labels are scores."""
        return self.labels is None

    @property
    def num_labels(self) -> int:
        """The number of logits: 1 for regression."""
        return len(self.labels or [""])

    @property
    def placeholder_label(self) -> str | float:
        """The label of an example that has none, as in the release: the first class, or 0. With several: no label."""
        if self.multi_label:
            return ""
        return self.labels[0] if self.labels else 0.0

    def source(self, split: str) -> SplitFile:
        """The file of a split. Raises ValueError if the task has no such split."""
        if split not in self.sources:
            raise ValueError(f"{self.name} has no {split!r} set; it has {', '.join(self.sources) or 'none'}. "
                             f'Add "{split}": "FILE" to the "files" of a task of your own')
        return self.sources[split]

    def label_id(self, label: str | float | None) -> LabelId:
        """The id of a class, or the value of a score. None gives 0.

        White space around a class does not count, and case does not if only one class has these letters (the release
        lower-cases labels).

        With several labels per text: for each label, 1.0 if it is among those of the field, else 0.0.
        """
        if label is None:
            label = self.placeholder_label
        if self.labels is None:
            score = _score(label)
            if self.is_ranking and score not in (0, 1):
                raise ValueError(f"{label!r} is neither 1, for a relevant passage, nor 0")
            return score
        if self.multi_label:
            ids = {_class_id(name, self.labels) for name in _names(str(label).strip(), self.label_separator)}
            return [float(number in ids) for number in range(len(self.labels))]
        return _class_id(str(label).strip(), self.labels)


def _names(field: str, separator: str) -> list[str]:
    """The names in a field, which is a JSON list or has a separator between them; none if it is empty."""
    if field.startswith("["):
        try:
            return [as_text(name).strip() for name in json.loads(field)]
        except ValueError as error:
            raise ValueError(f"{field!r} is not a JSON list of labels") from error
    return [name.strip() for name in field.split(separator)] if field else []


def _class_id(label: str, labels: tuple[str, ...]) -> int:
    if label not in labels:
        alike = [known for known in labels if known.lower() == label.lower()]
        label = alike[0] if len(alike) == 1 else label
    if label not in labels:
        problem = f"unknown label {label!r}" if label else "the label is missing"
        raise ValueError(f"{problem} (allowed: {', '.join(labels)})")
    return labels.index(label)


def _score(label: str | float) -> float:
    text = str(label).strip()
    score = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(score):
        raise ValueError(f"{label!r} is not a score: expected a number" if text else "the score is missing")
    return score
