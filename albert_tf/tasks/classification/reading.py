"""Reads the examples of a classification or a regression from its files (release: the processors of GLUE)."""

from __future__ import annotations

from typing import NamedTuple

from absl import logging

from albert_tf.data.rows import Row, read_rows, warn_of_empty_texts
from albert_tf.tasks.classification.glue import find_task
from albert_tf.tasks.classification.task_data import TaskData
from albert_tf.utils.files import errors_at
from albert_tf.utils.progress import count_of


class InputExample(NamedTuple):
    """One row of a file.

    Args:
      label: a class name, the names of several (see TaskData.label_id), or a number for regression. In a test set it
        is the first class, no class or 0, as in the release.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | float | None = None


def read_examples(task_name: str | TaskData, data_dir: str, split: str) -> list[InputExample]:
    """Reads the examples of a task's split. Rows with an empty text bring a warning.

    Args:
      task_name: a TaskData, or a name of glue.TASKS in upper or lower case.
      data_dir: the folder that has GLUE's folders (CoLA, MNLI, ...), or the task's own folder.
      split: "train", "dev" or "test".

    Raises:
      ValueError: the task or split is unknown, the file is missing or has no examples, or a row has too few columns
        or an unknown label; file and line are named.
    """
    task = find_task(task_name)
    source = task.source(split)
    path = source.path_in(data_dir)
    examples, lines, skipped = [], [], 0
    for row in read_rows(path, source.columns, source.has_header):
        if isinstance(row, Row):
            examples.append(_example(task, split, path, row))
            lines.append(row.line)
        elif task.skips_short_rows:
            skipped += 1
        else:
            raise ValueError(f"{path} line {row.line}: expected {row.expected} columns, got {row.got}")
    if skipped:
        logging.warning("%s: skipped %s with too few columns", path, count_of(skipped, "row"))
    has_pairs = any((example.text_b or "").strip() for example in examples)
    warn_of_empty_texts(path, [line for line, example in zip(lines, examples)
                               if not example.text_a.strip() or has_pairs and not (example.text_b or "").strip()])
    if not examples:
        raise ValueError(f"{path} has no examples")
    return examples


def _example(task: TaskData, split: str, path: str, row: Row) -> InputExample:
    fields = row.fields
    label = fields.get("label", task.placeholder_label)
    with errors_at(f"{path} line {row.line}"):
        score = task.label_id(label)
    guid = fields.get("guid", f"{split}-{row.line - 1}")
    return InputExample(guid, fields["text_a"], fields.get("text_b"), score if isinstance(score, float) else label)
