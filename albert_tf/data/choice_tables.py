"""The splits of a multiple-choice data set: their questions, and these as FeatureTables by way of cached records.

RACE is read as data/race.py says. Other sets are JSON lines, SPLIT.jsonl in data_dir, with a question in each line:

    {"context": "It rained all day.", "question": "The street was _.", "options": ["wet", "dry"], "answer": "A",
     "id": "17", "level": "easy"}

answer may be left out in test.jsonl, and context, id and level everywhere. Questions with the same level are also
scored together.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from typing import Any, Iterator

import tensorflow as tf

from albert_tf.data import race
from albert_tf.data.choice_examples import MultipleChoiceExample, checked_example
from albert_tf.data.choice_features import convert_examples_to_features
from albert_tf.data.feature_cache import cache_path, cached_table, digest, tokenizer_key
from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.data.tables import read_json_lines
from albert_tf.text.tokenization import FullTokenizer

FORMATS = ("race", "jsonl")
SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class ChoiceTables:
    """Makes the tables of a data set.

    Args:
      data_dir: where it is.
      data_format: of FORMATS.
      tokenizer: of the model.
      max_seq_length, max_qa_length: as convert_examples_to_features.
      cached_dir: where records are kept.
      high_only, middle_only: of RACE.
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
          ValueError: it is not there, or not as it should be; file and line are named.
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
        """What to call the data of a split: its file, for RACE its folder."""
        return f"RACE/{split}" if self.data_format == "race" else f"{split}.jsonl"

    def num_choices(self, *splits: str) -> int:
        """The most that a question of the splits has."""
        return max(len(example.options) for split in splits for example in self.examples(split))

    def table(self, split: str, path: str | None = None) -> FeatureTable:
        """The features of a split; label_ids is among their scalars.

        Args:
          split: of SPLITS.
          path: of its records, where they are not to be in cached_dir.

        Raises:
          ValueError: as `examples`; or the records at the path are of other questions.
        """
        examples, num_choices = self.examples(split), self.num_choices(split)
        made_from = dict(examples=digest(json.dumps(examples).encode()), **tokenizer_key(self.tokenizer),
                         max_qa_length=self.max_qa_length, num_choices=num_choices)
        schema = FeatureSchema(self.max_seq_length, dict(label_ids=tf.int32, is_real_example=tf.int32),
                               num_choices=num_choices)
        path = path or cache_path(self.cached_dir, f"{self.data_format}_{split}", made_from, schema)
        table = cached_table(path, made_from, schema, lambda: self._features(examples, num_choices))
        if len(table) != len(examples):
            raise ValueError(f"{path} has {len(table):,} questions, and the data set {len(examples):,}: remove it")
        return table

    def _features(self, examples: list[MultipleChoiceExample], num_choices: int) -> Iterator[dict]:
        for features in convert_examples_to_features(
                examples, self.tokenizer, self.max_seq_length, self.max_qa_length, num_choices):
            yield dict(features, label_ids=features["label_id"])


def read_json_examples(path: str) -> list[MultipleChoiceExample]:
    """The questions of a file of JSON lines.

    Raises:
      ValueError: the file is missing or has no question, or a line is not as it should be; file and line are named.
    """
    examples = [_json_example(values, f"{path} line {line}") for line, values in read_json_lines(path)]
    if not examples:
        raise ValueError(f"{path} has no questions")
    return examples


def _json_example(values: dict[str, Any], place: str) -> MultipleChoiceExample:
    return checked_example(place, values.get("id", place), values.get("context", ""), values.get("question"),
                           values.get("options"), values.get("answer"), str(values.get("level", "")))
