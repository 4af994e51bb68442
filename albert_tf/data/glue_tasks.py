"""The GLUE tasks as a table: files, columns, labels and metrics (release: the processors of classifier_utils.py).

A task of one's own is one more entry, or a JSON file that `load_task_config` reads:

    {"name": "reviews",
     "files": {"train": "train.csv", "dev": "dev.csv", "test": "test.csv"},
     "columns": {"text_a": "review", "label": "verdict"},
     "labels": ["bad", "good"],
     "metrics": ["eval_accuracy", "f1"]}

Files are .tsv (a quote is a plain character), .csv or JSON lines, under --data_dir. Columns are names from the header
or of the JSON object, or numbers from 0: text_a and label, and where there are, text_b and guid. "regression": true
stands in the place of labels. "has_header": false says that the first line is a row. "test_columns" gives the columns
of the test file where they are others; its labels are not read. The first metric chooses the best checkpoint.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Iterable, Mapping

import tensorflow as tf

from albert_tf.data.tables import Column, parse_json_object

SPLITS = ("train", "dev", "test")
CLASSIFICATION_METRICS = ("eval_accuracy", "f1", "matthew_corr")
REGRESSION_METRICS = ("pearson", "spearman", "MSE")

_FIELDS = ("guid", "text_a", "text_b", "label")
_STRING, _OBJECT, _LIST, _BOOL = (str, "a string"), (dict, "an object"), (list, "a list"), (bool, "true or false")
_CONFIG_KEYS = dict(name=_STRING, files=_OBJECT, columns=_OBJECT, test_columns=_OBJECT, has_header=_BOOL, labels=_LIST,
                    regression=_BOOL, metrics=_LIST)
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
    """

    name: str
    sources: Mapping[str, Source]
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...] = ("eval_accuracy",)
    skips_short_rows: bool = False
    companions: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
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
            raise ValueError(f"{self.name} has no {split!r} set; it has {', '.join(self.sources)}")
        return self.sources[split]

    def label_id(self, label: str | float | None) -> int | float:
        """The id of a label, white space around it and case apart; of a score its value; 0 where there is none (None).

        Raises:
          ValueError: the label is unknown, or the score is no number.
        """
        if label is None:
            label = self.placeholder_label
        return _score(label) if self.is_regression else self._class_id(str(label).strip())

    def _class_id(self, label: str) -> int:
        if label not in self.labels:
            label = next((known for known in self.labels if known.lower() == label.lower()), label)
        if label not in self.labels:
            problem = f"unknown label {label!r}" if label else "the label is missing"
            raise ValueError(f"{problem} (allowed: {', '.join(self.labels)})")
        return self.labels.index(label)


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


def load_task_config(path: str) -> Task:
    """A task of one's own, from a JSON file as this module's description shows it.

    Raises:
      ValueError: the file is missing or no JSON, or a key is unknown, missing or has a value that makes no sense.
    """
    if not tf.io.gfile.exists(path):
        raise ValueError(f"no such file: {path}")
    with tf.io.gfile.GFile(path) as file:
        config = parse_json_object(file.read(), path)
    try:
        return _from_config(config)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _score(label: str | float) -> float:
    try:
        score = float(label)
    except ValueError:
        score = float("nan")
    if not abs(score) < float("inf"):
        raise ValueError(f"{label!r} is no score: expected a number" if label else "the score is missing")
    return score


def _from_config(config: dict[str, Any]) -> Task:
    _check_keys("key", config, _CONFIG_KEYS, required=("name", "files", "columns"))
    for key, value in config.items():
        kind, called = _CONFIG_KEYS[key]
        if not isinstance(value, kind):
            raise ValueError(f"{key} must be {called}. Received: {value!r}")
    files, columns = config["files"], config["columns"]
    test_columns = config.get("test_columns", columns)
    _check_keys("split in files", files, SPLITS)
    _check_keys("field in columns", columns, _FIELDS, required=("text_a", "label"))
    _check_keys("field in test_columns", test_columns, _FIELDS, required=("text_a",))
    for name in files.values():
        if not isinstance(name, str):
            raise ValueError(f"files must be names. Received: {name!r}")
    for column in (*columns.values(), *test_columns.values()):
        if type(column) not in (int, str):
            raise ValueError(f"a column is a name, or a number from 0. Received: {column!r}")
    labels, metrics = _labels_and_metrics(config)
    has_header = config.get("has_header", True)
    return Task(
        name=config["name"],
        sources={split: Source(name, columns if split != "test" else _without_label(test_columns), has_header)
                 for split, name in files.items()},
        labels=labels,
        metrics=metrics,
    )


def _labels_and_metrics(config: dict[str, Any]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    is_regression, labels = config.get("regression", False), config.get("labels")
    if is_regression == (labels is not None):
        raise ValueError('give "labels", or "regression": true, and not both')
    if not is_regression and not len(set(map(str, labels))) == len(labels) > 1:
        raise ValueError(f"labels must be a list of at least two different ones. Received: {labels!r}")
    allowed = REGRESSION_METRICS if is_regression else CLASSIFICATION_METRICS
    metrics = config.get("metrics", allowed[:1])
    if not metrics or not all(metric in allowed for metric in metrics):
        raise ValueError(f"metrics must be some of {', '.join(allowed)}. Received: {metrics!r}")
    if metrics[0] == "MSE":
        raise ValueError("MSE cannot be the first of the metrics: it chooses the best checkpoint, by the highest value")
    if "f1" in metrics and len(labels) != 2:
        raise ValueError("f1 is for two labels, the second of which is the positive one")
    return None if is_regression else tuple(map(str, labels)), tuple(metrics)


def _check_keys(what: str, given: dict, allowed: Iterable[str], required: tuple[str, ...] = ()) -> None:
    for key in given:
        if key not in allowed:
            raise ValueError(f"unknown {what}: {key!r} (allowed: {', '.join(allowed)})")
    for key in required:
        if key not in given:
            raise ValueError(f"missing {what}: {key!r}")


def _without_label(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {field: column for field, column in columns.items() if field != "label"}


def _sources(
    folder: str, columns: dict[str, Column], test_columns: dict[str, Column], suffix: str = "", has_header: bool = True
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
         metrics=("pearson", "spearman", "MSE")),
    Task("qqp", _sources("QQP", dict(guid=0, text_a=3, text_b=4, label=5), dict(guid=0, text_a=1, text_b=2)), _BINARY,
         metrics=("eval_accuracy", "f1"), skips_short_rows=True),
    Task("qnli", _sources("QNLI", _PAIR, _PAIR_TEST), _ENTAILMENT),
    Task("wnli", _sources("WNLI", _PAIR, _PAIR_TEST), _BINARY),
    Task("ax", dict(test=Source("diagnostic/diagnostic.tsv", _PAIR_TEST)), _THREE_WAY),
)}
