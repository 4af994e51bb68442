"""The tasks of GLUE (release: its processors)."""

from __future__ import annotations

from typing import Mapping

import tensorflow as tf

from albert_tf.data.rows import Column
from albert_tf.tasks.classification.task_data import SplitFile, TaskData

_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("contradiction", "entailment", "neutral")


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

TASKS: dict[str, TaskData] = {task.name: task for task in (
    TaskData("cola", _sources("CoLA", dict(text_a=3, label=1), dict(guid=0, text_a=1), has_header=False), _BINARY,
             metrics=("matthew_corr", "eval_accuracy")),
    TaskData("mnli", _sources("MNLI", _MNLI, _MNLI_TEST, suffix="_matched"), _THREE_WAY, companions=("mismnli", "ax")),
    TaskData("mismnli", _sources("MNLI", _MNLI, _MNLI_TEST, suffix="_mismatched"), _THREE_WAY),
    TaskData("mrpc", _sources("MRPC", dict(text_a=3, text_b=4, label=0), dict(guid=0, text_a=3, text_b=4)), _BINARY,
             metrics=("eval_accuracy", "f1")),
    TaskData("rte", _sources("RTE", _PAIR, _PAIR_TEST), _ENTAILMENT),
    TaskData("sst-2", _sources("SST-2", dict(text_a=0, label=1), dict(guid=0, text_a=1)), _BINARY),
    TaskData("sts-b", _sources("STS-B", dict(_STSB_TEST, label=-1), _STSB_TEST), labels=None,
             metrics=("pearson", "spearman", "MSE"), score_range=(0.0, 5.0)),
    TaskData("qqp", _sources("QQP", dict(guid=0, text_a=3, text_b=4, label=5), dict(guid=0, text_a=1, text_b=2)),
             _BINARY, metrics=("eval_accuracy", "f1"), skips_short_rows=True),
    TaskData("qnli", _sources("QNLI", _PAIR, _PAIR_TEST), _ENTAILMENT),
    TaskData("wnli", _sources("WNLI", _PAIR, _PAIR_TEST), _BINARY),
    TaskData("ax", dict(test=SplitFile("diagnostic/diagnostic.tsv", _PAIR_TEST)), _THREE_WAY),
)}


def find_task(task: str | TaskData) -> TaskData:
    """The task with a name, in upper or lower case, with or without hyphens. A TaskData is returned unchanged."""
    if isinstance(task, TaskData):
        return task
    names = {**{name.replace("-", ""): name for name in TASKS}, _MNLI_MM.replace("-", ""): "mismnli"}
    name = task.lower().replace("-", "").replace("_", "")
    if name not in names:
        raise ValueError(f"unknown task {task!r}: expected one of {', '.join(TASKS)}; --task_config adds other tasks")
    return TASKS[names[name]]


def with_companions(task: TaskData, data_dir: str, split: str) -> list[TaskData]:
    """The task, and each companion task whose file exists (MNLI: mismatched set and AX)."""
    companions = [TASKS[name] for name in task.companions]
    return [task, *(each for each in companions if split in each.sources
                    and tf.io.gfile.exists(each.sources[split].path_in(data_dir)))]
