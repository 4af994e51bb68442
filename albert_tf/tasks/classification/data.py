"""GLUE's tasks, and the examples and features of classification and regression (release: classifier_utils.py)."""

from __future__ import annotations

import dataclasses
from typing import Iterable, Iterator, Mapping, NamedTuple

import numpy as np
from absl import logging

from albert_tf.data.feature_table import FeatureCache, FeatureSchema, FeatureTable, fingerprint
from albert_tf.data.rows import BadRows, Column, Row, read_rows, warn_of_empty_texts
from albert_tf.data.worker_pool import chunks
from albert_tf.tasks.classification.table_format import SplitFile, TableFormat
from albert_tf.text.packing import PairPacker, WindowOptions, WindowPacker
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.utils.files import errors_at
from albert_tf.utils.imports import tensorflow as tf
from albert_tf.utils.progress import count_of

_CHUNK = 1000  # examples that are tokenized in one call
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

TASKS: dict[str, TableFormat] = {format.name: format for format in (
    TableFormat("cola", _sources("CoLA", dict(text_a=3, label=1), dict(guid=0, text_a=1), has_header=False), _BINARY,
                metrics=("matthew_corr", "eval_accuracy")),
    TableFormat("mnli", _sources("MNLI", _MNLI, _MNLI_TEST, suffix="_matched"), _THREE_WAY,
                companions=("mismnli", "ax")),
    TableFormat("mismnli", _sources("MNLI", _MNLI, _MNLI_TEST, suffix="_mismatched"), _THREE_WAY),
    TableFormat("mrpc", _sources("MRPC", dict(text_a=3, text_b=4, label=0), dict(guid=0, text_a=3, text_b=4)), _BINARY,
                metrics=("eval_accuracy", "f1")),
    TableFormat("rte", _sources("RTE", _PAIR, _PAIR_TEST), _ENTAILMENT),
    TableFormat("sst-2", _sources("SST-2", dict(text_a=0, label=1), dict(guid=0, text_a=1)), _BINARY),
    TableFormat("sts-b", _sources("STS-B", dict(_STSB_TEST, label=-1), _STSB_TEST), labels=None,
                metrics=("pearson", "spearman", "MSE"), score_range=(0.0, 5.0)),
    TableFormat("qqp", _sources("QQP", dict(guid=0, text_a=3, text_b=4, label=5), dict(guid=0, text_a=1, text_b=2)),
                _BINARY, metrics=("eval_accuracy", "f1"), skips_short_rows=True),
    TableFormat("qnli", _sources("QNLI", _PAIR, _PAIR_TEST), _ENTAILMENT),
    TableFormat("wnli", _sources("WNLI", _PAIR, _PAIR_TEST), _BINARY),
    TableFormat("ax", dict(test=SplitFile("diagnostic/diagnostic.tsv", _PAIR_TEST)), _THREE_WAY),
)}


def find_task(format: str | TableFormat) -> TableFormat:
    """The task with a name, in upper or lower case, with or without hyphens. A TableFormat is returned unchanged."""
    if isinstance(format, TableFormat):
        return format
    names = {**{name.replace("-", ""): name for name in TASKS}, _MNLI_MM.replace("-", ""): "mismnli"}
    name = format.lower().replace("-", "").replace("_", "")
    if name not in names:
        raise ValueError(f"unknown task {format!r}: expected one of {', '.join(TASKS)}; --task_config adds other tasks")
    return TASKS[names[name]]


def with_companions(format: TableFormat, data_dir: str | None, split: str) -> list[TableFormat]:
    """The task, and each companion task that has a file (MNLI: mismatched set and AX)."""
    companions = [TASKS[name] for name in format.companions]
    return [format, *(each for each in companions if split in each.sources
                      and tf.io.gfile.exists(each.sources[split].path_in(data_dir)))]


class InputExample(NamedTuple):
    """One row of a file."""

    guid: str
    text_a: str
    text_b: str | None = None
    # A class name, several (see TableFormat.label_id), or a number. In a test set the first class, no class or 0, as in
    # the release.
    label: str | float | None = None


def read_examples(task_name: str | TableFormat, data_dir: str | None, split: str) -> list[InputExample]:
    """Reads the examples of a task's split. Rows with an empty text bring a warning.

    Args:
      task_name: a TableFormat, or a name of TASKS in upper or lower case.
      data_dir: the folder that has GLUE's folders (CoLA, MNLI, ...); None if the format has the whole path.
      split: "train", "dev" or "test".

    Raises:
      ValueError: the task or split is unknown, the file is missing or has no examples, or rows are wrong.
    """
    format = find_task(task_name)
    source = format.source(split)
    path = source.path_in(data_dir)
    examples, lines, skipped, bad = [], [], 0, BadRows(path)
    for row in read_rows(path, source.columns, source.has_header, source.separator):
        if isinstance(row, Row):
            with bad.at(row.line):
                examples.append(_example(format, split, row))
                lines.append(row.line)
        elif format.skips_short_rows:
            skipped += 1
        else:
            bad.add(row)
    bad.check()
    if skipped:
        logging.warning("%s: skipped %s with too few columns", path, count_of(skipped, "row"))
    has_pairs = any((example.text_b or "").strip() for example in examples)
    warn_of_empty_texts(path, [line for line, example in zip(lines, examples)
                               if not example.text_a.strip() or has_pairs and not (example.text_b or "").strip()])
    if not examples:
        raise ValueError(f"{path} has no examples")
    return examples


def _example(format: TableFormat, split: str, row: Row) -> InputExample:
    fields = row.fields
    label = fields.get("label", format.placeholder_label)
    score = format.label_id(label)
    guid = fields.get("guid", f"{split}-{row.line - 1}")
    return InputExample(guid, fields["text_a"], fields.get("text_b"), score if isinstance(score, float) else label)


def read_label_ids(format: TableFormat, data_dir: str | None, split: str) -> np.ndarray | None:
    """The label ids of a split's examples, [examples] or with several labels per text [examples, labels].

    None if the file is not labelled, as GLUE's test sets: a row has no label, or an unknown one. That is a ValueError
    in "train" and "dev" of the task.
    """
    source = format.source(split)
    column, path, label_ids = source.columns.get("label", source.optional_label), source.path_in(data_dir), []
    if column is None:
        return None
    try:
        for row in read_rows(path, dict(source.columns, label=column), source.has_header, source.separator):
            if isinstance(row, Row):
                with errors_at(f"{path} line {row.line}"):
                    label_ids.append(format.label_id(row.fields["label"]))
            elif not format.skips_short_rows:
                raise ValueError(f"{path} line {row.line}: {row.problem}")
    except ValueError as error:
        if "label" in source.columns:
            raise
        logging.info("the predictions have no scores: %s", error)
        return None
    return None if format.multi_label and not np.any(label_ids) else np.array(label_ids)


def convert_examples_to_features(
    examples: Iterable[InputExample], task_name: str | TableFormat, tokenizer: FullTokenizer, max_seq_length: int,
    pad: bool = True, windows: WindowOptions = WindowOptions(),
) -> Iterator[dict]:
    """The features of each example, in order (release: convert_single_example).

    Args:
      examples, task_name: see read_examples.
      tokenizer: the model's tokenizer.
      max_seq_length: the largest number of tokens of a row. The longer text is truncated, or of equal ones the second.
      pad: whether to pad rows to max_seq_length, as in the release.
      windows: how longer texts are read, if they are not truncated.

    Returns:
      an iterator of dicts: input_ids, input_mask and segment_ids, lists of equal length, or max_windows such lists if
      that is more than 1; label_id, the result of TableFormat.label_id; is_real_example, True.

    Raises:
      ValueError: the task or a label is unknown, or max_seq_length is too small for any text.
    """
    packer = WindowPacker(PairPacker(tokenizer, max_seq_length, pad), windows)
    return _features(iter(examples), find_task(task_name), tokenizer, packer)


def feature_table(
    cache: FeatureCache, format: TableFormat, data_dir: str | None, split: str, max_seq_length: int,
    windows: WindowOptions = WindowOptions(),
) -> FeatureTable:
    """The features of a split (release: file_based_convert_examples_to_features). Their scalars include label_ids."""
    source = format.source(split)
    path = source.path_in(data_dir)
    made_from = dict(task=format.name, split=split, source=repr(source), labels=format.labels and list(format.labels),
                     file=fingerprint(path))
    if windows.max_windows > 1:
        made_from.update(dataclasses.asdict(windows))
    if format.multi_label:
        made_from.update(label_separator=format.label_separator)
    label_dtype = tf.float32 if format.is_regression or format.multi_label else tf.int32
    schema = FeatureSchema(max_seq_length, dict(label_ids=label_dtype, is_real_example=tf.int32),
                           num_choices=windows.max_windows, are_windows=windows.max_windows > 1,
                           sizes=dict(label_ids=format.num_labels) if format.multi_label else {})

    def convert() -> Iterator[dict]:
        examples = read_examples(format, data_dir, split)
        return with_label_ids(convert_examples_to_features(examples, format, cache.tokenizer, max_seq_length, pad=False,
                                                           windows=windows))

    return cache.table(f"{format.name}_{split}", made_from, schema, convert)


def with_label_ids(features: Iterable[dict]) -> Iterator[dict]:
    """Features with label_id also as label_ids, its name in records."""
    return (dict(each, label_ids=each["label_id"]) for each in features)


def _features(
    examples: Iterator[InputExample], format: TableFormat, tokenizer: FullTokenizer, packer: WindowPacker
) -> Iterator[dict]:
    for chunk in chunks(examples, _CHUNK):
        encoded_a = tokenizer.encode_batch([example.text_a for example in chunk])
        encoded_b = tokenizer.encode_batch([example.text_b or "" for example in chunk])
        for example, ids_a, ids_b in zip(chunk, encoded_a, encoded_b):
            with errors_at(f"example {example.guid}"):
                label_id = format.label_id(example.label)
            yield dict(packer.pack(ids_a.tolist(), ids_b.tolist()), label_id=label_id, is_real_example=True)
    if packer.num_truncated:
        logging.warning("the ends of %s with more windows than --max_windows=%d are left out",
                        count_of(packer.num_truncated, "example"), packer.options.max_windows)
