"""The GLUE tasks as a table: files, columns, labels and metrics (release: the processors of classifier_utils.py).

To add a task, add an entry here, or write a JSON file that data/task_config.py reads.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from typing import Mapping

import tensorflow as tf

from albert_tf.data.tables import Column

# float() also accepts the underscores of Python's source code (1_0 is 10), and digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("contradiction", "entailment", "neutral")


@dataclasses.dataclass(frozen=True)
class Source:
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
class Task:
    """A classification or regression task.

    Args:
      name: the release's name of the task.
      sources: the file of each split. The test set has no label column.
      labels: the class names in the order of their ids; None for regression.
      metrics: names of metrics, as in eval_results.txt. The best checkpoint is chosen by the first one.
      skips_short_rows: whether a row with too few columns is skipped, as in the release; if not, it is an error.
      companions: names of tasks that are evaluated and predicted with the same model.
      score_range: the range to which predicted scores are clipped; None for no clipping.
    """

    name: str
    sources: Mapping[str, Source]
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...] = ("eval_accuracy",)
    skips_short_rows: bool = False
    companions: tuple[str, ...] = ()
    score_range: tuple[float, float] | None = None

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
        """The label of an example that has none, as in the release: the first class, or 0."""
        return self.labels[0] if self.labels else 0.0

    def source(self, split: str) -> Source:
        """The file of a split. Raises ValueError if the task has no such split."""
        if split not in self.sources:
            raise ValueError(f"{self.name} has no {split!r} set; it has {', '.join(self.sources) or 'none'}. "
                             f'Add "{split}": "FILE" to the "files" of a task of your own')
        return self.sources[split]

    def with_companions(self, data_dir: str, split: str) -> list[Task]:
        """The task, and each companion task whose file exists (MNLI: mismatched set and AX)."""
        companions = [TASKS[name] for name in self.companions]
        return [self, *(task for task in companions if split in task.sources
                        and tf.io.gfile.exists(task.sources[split].path_in(data_dir)))]

    def label_id(self, label: str | float | None) -> int | float:
        """The id of a class, ignoring case and surrounding white space, or the value of a score. None gives 0.

        Raises:
          ValueError: the class is unknown, or the score is not a number.
        """
        if label is None:
            label = self.placeholder_label
        return _score(label) if self.labels is None else _class_id(str(label).strip(), self.labels)


def find_task(task: str | Task) -> Task:
    """The task with a name, in upper or lower case, with or without hyphens. A Task is returned unchanged.

    Raises:
      ValueError: there is no task with that name; the message lists the names.
    """
    if isinstance(task, Task):
        return task
    names = {**{name.replace("-", ""): name for name in TASKS}, _MNLI_MM.replace("-", ""): "mismnli"}
    name = task.lower().replace("-", "").replace("_", "")
    if name not in names:
        raise ValueError(f"unknown task {task!r}: expected one of {', '.join(TASKS)}; --task_config adds other tasks")
    return TASKS[names[name]]


def _class_id(label: str, labels: tuple[str, ...]) -> int:
    if label not in labels:
        label = next((known for known in labels if known.lower() == label.lower()), label)
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


def _sources(
    folder: str, columns: Mapping[str, Column], test_columns: Mapping[str, Column], suffix: str = "",
    has_header: bool = True,
) -> dict[str, Source]:
    """The three files of a GLUE folder. `suffix` applies to dev and test, has_header to train and dev."""
    return dict(
        train=Source(f"{folder}/train.tsv", columns, has_header),
        dev=Source(f"{folder}/dev{suffix}.tsv", columns, has_header),
        test=Source(f"{folder}/test{suffix}.tsv", test_columns),
    )


_MNLI_MM = "mnli-mm"  # GLUE's name for the task that the release calls mismnli
_MNLI_TEST = dict(guid=0, text_a=8, text_b=9)
_MNLI = dict(_MNLI_TEST, label=-1)
_PAIR_TEST = dict(guid=0, text_a=1, text_b=2)
_PAIR = dict(_PAIR_TEST, label=-1)
_STSB_TEST = dict(guid=0, text_a=7, text_b=8)

TASKS: dict[str, Task] = {task.name: task for task in (
    Task("cola", _sources("CoLA", dict(text_a=3, label=1), dict(guid=0, text_a=1), has_header=False), _BINARY,
         metrics=("matthew_corr", "eval_accuracy")),
    Task("mnli", _sources("MNLI", _MNLI, _MNLI_TEST, suffix="_matched"), _THREE_WAY, companions=("mismnli", "ax")),
    Task("mismnli", _sources("MNLI", _MNLI, _MNLI_TEST, suffix="_mismatched"), _THREE_WAY),
    Task("mrpc", _sources("MRPC", dict(text_a=3, text_b=4, label=0), dict(guid=0, text_a=3, text_b=4)), _BINARY,
         metrics=("eval_accuracy", "f1")),
    Task("rte", _sources("RTE", _PAIR, _PAIR_TEST), _ENTAILMENT),
    Task("sst-2", _sources("SST-2", dict(text_a=0, label=1), dict(guid=0, text_a=1)), _BINARY),
    Task("sts-b", _sources("STS-B", dict(_STSB_TEST, label=-1), _STSB_TEST), labels=None,
         metrics=("pearson", "spearman", "MSE"), score_range=(0.0, 5.0)),
    Task("qqp", _sources("QQP", dict(guid=0, text_a=3, text_b=4, label=5), dict(guid=0, text_a=1, text_b=2)), _BINARY,
         metrics=("eval_accuracy", "f1"), skips_short_rows=True),
    Task("qnli", _sources("QNLI", _PAIR, _PAIR_TEST), _ENTAILMENT),
    Task("wnli", _sources("WNLI", _PAIR, _PAIR_TEST), _BINARY),
    Task("ax", dict(test=Source("diagnostic/diagnostic.tsv", _PAIR_TEST)), _THREE_WAY),
)}
