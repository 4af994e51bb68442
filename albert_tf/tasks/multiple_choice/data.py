"""Multiple-choice questions: RACE (Lai et al., 2017) and JSON lines, and their features.

RACE is read as its original files, one JSON per passage, or as the release's all.txt. Other data sets are JSON lines,
data_dir/SPLIT.jsonl, one question per line::

    {"context": "It rained all day.", "question": "The street was _.", "options": ["wet", "dry"], "answer": "A",
     "id": "17", "level": "easy"}

"context", "id" and "level" are optional in every file, "answer" is optional in test.jsonl only; null is the same as
no value. Questions with the same level are also scored as a group.
"""

from __future__ import annotations

import itertools
import json
import os
import reprlib
import string
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from albert_tf.data.feature_table import FeatureCache, FeatureSchema, FeatureTable, digest
from albert_tf.data.rows import read_json_lines, read_objects, warn_of_empty_texts
from albert_tf.data.worker_pool import chunks
from albert_tf.tasks.classification.data import with_label_ids
from albert_tf.text.packing import PairPacker, by_feature
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import read_json_object
from albert_tf.utils.imports import tensorflow as tf

FORMATS = ("race", "jsonl", "parquet")
SPLITS = ("train", "dev", "test")
LEVELS = ("middle", "high")
FEWEST_CHOICES, MOST_CHOICES = 2, 10
MAX_QA_LENGTH = 128  # the release's
BLANK = "_"  # in a question, is replaced by the option
ALL_LEVELS = "eval"  # results of all questions have this name instead of a level's: eval_accuracy
_ALL = "all.txt"
_CHUNK = 500  # examples that are tokenized in one call


class MultipleChoiceExample(NamedTuple):
    """A multiple-choice question. Its texts are as in the file."""

    example_id: str  # of its passage
    context: str  # the passage; "" if there is none
    question: str  # an option replaces each "_" in it, or is appended if it has none
    options: tuple[str, ...]
    label: int | None = None  # the index of the correct option; None if unknown
    level: str = ""  # the group in which it is also scored ("middle" or "high" in RACE); "" for none


def read_split(
    data_dir: str, data_format: str, split: str, high_only: bool = False, middle_only: bool = False
) -> list[MultipleChoiceExample]:
    """The questions of a split in one of FORMATS; high_only and middle_only are for RACE."""
    if data_format == "race":
        return read_examples(data_dir, split, high_only, middle_only)
    if high_only or middle_only:
        raise ValueError("high_only and middle_only are for RACE")
    path = os.path.join(data_dir, file_name(data_format, split))
    examples = read_json_examples(path)
    unanswered = sum(example.label is None for example in examples)
    if unanswered and split != "test":
        raise ValueError(f"{path}: {unanswered:,} of {len(examples):,} questions have no answer; only "
                         f"{file_name(data_format, 'test')} may leave answers out")
    return examples


def file_name(data_format: str, split: str) -> str:
    """The name of a split's file, or for RACE of its folder."""
    return f"RACE/{split}" if data_format == "race" else f"{split}.{data_format}"


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
    examples = [example for level in levels for location, passage in _passages(os.path.join(split_dir, level))
                for example in _race_examples(location, passage, level)]
    if not examples:
        raise ValueError(f"{split_dir} has no questions")
    return examples


def read_json_examples(path: str) -> list[MultipleChoiceExample]:
    """Reads the questions of a JSON-lines or Parquet file. An empty question or option brings a warning."""
    examples, empty = [], []
    for line, values in read_objects(path):
        location, values = f"{path} line {line}", {key: value for key, value in values.items() if value is not None}
        examples.append(checked_example(
            location, values.get("id", location), values.get("context", ""), values.get("question"),
            values.get("options"), values.get("answer"), str(values.get("level", ""))))
        if not all(text.strip() for text in (examples[-1].question, *examples[-1].options)):
            empty.append(line)
    warn_of_empty_texts(path, empty)
    if not examples:
        raise ValueError(f"{path} has no questions")
    return examples


def join(question: str, option: str) -> str:
    """Joins question and option: the option replaces each "_", or is appended if there is none."""
    return question.replace(BLANK, option) if BLANK in question else f"{question} {option}"


def checked_example(
    location: str, example_id: Any, context: Any, question: Any, options: Any, answer: Any, level: str = ""
) -> MultipleChoiceExample:
    """An example of values that were read from a file, or ValueError. `answer` is the letter of the correct option."""
    for name, text in (("question", question), ("context", context)):
        if not isinstance(text, str):
            raise ValueError(f"{location}: the {name} must be a text. Received: {reprlib.repr(text)}")
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise ValueError(f"{location}: the options must be a list of texts. Received: {reprlib.repr(options)}")
    if not FEWEST_CHOICES <= len(options) <= MOST_CHOICES:
        raise ValueError(f"{location}: a question must have {FEWEST_CHOICES} to {MOST_CHOICES} options. "
                         f"Received: {len(options)} options")
    label = None if answer is None else _label(location, answer, len(options))
    return MultipleChoiceExample(str(example_id), context, question, tuple(options), label, level)


def letters(num_options: int) -> str:
    """The letters of the options in answers: "ABCD" for four options."""
    return string.ascii_uppercase[:num_options]


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


def _race_examples(location: str, passage: dict[str, Any], level: str) -> Iterator[MultipleChoiceExample]:
    article, lists = passage.get("article"), [passage.get(key) or () for key in ("questions", "options", "answers")]
    if not isinstance(article, str) or not article.strip():
        raise ValueError(f"{location}: 'article' must be a text that is not empty. Received: {reprlib.repr(article)}")
    if not all(isinstance(values, list) and len(values) == len(lists[0]) for values in lists):
        raise ValueError(f"{location}: 'questions', 'options' and 'answers' must be lists of the same length")
    name = passage.get("id") or os.path.basename(location)
    for number, (question, options, answer) in enumerate(zip(*lists), start=1):
        answer = "" if answer is None else answer  # all of RACE has answers
        yield checked_example(f"{location}, question {number}", name, article, question, options, answer, level)


def _label(location: str, answer: Any, num_options: int) -> int:
    names = letters(num_options)
    letter = answer.strip().upper() if isinstance(answer, str) else ""
    if len(letter) != 1 or letter not in names:
        raise ValueError(f"{location}: the answer must be a letter from A to {names[-1]}. "
                         f"Received: {reprlib.repr(answer)}")
    return names.index(letter)


def convert_examples_to_features(
    examples: Iterable[MultipleChoiceExample], tokenizer: FullTokenizer, max_seq_length: int, max_qa_length: int,
    num_choices: int | None = None,
) -> Iterator[dict]:
    """The features of each example, in order (release: race_utils.convert_single_example).

    Args:
      tokenizer: the model's tokenizer.
      max_seq_length: tokens of each row. The passage is truncated to the tokens that are left for it.
      max_qa_length: the largest number of tokens of question and option together; only the last ones are kept.
      num_choices: rows per example. Rows of choices that an example does not have are padding only. None: as many rows
        as the example has options.

    Returns:
      an iterator of dicts: input_ids, input_mask and segment_ids, each a list of max_seq_length per choice; label_id,
      the index of the correct choice, or 0 if unknown; example_id; is_real_example, True.

    Raises:
      ValueError: max_seq_length is too small for any text, or max_qa_length is not positive.
    """
    if max_qa_length < 1:
        raise ValueError(f"max_qa_length must be positive. Received: {max_qa_length}")
    return _features(iter(examples), tokenizer, PairPacker(tokenizer, max_seq_length), max_qa_length, num_choices or 0)


def feature_table(
    cache: FeatureCache, examples: Sequence[MultipleChoiceExample], name: str, max_seq_length: int, max_qa_length: int,
    path: str | None = None,
) -> FeatureTable:
    """The features of a split, with the scalars label_ids. `name` is a part of the name of the cached file."""
    num_choices = max(len(example.options) for example in examples)
    made_from = dict(examples=digest(json.dumps(examples).encode()), max_qa_length=max_qa_length,
                     num_choices=num_choices)
    schema = FeatureSchema(max_seq_length, dict(label_ids=tf.int32, is_real_example=tf.int32), num_choices=num_choices)
    table = cache.table(name, made_from, schema, lambda: with_label_ids(convert_examples_to_features(
        examples, cache.tokenizer, max_seq_length, max_qa_length, num_choices)), path)
    if len(table) != len(examples):
        raise ValueError(f"{path or cache.directory} has {len(table):,} questions, but the data set has "
                         f"{len(examples):,}: choose another path")
    return table


def _features(
    examples: Iterator[MultipleChoiceExample], tokenizer: FullTokenizer, packer: PairPacker, max_qa_length: int,
    num_choices: int,
) -> Iterator[dict]:
    max_pieces = packer.max_seq_length - tokenizer.special_tokens.pair
    for chunk in chunks(examples, _CHUNK):
        contexts = list(dict.fromkeys(example.context for example in chunk))
        ids_of = dict(zip(contexts, map(np.ndarray.tolist, tokenizer.encode_batch(contexts))))
        # As in the release, a SentencePiece model's texts are normalised before they are joined, so "＿" counts as "_".
        normalised = [map(tokenizer.preprocess, (example.question, *example.options)) for example in chunk]
        endings = iter(tokenizer.encode_batch(
            [join(question, option) for question, *options in normalised for option in options]))
        for example in chunk:
            context, rows = ids_of[example.context], []
            for ids in itertools.islice(endings, len(example.options)):
                ending = ids.tolist()[-min(max_qa_length, max_pieces):]
                texts = (context[: max_pieces - len(ending)], ending) if context else (ending,)
                rows.append(packer.pack(*texts))
            rows += [packer.padding()] * (num_choices - len(rows))
            yield dict(by_feature(rows), label_id=example.label or 0, example_id=example.example_id,
                       is_real_example=True)
