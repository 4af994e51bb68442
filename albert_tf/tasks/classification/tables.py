"""Makes FeatureTables of GLUE splits, with cached records (release: file_based_convert_examples_to_features)."""

from __future__ import annotations

import dataclasses
from typing import Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.data.feature_cache import cache_path, cached_table, fingerprint, tokenizer_key
from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.tasks.classification.features import convert_examples_to_features, read_examples
from albert_tf.tasks.classification.glue_tasks import Task, find_task
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.text.windows import WindowOptions


@dataclasses.dataclass(frozen=True)
class GlueTables:
    """Makes the feature tables of GLUE tasks.

    Args:
      data_dir: the folder that has GLUE's folders.
      tokenizer: the model's tokenizer.
      max_seq_length: the largest number of tokens of a row.
      cached_dir: folder of the cached records.
      windows: how longer texts are read.
    """

    data_dir: str
    tokenizer: FullTokenizer
    max_seq_length: int
    cached_dir: str
    windows: WindowOptions = WindowOptions()

    def with_companions(self, task: Task, split: str) -> list[tuple[Task, FeatureTable]]:
        """The task and its table, and the same for each companion task whose file exists (MNLI: mismatched set and AX).

        Raises:
          ValueError: see read_examples.
        """
        companions = [companion for companion in map(find_task, task.companions) if self._has(companion, split)]
        return [(each, self.table(each, split)) for each in (task, *companions)]

    def table(self, task: Task, split: str) -> FeatureTable:
        """The features of a split. Their scalars include label_ids.

        Raises:
          ValueError: see read_examples.
        """
        source = task.source(split)
        path = source.path_in(self.data_dir)
        made_from = dict(task=task.name, split=split, source=repr(source), labels=task.labels and list(task.labels),
                         file=fingerprint(path), **tokenizer_key(self.tokenizer))
        label_dtype = tf.float32 if task.is_regression else tf.int32
        max_windows = self.windows.max_windows
        if max_windows > 1:
            made_from.update(dataclasses.asdict(self.windows))
        schema = FeatureSchema(self.max_seq_length, dict(label_ids=label_dtype, is_real_example=tf.int32),
                               num_choices=max_windows, are_windows=max_windows > 1)
        records = cache_path(self.cached_dir, f"{task.name}_{split}", made_from, schema)
        table = cached_table(records, made_from, schema, lambda: self._features(task, split))
        if split == "train":
            _warn_of_labels_without_examples(task, path, table)
        return table

    def _has(self, task: Task, split: str) -> bool:
        return split in task.sources and tf.io.gfile.exists(task.sources[split].path_in(self.data_dir))

    def _features(self, task: Task, split: str) -> Iterator[dict]:
        examples = read_examples(task, self.data_dir, split)
        for features in convert_examples_to_features(examples, task, self.tokenizer, self.max_seq_length, pad=False,
                                                     windows=self.windows):
            yield dict(features, label_ids=features["label_id"])


def _warn_of_labels_without_examples(task: Task, path: str, table: FeatureTable) -> None:
    if not task.is_regression:
        counts = np.bincount(table.scalars["label_ids"].numpy(), minlength=task.num_labels)
        for label in np.array(task.labels)[counts == 0]:
            logging.warning("%s has no example with the label %r: the model cannot learn it", path, str(label))
