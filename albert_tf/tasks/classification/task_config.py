"""Reads a classification or regression of one's own from a JSON file (--task_config):

    {"name": "reviews",
     "files": {"train": "train.csv", "dev": "dev.csv", "test": "test.csv"},
     "columns": {"text_a": "review", "label": "verdict"},
     "labels": ["bad", "good"],
     "metrics": ["eval_accuracy", "f1"]}

"files" are paths relative to --data_dir: .tsv (a quote is a plain character), .csv or JSON lines. "columns" maps text_a
and label, and optionally text_b and guid, to a name in the header or the JSON object, or to a number from 0. For a
regression, write "regression": true instead of "labels"; for a ranking, "ranking": true (text_a is a query, text_b a
passage, and the label 1 or 0 says whether it is relevant). "has_header": false means that the first line is a row.
A text can have several labels, or none, with "multi_label": true. The label column then has a JSON list of names, or
names that "label_separator" (default: a comma) separates. "class_weights" are the weights of the labels in the loss: a
number for each, or "balanced" (see class_weights in task.py).

"test_columns" gives the columns of the test file if they differ; its labels are not read. The best checkpoint is chosen
by the first of "metrics".
"""

from __future__ import annotations

import math
import reprlib
from typing import Any, Iterable

from albert_tf.data.rows import as_text
from albert_tf.tasks.classification.task_data import BALANCED, SplitFile, TaskData
from albert_tf.utils.files import check_name, check_one_line, errors_at, read_json_object

SPLITS = ("train", "dev", "test")
CLASSIFICATION_METRICS = ("eval_accuracy", "f1", "matthew_corr")
MULTI_LABEL_METRICS = ("micro_f1", "macro_f1", "average_precision", "eval_accuracy")
REGRESSION_METRICS = ("pearson", "spearman", "MSE")
RANKING_METRICS = ("mrr@10", "ndcg@10")

_FIELDS = ("guid", "text_a", "text_b", "label")
_Kind = tuple[type | tuple[type, ...], str]  # the types of a value, and their name
_STRING, _OBJECT, _LIST, _BOOL = (str, "a string"), (dict, "an object"), (list, "a list"), (bool, "true or false")
_WEIGHTS = ((str, list), f'"{BALANCED}" or a list of numbers')
_CONFIG_KEYS: dict[str, _Kind] = dict(
    name=_STRING, files=_OBJECT, columns=_OBJECT, test_columns=_OBJECT, has_header=_BOOL, labels=_LIST,
    regression=_BOOL, ranking=_BOOL, metrics=_LIST, multi_label=_BOOL, label_separator=_STRING, class_weights=_WEIGHTS)


def load_task_config(path: str) -> TaskData:
    """Reads a task from a JSON file (see the description of this module)."""
    config = read_json_object(path)
    with errors_at(path):
        return _from_config(config)


def _from_config(config: dict[str, Any]) -> TaskData:
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
    test_columns = {field: column for field, column in test_columns.items() if field != "label"}
    labels, metrics = _labels_and_metrics(config)
    return TaskData(
        config["name"],
        {split: SplitFile(name, test_columns if split == "test" else columns, config.get("has_header", True))
         for split, name in files.items()},
        labels, metrics, multi_label=config.get("multi_label", False), label_separator=_label_separator(config, labels),
        class_weights=_class_weights(config, labels), is_ranking=config.get("ranking", False))


def _labels_and_metrics(config: dict[str, Any]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    if config.get("ranking", False):
        for key in ("labels", "regression", "multi_label"):
            if key in config:
                raise ValueError(f'a ranking has no "{key}": its labels are 0 and 1')
        _check_keys("field in columns", config["columns"], _FIELDS, required=("text_b",))
        return None, _metrics(config, RANKING_METRICS, "metrics of a ranking")
    is_regression, labels = config.get("regression", False), config.get("labels", [])
    if is_regression == ("labels" in config):
        raise ValueError('give "labels", or "regression": true, and not both')
    if not is_regression and not len(set(map(as_text, labels))) == len(labels) > 1:
        raise ValueError(f"labels must be a list of at least two different labels. Received: {reprlib.repr(labels)}")
    is_multi_label = config.get("multi_label", False)
    if is_regression and is_multi_label:
        raise ValueError('give "multi_label": true, or "regression": true, and not both')
    allowed = (REGRESSION_METRICS if is_regression else MULTI_LABEL_METRICS if is_multi_label
               else CLASSIFICATION_METRICS)
    metrics = _metrics(config, allowed)
    if metrics[0] == "MSE":
        raise ValueError("MSE cannot be the first metric: the best checkpoint is the one with the highest first metric")
    for label in labels:
        check_one_line(as_text(label), "a label")
    if "f1" in metrics and len(labels) != 2:
        raise ValueError("f1 needs exactly two labels; the second one is the positive class")
    return None if is_regression else tuple(map(as_text, labels)), metrics


def _metrics(config: dict[str, Any], allowed: tuple[str, ...], what: str = "metrics") -> tuple[str, ...]:
    metrics = config.get("metrics", allowed[:1])
    if not metrics or not all(metric in allowed for metric in metrics):
        raise ValueError(f"{what} must be some of {', '.join(allowed)}. Received: {reprlib.repr(metrics)}")
    return tuple(metrics)


def _label_separator(config: dict[str, Any], labels: tuple[str, ...] | None) -> str:
    separator = config.get("label_separator", ",")
    if "label_separator" in config and not config.get("multi_label", False):
        raise ValueError('label_separator needs "multi_label": true')
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
