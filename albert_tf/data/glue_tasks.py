"""The GLUE tasks as a table: files, columns, labels and metrics (release: the processors of classifier_utils.py).

A task of one's own is one more entry, or a JSON file that data/task_config.py reads.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping

from albert_tf.data.tables import Column

_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("contradiction", "entailment", "neutral")


@dataclasses.dataclass(frozen=True)
class Source:
    """A file and where in it the fields guid, text_a, text_b and label are.

    Rows of a file without a guid column are called train-0, train-1, ... by split and line; the header counts.
    """

    path: str  # under data_dir
    columns: Mapping[str, Column]
    has_header: bool = True


@dataclasses.dataclass(frozen=True)
class Task:
    """What there is to know of a task before its files are read.

    Args:
      name: the release's.
      sources: by split. That of the test set has no label.
      labels: in the order of their ids. None for a regression.
      metrics: names as in eval_results.txt; the first one chooses the best checkpoint.
      skips_short_rows: whether a row with too few columns is left out, as in the release, or is an error.
      companions: tasks that are evaluated and predicted with the same model.
      score_range: what the answers of a regression are cut to; None where any number is one.
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
        """Width of the logits."""
        return len(self.labels or [""])

    @property
    def placeholder_label(self) -> str | float:
        """What an example without a label has in its place, as in the release."""
        return self.labels[0] if self.labels else 0.0

    def source(self, split: str) -> Source:
        """Raises: ValueError: the task has no such split."""
        if split not in self.sources:
            raise ValueError(f"{self.name} has no {split!r} set; it has {', '.join(self.sources) or 'none'}")
        return self.sources[split]

    def label_id(self, label: str | float | None) -> int | float:
        """The id of a label, white space around it and case apart; of a score its value; 0 where there is none (None).

        Raises:
          ValueError: the label is unknown, or the score is no number.
        """
        if label is None:
            label = self.placeholder_label
        return _score(label) if self.labels is None else _class_id(str(label).strip(), self.labels)


def find_task(task: str | Task) -> Task:
    """The task of a name, in any case. A Task is taken as it is.

    Raises:
      ValueError: there is none of that name; the names are listed.
    """
    if isinstance(task, Task):
        return task
    name = task.lower()
    if name not in TASKS and name != _MNLI_MM:
        raise ValueError(f"unknown task {task!r}; there are {', '.join(TASKS)}, and --task_config for one's own")
    return TASKS["mismnli" if name == _MNLI_MM else name]


def _class_id(label: str, labels: tuple[str, ...]) -> int:
    if label not in labels:
        label = next((known for known in labels if known.lower() == label.lower()), label)
    if label not in labels:
        problem = f"unknown label {label!r}" if label else "the label is missing"
        raise ValueError(f"{problem} (allowed: {', '.join(labels)})")
    return labels.index(label)


def _score(label: str | float) -> float:
    try:
        score = float(label)
    except ValueError:
        score = float("nan")
    if not abs(score) < float("inf"):
        raise ValueError(f"{label!r} is no score: expected a number" if label else "the score is missing")
    return score


def _sources(
    folder: str, columns: Mapping[str, Column], test_columns: Mapping[str, Column], suffix: str = "",
    has_header: bool = True,
) -> dict[str, Source]:
    """GLUE's usual files in a folder. The suffix is of dev and test; has_header speaks of train and dev."""
    return dict(
        train=Source(f"{folder}/train.tsv", columns, has_header),
        dev=Source(f"{folder}/dev{suffix}.tsv", columns, has_header),
        test=Source(f"{folder}/test{suffix}.tsv", test_columns),
    )


_MNLI_MM = "mnli-mm"  # GLUE's own name of the release's mismnli
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
