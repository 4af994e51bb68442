"""Reads RACE (Lai et al., 2017): the original files, one JSON per passage, or the release's all.txt."""

from __future__ import annotations

import os
from typing import Any, Iterator

import tensorflow as tf

from albert_tf.data.tables import read_json_lines
from albert_tf.tasks.multiple_choice.examples import MultipleChoiceExample, checked_example
from albert_tf.tasks.multiple_choice.features import convert_examples_to_features
from albert_tf.utils.json_files import read_json_object

__all__ = ["LEVELS", "convert_examples_to_features", "read_examples"]

LEVELS = ("middle", "high")
_ALL = "all.txt"
# The keys of a passage, and the types of their values.
_KEYS = dict(article=(str, "a text"), questions=(list, "a list"), options=(list, "a list"), answers=(list, "a list"))


def read_examples(
    data_dir: str, split: str, high_only: bool = False, middle_only: bool = False
) -> list[MultipleChoiceExample]:
    """Reads the questions of a split, those for middle schools first.

    Args:
      data_dir: the folder RACE, or the folder that contains it. RACE/SPLIT/LEVEL has either all.txt with one passage
        per line, or one .txt file per passage. The latter are read in the order of their names.
      split: "train", "dev" or "test".
      high_only, middle_only: whether to read only the questions of this level.

    Raises:
      ValueError: a folder is missing or has no passages or questions, a passage is malformed (file and line are named),
        or both high_only and middle_only are set.
    """
    if high_only and middle_only:
        raise ValueError("high_only and middle_only exclude each other: set at most one of them")
    levels = ("high",) if high_only else ("middle",) if middle_only else LEVELS
    inner = os.path.join(data_dir, "RACE")
    split_dir = os.path.join(inner if tf.io.gfile.isdir(inner) else data_dir, split)
    examples = [example for level in levels for place, passage in _passages(os.path.join(split_dir, level))
                for example in _examples(place, passage, level)]
    if not examples:
        raise ValueError(f"{split_dir} has no questions")
    return examples


def _passages(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The passages of a level. Each has its file and line, for error messages."""
    if not tf.io.gfile.isdir(folder):
        raise ValueError(f"no such folder: {folder}")
    in_one = os.path.join(folder, _ALL)
    if tf.io.gfile.exists(in_one):
        for line, passage in read_json_lines(in_one):
            yield f"{in_one} line {line}", passage
        return
    names = sorted(name for name in tf.io.gfile.listdir(folder) if name.endswith(".txt"))
    if not names:
        raise ValueError(f"{folder} has neither {_ALL} nor a .txt file for each passage")
    for name in names:
        path = os.path.join(folder, name)
        yield path, read_json_object(path)


def _examples(place: str, passage: dict[str, Any], level: str) -> Iterator[MultipleChoiceExample]:
    for key, (kind, what) in _KEYS.items():
        if not isinstance(passage.get(key), kind):
            raise ValueError(f"{place}: {key!r} must be {what}. Received: {repr(passage.get(key))[:40]}")
    article, questions, options, answers = (passage[key] for key in _KEYS)
    if not article.strip():
        raise ValueError(f"{place}: the passage is empty")
    if not len(questions) == len(options) == len(answers):
        raise ValueError(f"{place}: {len(questions)} questions, {len(options)} lists of options and {len(answers)} "
                         "answers: there must be one of each for every question")
    name = passage.get("id") or os.path.basename(place)
    for number, (question, of_question, answer) in enumerate(zip(questions, options, answers), start=1):
        answer = "" if answer is None else answer  # all of RACE has answers
        yield checked_example(f"{place}, question {number}", name, article, question, of_question, answer, level)
