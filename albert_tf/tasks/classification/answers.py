"""Writes predictions on a GLUE test set: probabilities, and answers in the format of the GLUE server.

The server takes a zip file in which the answers have other names: CoLA.tsv, SST-2.tsv, MRPC.tsv, STS-B.tsv, QQP.tsv,
MNLI-m.tsv (mnli), MNLI-mm.tsv (mismnli), QNLI.tsv, RTE.tsv, WNLI.tsv, AX.tsv.
"""

from __future__ import annotations

import os
from typing import Any, Sequence

import numpy as np

from albert_tf.tasks.classification.metrics import above
from albert_tf.tasks.classification.reading import InputExample
from albert_tf.tasks.classification.task_data import TaskData
from albert_tf.utils.outputs import write_csv, write_text


def write_answers(
    directory: str, task: TaskData, guids: Sequence[str], probabilities: np.ndarray, suffix: str = "",
    split: str = "test", thresholds: Sequence[float] | None = None,
) -> None:
    """Writes test_results.tsv (a row of probabilities, or the score) and submit_results.tsv (index, prediction).

    The GLUE server rejects scores outside a task's range, so the second file has scores clipped to that range. For the
    split "dev" only dev_results.tsv is written.

    `probabilities` are [examples, labels], or for regression the scores, [examples, 1].
    """
    rows = "".join("\t".join(map(str, row)) + "\n" for row in probabilities.tolist())
    write_text(os.path.join(directory, f"{split}_results{suffix}.tsv"), rows)
    if split != "test":
        return
    if task.labels is None:
        scores = probabilities[:, 0]
        answers = (np.clip(scores, *task.score_range) if task.score_range else scores).tolist()
    else:
        answers = predicted_labels(task, probabilities, thresholds)
    lines = "".join(f"{guid}\t{answer}\n" for guid, answer in zip(guids, answers))
    write_text(os.path.join(directory, f"submit_results{suffix}.tsv"), "index\tprediction\n" + lines)


def predicted_labels(
    task: TaskData, probabilities: np.ndarray, thresholds: Sequence[float] | None = None
) -> list[str]:
    """The predicted label of each example, or its predicted labels with the task's separator between them.

    With several labels per text, `thresholds` has the least probability of each predicted label; None: 0.5.
    """
    names = task.labels or ()
    if task.multi_label:
        return [task.label_separator.join(name for name, is_there in zip(names, row) if is_there)
                for row in above(probabilities, thresholds)]
    return [names[i] for i in probabilities.argmax(axis=1)]


def write_predictions(
    directory: str, task: TaskData, examples: Sequence[InputExample], probabilities: np.ndarray, suffix: str = "",
    split: str = "test", thresholds: Sequence[float] | None = None,
) -> str:
    """Writes SPLIT_predictions.csv, with the texts next to their predictions, and returns its path.

    The columns are index, text_a, text_b (if the task has pairs), prediction (labels, or a score), and for
    classification the probability of each label, which has its name.
    """
    has_pairs = any(example.text_b is not None for example in examples)
    rows: list[list[Any]] = [["index", "text_a", *["text_b"] * has_pairs, "prediction", *(task.labels or ())]]
    answers = [] if task.labels is None else predicted_labels(task, probabilities, thresholds)
    for number, (example, row) in enumerate(zip(examples, probabilities.tolist())):
        texts = [example.text_a, *[example.text_b] * has_pairs]
        prediction = row if task.labels is None else [answers[number], *row]
        rows.append([example.guid, *texts, *prediction])
    path = os.path.join(directory, f"{split}_predictions{suffix}.csv")
    write_csv(path, rows)
    return path
