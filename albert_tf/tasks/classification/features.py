"""Converts the examples of a classification or a regression to features (release: classifier_utils.py)."""

from __future__ import annotations

import dataclasses
from typing import Iterable, Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.data.feature_table import FeatureCache, FeatureSchema, FeatureTable, fingerprint
from albert_tf.data.worker_pool import chunks
from albert_tf.tasks.classification.glue import find_task
from albert_tf.tasks.classification.reading import InputExample, read_examples
from albert_tf.tasks.classification.task_data import TaskData
from albert_tf.text.packing import PairPacker, WindowOptions, WindowPacker
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import errors_at
from albert_tf.utils.progress import count_of

_CHUNK = 1000  # examples that are tokenized in one call


def convert_examples_to_features(
    examples: Iterable[InputExample], task_name: str | TaskData, tokenizer: FullTokenizer, max_seq_length: int,
    pad: bool = True, windows: WindowOptions = WindowOptions(),
) -> Iterator[dict]:
    """The features of each example, in order (release: convert_single_example).

    Args:
      examples: examples of the task.
      task_name: see read_examples.
      tokenizer: the model's tokenizer; texts are lower-cased if its do_lower_case is set.
      max_seq_length: the largest number of tokens of a row. The longer text is truncated, or the second one if both
        are equally long.
      pad: whether to pad rows to max_seq_length, as in the release.
      windows: how longer texts are read, if they are not truncated.

    Returns:
      an iterator of dicts: input_ids, input_mask and segment_ids, lists of equal length, or max_windows such lists if
      that is more than 1; label_id, the result of TaskData.label_id; is_real_example, True.

    Raises:
      ValueError: the task or a label is unknown, or max_seq_length is too small for any text.
    """
    packer = WindowPacker(PairPacker(tokenizer, max_seq_length, pad), windows)
    return _features(iter(examples), find_task(task_name), tokenizer, packer)


def feature_table(
    cache: FeatureCache, task: TaskData, data_dir: str, split: str, max_seq_length: int,
    windows: WindowOptions = WindowOptions(),
) -> FeatureTable:
    """The features of a split (release: file_based_convert_examples_to_features). Their scalars include label_ids."""
    source = task.source(split)
    path = source.path_in(data_dir)
    made_from = dict(task=task.name, split=split, source=repr(source), labels=task.labels and list(task.labels),
                     file=fingerprint(path))
    if windows.max_windows > 1:
        made_from.update(dataclasses.asdict(windows))
    if task.multi_label:
        made_from.update(label_separator=task.label_separator)
    label_dtype = tf.float32 if task.is_regression or task.multi_label else tf.int32
    schema = FeatureSchema(max_seq_length, dict(label_ids=label_dtype, is_real_example=tf.int32),
                           num_choices=windows.max_windows, are_windows=windows.max_windows > 1,
                           sizes=dict(label_ids=task.num_labels) if task.multi_label else {})

    def convert():
        examples = read_examples(task, data_dir, split)
        return with_label_ids(convert_examples_to_features(examples, task, cache.tokenizer, max_seq_length, pad=False,
                                                           windows=windows))

    table = cache.table(f"{task.name}_{split}", made_from, schema, convert)
    if split == "train":
        _warn_of_labels_without_examples(task, path, table)
    return table


def with_label_ids(features: Iterable[dict]) -> Iterator[dict]:
    """Features with label_id also as label_ids, its name in records."""
    return (dict(each, label_ids=each["label_id"]) for each in features)


def _warn_of_labels_without_examples(task: TaskData, path: str, table: FeatureTable) -> None:
    if not task.is_regression:
        label_ids = table.scalars["label_ids"].numpy()
        counts = label_ids.sum(axis=0) if task.multi_label else np.bincount(label_ids, minlength=task.num_labels)
        for label in np.array(task.labels)[counts == 0]:
            logging.warning("%s has no example with the label %r: the model cannot learn it", path, str(label))


def _features(
    examples: Iterator[InputExample], task: TaskData, tokenizer: FullTokenizer, packer: WindowPacker
) -> Iterator[dict]:
    for chunk in chunks(examples, _CHUNK):
        encoded_a = tokenizer.encode_batch([example.text_a for example in chunk])
        encoded_b = tokenizer.encode_batch([example.text_b or "" for example in chunk])
        for example, ids_a, ids_b in zip(chunk, encoded_a, encoded_b):
            with errors_at(f"example {example.guid}"):
                label_id = task.label_id(example.label)
            yield dict(packer.pack(ids_a.tolist(), ids_b.tolist()), label_id=label_id, is_real_example=True)
    if packer.num_truncated:
        logging.warning("the ends of %s with more windows than --max_windows=%d are left out",
                        count_of(packer.num_truncated, "example"), packer.options.max_windows)
