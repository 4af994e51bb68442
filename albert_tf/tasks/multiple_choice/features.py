"""Converts multiple-choice questions to features: for each choice a row of passage and question with that choice."""

from __future__ import annotations

import itertools
import json
from typing import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.feature_table import FeatureCache, FeatureSchema, FeatureTable, digest
from albert_tf.data.worker_pool import chunks
from albert_tf.tasks.classification.data import with_label_ids
from albert_tf.tasks.multiple_choice.reading import MultipleChoiceExample
from albert_tf.text.packing import SPECIAL_TOKENS, PairPacker, by_feature
from albert_tf.text.tokenization import FullTokenizer

_CHUNK = 500  # examples that are tokenized in one call


def convert_examples_to_features(
    examples: Iterable[MultipleChoiceExample], tokenizer: FullTokenizer, max_seq_length: int, max_qa_length: int,
    num_choices: int | None = None,
) -> Iterator[dict]:
    """The features of each example, in order (release: race_utils.convert_single_example).

    Args:
      examples: the questions.
      tokenizer: the model's tokenizer; texts are lower-cased if its do_lower_case is set.
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
    """The features of a split, with the scalars label_ids. `name` is a readable part of the name of the cached file."""
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
    max_pieces = packer.max_seq_length - SPECIAL_TOKENS
    for chunk in chunks(examples, _CHUNK):
        contexts = list(dict.fromkeys(example.context for example in chunk))
        ids_of = dict(zip(contexts, map(np.ndarray.tolist, tokenizer.encode_batch(contexts))))
        endings = iter(tokenizer.encode_batch([ending for example in chunk for ending in _endings(example, tokenizer)]))
        for example in chunk:
            context, rows = ids_of[example.context], []
            for ids in itertools.islice(endings, len(example.options)):
                ending = ids.tolist()[-min(max_qa_length, max_pieces):]
                texts = (context[: max_pieces - len(ending)], ending) if context else (ending,)
                rows.append(packer.pack(*texts))
            rows += [packer.padding()] * (num_choices - len(rows))
            yield dict(by_feature(rows), label_id=example.label or 0, example_id=example.example_id,
                       is_real_example=True)


def _endings(example: MultipleChoiceExample, tokenizer: FullTokenizer) -> tuple[str, ...]:
    """The endings as in the release: with a SentencePiece model, texts are normalised first, so "＿" counts as "_"."""
    question, *options = map(tokenizer.preprocess, (example.question, *example.options))
    return example._replace(question=question, options=tuple(options)).endings
