"""TableFormat: the files, columns, labels and metrics of a classification or a regression.

data.py has the formats of GLUE. Others are read from a JSON file (--task_config), whose keys docs/fine_tuning.md lists:

    {"name": "reviews",
     "files": {"train": "train.csv", "dev": "dev.csv", "test": "test.csv"},
     "columns": {"text_a": "review", "label": "verdict"},
     "labels": ["bad", "good"],
     "metrics": ["eval_accuracy", "f1"]}
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import reprlib
import unicodedata
from typing import Any, Iterable, Mapping

from albert_tf.data.rows import Column, as_text
from albert_tf.utils.files import absolute, check_name, check_one_line, errors_at, is_remote, read_json_object

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
    separator: str | None = None  # see read_rows
    optional_label: Column | None = None  # of a test set, whose rows may have no labels

    def path_in(self, data_dir: str | None) -> str:
        """The path of the file in data_dir, which has the folders of all tasks."""
        return self.path if data_dir is None or is_remote(self.path) else os.path.join(data_dir, self.path)


@dataclasses.dataclass(frozen=True)
class TableFormat:
    """The format of the tables of a classification or a regression."""

    name: str  # the release's
    sources: Mapping[str, SplitFile]  # by split; the test set has no label column
    labels: tuple[str, ...] | None  # the class names in the order of their ids; None for regression
    metrics: tuple[str, ...] = ("eval_accuracy",)  # the best checkpoint is chosen by the first one
    skips_short_rows: bool = False  # whether a row with too few columns is skipped, as in the release, or an error
    companions: tuple[str, ...] = ()  # names of tasks that are evaluated and predicted with the same model
    score_range: tuple[float, float] | None = None  # to which predicted scores are clipped
    multi_label: bool = False  # whether a text can have several labels, or none
    label_separator: str = ","  # between the names in a label field that is not a JSON list
    class_weights: tuple[float, ...] | str | None = None  # of each label in the loss, or BALANCED

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
                             f'Add "{split}": "FILE" to the "files" of your task')
        return self.sources[split]

    def with_file(self, split: str, path: str) -> TableFormat:
        """The task with a file at any path as a split. It has the split's columns, or train's; labels are optional."""
        source = self.sources.get(split) or self.source("train")
        columns = {field: column for field, column in source.columns.items() if field != "label"}
        file = SplitFile(absolute(path), columns, source.has_header, source.separator,
                         source.columns.get("label", source.optional_label))
        return dataclasses.replace(self, sources={**self.sources, split: file}, companions=())

    def with_dev_alone(self, path: str) -> TableFormat:
        """The task with a file at any path as its dev set, and without other files."""
        file = dataclasses.replace(self.source("dev"), path=absolute(path))
        return dataclasses.replace(self, sources=dict(dev=file), companions=())

    def label_id(self, label: str | float | None) -> LabelId:
        """The id of a class, or the value of a score; with several labels per text 1.0 or 0.0 for each. None gives 0.

        White space around a class does not count, and neither do case and Unicode normalization if only one class has
        these letters (the release lower-cases labels).
        """
        if label is None:
            label = self.placeholder_label
        if self.labels is None:
            return _score(label)
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
        alike = [known for known in labels if _letters(known) == _letters(label)]
        label = alike[0] if len(alike) == 1 else label
    if label not in labels:
        problem = f"unknown label {label!r}" if label else "the label is missing"
        raise ValueError(f"{problem} (allowed: {', '.join(labels)})")
    return labels.index(label)


def _letters(label: str) -> str:
    return unicodedata.normalize("NFC", label).lower()


def _score(label: str | float) -> float:
    text = str(label).strip()
    score = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(score):
        raise ValueError(f"{label!r} is not a score: expected a number" if text else "the score is missing")
    return score


SPLITS = ("train", "dev", "test")
CLASSIFICATION_METRICS = ("eval_accuracy", "f1", "matthew_corr")
MULTI_LABEL_METRICS = ("micro_f1", "macro_f1", "average_precision", "eval_accuracy")
REGRESSION_METRICS = ("pearson", "spearman", "MSE")

_FIELDS = ("guid", "text_a", "text_b", "label")
_Kind = tuple[type | tuple[type, ...], str]  # the types of a value, and their name
_STRING, _OBJECT, _LIST, _BOOL = (str, "a string"), (dict, "an object"), (list, "a list"), (bool, "true or false")
_WEIGHTS = ((str, list), f'"{BALANCED}" or a list of numbers')
_CONFIG_KEYS: dict[str, _Kind] = dict(
    name=_STRING, files=_OBJECT, columns=_OBJECT, test_columns=_OBJECT, has_header=_BOOL, separator=_STRING,
    labels=_LIST, regression=_BOOL, metrics=_LIST, multi_label=_BOOL, label_separator=_STRING,
    class_weights=_WEIGHTS)


def read_table_format(path: str) -> TableFormat:
    """Reads a task from a JSON file (see the description of this module)."""
    config = read_json_object(path)
    with errors_at(path):
        return _from_config(config)


def _from_config(config: dict[str, Any]) -> TableFormat:
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
    has_header, separator = config.get("has_header", True), config.get("separator")
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise ValueError(f'separator must be one character, such as ";". Received: {separator!r}')
    test_label = test_columns.get("label")
    test_columns = {field: column for field, column in test_columns.items() if field != "label"}
    labels, metrics = _labels_and_metrics(config)
    return TableFormat(
        config["name"],
        {split: SplitFile(name, test_columns, has_header, separator, test_label) if split == "test" else
         SplitFile(name, columns, has_header, separator) for split, name in files.items()},
        labels, metrics, multi_label=config.get("multi_label", False), label_separator=_label_separator(config, labels),
        class_weights=_class_weights(config, labels))


def _labels_and_metrics(config: dict[str, Any]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    is_regression, labels = config.get("regression", False), config.get("labels", [])
    if is_regression == ("labels" in config):
        raise ValueError('give "labels", or "regression": true, and not both')
    if not is_regression and not len(set(map(as_text, labels))) == len(labels) > 1:
        raise ValueError(f"labels must be a list of at least two different labels. Received: {reprlib.repr(labels)}")
    is_multi_label = config.get("multi_label", False)
    if is_regression and is_multi_label:
        raise ValueError('give "multi_label": true, or "regression": true, and not both')
    allowed = REGRESSION_METRICS if is_regression else MULTI_LABEL_METRICS if is_multi_label else CLASSIFICATION_METRICS
    metrics = tuple(config.get("metrics", allowed[:1]))
    if not metrics or not all(metric in allowed for metric in metrics):
        raise ValueError(f"metrics must be some of {', '.join(allowed)}. Received: {reprlib.repr(list(metrics))}")
    if metrics[0] == "MSE":
        raise ValueError("MSE cannot be the first metric: the best checkpoint is the one with the highest first metric")
    for label in labels:
        check_one_line(as_text(label), "a label")
    if "f1" in metrics and len(labels) != 2:
        raise ValueError("f1 needs exactly two labels; the second one is the positive class")
    return None if is_regression else tuple(map(as_text, labels)), metrics


def _label_separator(config: dict[str, Any], labels: tuple[str, ...] | None) -> str:
    separator = config.get("label_separator", ",")
    if not separator or separator.startswith("["):
        raise ValueError(f"label_separator must be text that does not begin with [. Received: {separator!r}")
    for label in labels or () if config.get("multi_label", False) else ():
        if separator in label or label.startswith("["):
            raise ValueError(f"the label {label!r} has the label_separator {separator!r} in it or begins with [: set "
                             "another label_separator, or name the label differently")
    return separator


def _class_weights(config: dict[str, Any], labels: tuple[str, ...] | None) -> tuple[float, ...] | str | None:
    weights = config.get("class_weights")
    if weights is None or labels is not None and weights == BALANCED:
        return weights
    if labels is None:
        raise ValueError("class_weights are for labels, and a regression has none")
    if isinstance(weights, str) or len(weights) != len(labels) or not all(
            type(weight) in (int, float) and 0 < weight < math.inf for weight in weights):
        raise ValueError(f'class_weights must be "{BALANCED}", or a number above 0 for each of the {len(labels)} '
                         f"labels. Received: {reprlib.repr(weights)}")
    return tuple(map(float, weights))


def _check_keys(what: str, values: dict, allowed: Iterable[str], required: tuple[str, ...] = ()) -> None:
    for key in values:
        if key not in allowed:
            raise ValueError(f"unknown {what}: {key!r} (allowed: {', '.join(allowed)})")
    for key in required:
        if key not in values:
            raise ValueError(f"missing {what}: {key!r}")
