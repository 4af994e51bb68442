"""Writes predictions on a GLUE test set: probabilities, and answers in the format of the GLUE server.

The server takes a zip file in which the answers have other names: CoLA.tsv, SST-2.tsv, MRPC.tsv, STS-B.tsv, QQP.tsv,
MNLI-m.tsv (mnli), MNLI-mm.tsv (mismnli), QNLI.tsv, RTE.tsv, WNLI.tsv, AX.tsv.
"""

from __future__ import annotations

import csv
import io
import os
from typing import Sequence

import numpy as np

from albert_tf.tasks.classification.reading import InputExample
from albert_tf.tasks.classification.task_data import TaskData
from albert_tf.utils.writing import write_text


def write_answers(
    directory: str, task: TaskData, guids: Sequence[str], probabilities: np.ndarray, suffix: str = "",
    split: str = "test",
) -> None:
    """Writes test_results.tsv (a row of probabilities, or the score) and submit_results.tsv (index, prediction).

    The GLUE server rejects scores outside a task's range, so the second file has scores clipped to that range. For the
    split "dev" only dev_results.tsv is written.

    Args:
      directory: folder of the files.
      task: the task, which has the names of the labels.
      guids: the index of each example in the test file.
      probabilities: [examples, labels]; for regression the scores, [examples, 1].
      suffix: appended to the names of both files, before the extension.
      split: the split that was predicted.
    """
    rows = "".join("\t".join(map(str, row)) + "\n" for row in probabilities.tolist())
    write_text(os.path.join(directory, f"{split}_results{suffix}.tsv"), rows)
    if split != "test":
        return
    if task.labels is None:
        scores = probabilities[:, 0]
        answers = (np.clip(scores, *task.score_range) if task.score_range else scores).tolist()
    else:
        answers = [task.labels[i] for i in probabilities.argmax(axis=1)]
    lines = "".join(f"{guid}\t{answer}\n" for guid, answer in zip(guids, answers))
    write_text(os.path.join(directory, f"submit_results{suffix}.tsv"), "index\tprediction\n" + lines)


def write_predictions(
    directory: str, task: TaskData, examples: Sequence[InputExample], probabilities: np.ndarray, suffix: str = "",
    split: str = "test", num_layers_used: np.ndarray | None = None,
) -> str:
    """Writes SPLIT_predictions.csv, with the texts next to their predictions, and returns its path.

    The columns are index, text_a, text_b (if the task has pairs), prediction (a label, or a score), and for
    classification the probability of each label, which has its name. The last one is num_layers_used, if it is known.

    Args:
      directory, task, suffix, split: see write_answers.
      examples: the examples that were predicted.
      probabilities: [examples, labels]; for regression the scores, [examples, 1].
      num_layers_used: [examples], of predictions with early exit (of an ensemble, the means); None for others.
    """
    has_pairs = any(example.text_b is not None for example in examples)
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["index", "text_a", *["text_b"] * has_pairs, "prediction", *(task.labels or ()),
                   *["num_layers_used"] * (num_layers_used is not None)])
    used = [[] for _ in examples] if num_layers_used is None else [[f"{number:g}"] for number in num_layers_used]
    for example, row, layers in zip(examples, probabilities.tolist(), used):
        texts = [example.text_a, *[example.text_b] * has_pairs]
        prediction = [row[0]] if task.labels is None else [task.labels[int(np.argmax(row))], *row]
        rows.writerow([example.guid, *texts, *prediction, *layers])
    path = os.path.join(directory, f"{split}_predictions{suffix}.csv")
    write_text(path, file.getvalue())
    return path
