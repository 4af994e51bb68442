"""Classification and regression tasks: files, columns, labels and metrics (release: the processors of GLUE).

TASKS has the tasks of GLUE. Another task is an entry there, or a JSON file (--task_config):

    {"name": "reviews",
     "files": {"train": "train.csv", "dev": "dev.csv", "test": "test.csv"},
     "columns": {"text_a": "review", "label": "verdict"},
     "labels": ["bad", "good"],
     "metrics": ["eval_accuracy", "f1"]}

"files" are paths relative to --data_dir: .tsv (a quote is a plain character), .csv or JSON lines. "columns" maps text_a
and label, and optionally text_b and guid, to a name in the header or the JSON object, or to a number from 0. For a
regression, write "regression": true instead of "labels". "has_header": false means that the first line is a row.
"test_columns" gives the columns of the test file if they differ; its labels are not read. The best checkpoint is chosen
by the first of "metrics".
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import reprlib
from typing import Any, Iterable, Mapping

import tensorflow as tf

from albert_tf.data.rows import Column, as_text
from albert_tf.utils.files import check_name, check_one_line
from albert_tf.utils.json_files import read_json_object

# float() also accepts the underscores of Python's source code (1_0 is 10), and digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("contradiction", "entailment", "neutral")


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
    sources: Mapping[str, SplitFile]
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

    def source(self, split: str) -> SplitFile:
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
) -> dict[str, SplitFile]:
    """The three files of a GLUE folder. `suffix` applies to dev and test, has_header to train and dev."""
    return dict(
        train=SplitFile(f"{folder}/train.tsv", columns, has_header),
        dev=SplitFile(f"{folder}/dev{suffix}.tsv", columns, has_header),
        test=SplitFile(f"{folder}/test{suffix}.tsv", test_columns),
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
    Task("ax", dict(test=SplitFile("diagnostic/diagnostic.tsv", _PAIR_TEST)), _THREE_WAY),
)}


SPLITS = ("train", "dev", "test")
CLASSIFICATION_METRICS = ("eval_accuracy", "f1", "matthew_corr")
REGRESSION_METRICS = ("pearson", "spearman", "MSE")

_FIELDS = ("guid", "text_a", "text_b", "label")
_STRING, _OBJECT, _LIST, _BOOL = (str, "a string"), (dict, "an object"), (list, "a list"), (bool, "true or false")
_CONFIG_KEYS = dict(name=_STRING, files=_OBJECT, columns=_OBJECT, test_columns=_OBJECT, has_header=_BOOL, labels=_LIST,
                    regression=_BOOL, metrics=_LIST)


def load_task_config(path: str) -> Task:
    """Reads a task from a JSON file (see the description of this module).

    Raises:
      ValueError: the file is missing or not JSON, or a key is unknown, is missing or has an invalid value.
    """
    config = read_json_object(path)
    try:
        return _from_config(config)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _from_config(config: dict[str, Any]) -> Task:
    _check_keys("key", config, _CONFIG_KEYS, required=("name", "files", "columns"))
    for key, value in config.items():
        kind, called = _CONFIG_KEYS[key]
        if not isinstance(value, kind):
            raise ValueError(f"{key} must be {called}. Received: {reprlib.repr(value)}")
    check_name(config["name"], "name")
    files, columns = config["files"], config["columns"]
    test_columns = config.get("test_columns", columns)
    _check_keys("split in files", files, SPLITS)
    _check_keys("field in columns", columns, _FIELDS, required=("text_a", "label"))
    _check_keys("field in test_columns", test_columns, _FIELDS, required=("text_a",))
    for name in files.values():
        if not isinstance(name, str):
            raise ValueError(f"files must be names. Received: {reprlib.repr(name)}")
    for column in (*columns.values(), *test_columns.values()):
        if type(column) not in (int, str):
            raise ValueError(f"a column is a name, or a number from 0. Received: {reprlib.repr(column)}")
    labels, metrics = _labels_and_metrics(config)
    has_header = config.get("has_header", True)
    return Task(
        name=config["name"],
        sources={split: SplitFile(name, columns if split != "test" else _without_label(test_columns), has_header)
                 for split, name in files.items()},
        labels=labels,
        metrics=metrics,
    )


def _labels_and_metrics(config: dict[str, Any]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    is_regression, labels = config.get("regression", False), config.get("labels", [])
    if is_regression == ("labels" in config):
        raise ValueError('give "labels", or "regression": true, and not both')
    if not is_regression and not len(set(map(as_text, labels))) == len(labels) > 1:
        raise ValueError(f"labels must be a list of at least two different labels. Received: {reprlib.repr(labels)}")
    allowed = REGRESSION_METRICS if is_regression else CLASSIFICATION_METRICS
    metrics = config.get("metrics", allowed[:1])
    if not metrics or not all(metric in allowed for metric in metrics):
        raise ValueError(f"metrics must be some of {', '.join(allowed)}. Received: {reprlib.repr(metrics)}")
    if metrics[0] == "MSE":
        raise ValueError("MSE cannot be the first metric: the best checkpoint is the one with the highest first metric")
    for label in labels:
        check_one_line(as_text(label), "a label")
    if "f1" in metrics and len(labels) != 2:
        raise ValueError("f1 needs exactly two labels; the second one is the positive class")
    return None if is_regression else tuple(map(as_text, labels)), tuple(metrics)


def _check_keys(what: str, values: dict, allowed: Iterable[str], required: tuple[str, ...] = ()) -> None:
    for key in values:
        if key not in allowed:
            raise ValueError(f"unknown {what}: {key!r} (allowed: {', '.join(allowed)})")
    for key in required:
        if key not in values:
            raise ValueError(f"missing {what}: {key!r}")


def _without_label(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {field: column for field, column in columns.items() if field != "label"}
