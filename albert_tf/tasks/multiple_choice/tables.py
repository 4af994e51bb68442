"""Reads the splits of a multiple-choice data set and makes FeatureTables of them, with cached records.

data/race.py reads RACE. Other data sets are JSON lines, data_dir/SPLIT.jsonl, one question per line::

    {"context": "It rained all day.", "question": "The street was _.", "options": ["wet", "dry"], "answer": "A",
     "id": "17", "level": "easy"}

"context", "id" and "level" are optional in every file, "answer" is optional in test.jsonl only; null is the same as
no value. Questions with the same level are also scored as a group.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from typing import Any, Iterator

import tensorflow as tf

from albert_tf.data.feature_cache import cache_path, cached_table, digest, tokenizer_key
from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.data.tables import read_json_lines, warn_of_empty_texts
from albert_tf.tasks.multiple_choice import race
from albert_tf.tasks.multiple_choice.examples import MultipleChoiceExample, checked_example
from albert_tf.tasks.multiple_choice.features import convert_examples_to_features
from albert_tf.text.tokenization import FullTokenizer

FORMATS = ("race", "jsonl")
SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class ChoiceTables:
    """Makes the feature tables of a multiple-choice data set.

    Args:
      data_dir: folder of the data set.
      data_format: one of FORMATS.
      tokenizer: the model's tokenizer.
      max_seq_length, max_qa_length: see convert_examples_to_features.
      cached_dir: folder of the cached records.
      high_only, middle_only: whether to read only this level of RACE.
    """

    data_dir: str
    data_format: str
    tokenizer: FullTokenizer
    max_seq_length: int
    max_qa_length: int
    cached_dir: str
    high_only: bool = False
    middle_only: bool = False

    @functools.lru_cache(maxsize=None)  # noqa: B019  the tables live as long as the process
    def examples(self, split: str) -> list[MultipleChoiceExample]:
        """The questions of a split.

        Raises:
          ValueError: its file is missing or malformed; file and line are named.
        """
        if self.data_format == "race":
            return race.read_examples(self.data_dir, split, self.high_only, self.middle_only)
        if self.high_only or self.middle_only:
            raise ValueError("high_only and middle_only are for RACE")
        path = os.path.join(self.data_dir, f"{split}.jsonl")
        examples = read_json_examples(path)
        unanswered = sum(example.label is None for example in examples)
        if unanswered and split != "test":
            raise ValueError(f"{path}: {unanswered:,} of {len(examples):,} questions have no answer; only test.jsonl "
                             "may leave answers out")
        return examples

    def name_of(self, split: str) -> str:
        """The name of a split's data: its file, or for RACE its folder."""
        return f"RACE/{split}" if self.data_format == "race" else f"{split}.jsonl"

    def num_choices(self, *splits: str) -> int:
        """The largest number of choices of any question in the splits."""
        return max(len(example.options) for split in splits for example in self.examples(split))

    def table(self, split: str, path: str | None = None) -> FeatureTable:
        """The features of a split. Their scalars include label_ids.

        Args:
          split: one of SPLITS.
          path: path of the records; None for a file in cached_dir.

        Raises:
          ValueError: see `examples`; or the number of records at the path is not the number of questions.
        """
        examples, num_choices = self.examples(split), self.num_choices(split)
        made_from = dict(examples=digest(json.dumps(examples).encode()), **tokenizer_key(self.tokenizer),
                         max_qa_length=self.max_qa_length, num_choices=num_choices)
        schema = FeatureSchema(self.max_seq_length, dict(label_ids=tf.int32, is_real_example=tf.int32),
                               num_choices=num_choices)
        path = path or cache_path(self.cached_dir, f"{self.data_format}_{split}", made_from, schema)
        table = cached_table(path, made_from, schema, lambda: self._features(examples, num_choices))
        if len(table) != len(examples):
            raise ValueError(f"{path} has {len(table):,} questions, but the data set has {len(examples):,}: choose "
                             "another path")
        return table

    def _features(self, examples: list[MultipleChoiceExample], num_choices: int) -> Iterator[dict]:
        for features in convert_examples_to_features(
                examples, self.tokenizer, self.max_seq_length, self.max_qa_length, num_choices):
            yield dict(features, label_ids=features["label_id"])


def read_json_examples(path: str) -> list[MultipleChoiceExample]:
    """Reads the questions of a JSON-lines file. An empty question or option brings a warning.

    Raises:
      ValueError: the file is missing or has no questions, or a line is malformed; file and line are named.
    """
    examples, empty = [], []
    for line, values in read_json_lines(path):
        examples.append(_json_example(values, f"{path} line {line}"))
        if not all(text.strip() for text in (examples[-1].question, *examples[-1].options)):
            empty.append(line)
    warn_of_empty_texts(path, empty)
    if not examples:
        raise ValueError(f"{path} has no questions")
    return examples


def _json_example(values: dict[str, Any], place: str) -> MultipleChoiceExample:
    values = {key: value for key, value in values.items() if value is not None}
    return checked_example(place, values.get("id", place), values.get("context", ""), values.get("question"),
                           values.get("options"), values.get("answer"), str(values.get("level", "")))
