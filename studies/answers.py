"""The answers of a run to each example, so that two models can be compared in pairs on the same examples."""

from __future__ import annotations

import csv
import os

import numpy as np
import tensorflow as tf

from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.tasks.squad.metrics import raw_scores
from albert_tf.utils.files import read_json_object
from studies.planning import PlannedRun


def credits(run: PlannedRun) -> np.ndarray | None:
    """The score of each dev example, float64 [examples]: F1 in percent for SQuAD, 0 or 100 for other tasks.

    The result is None if the run writes no answers, or if its task is a regression, whose score is not a mean over
    examples.
    """
    of_script = dict(run_squad=_of_squad, run_classifier=_of_classifier).get(run.script)
    return of_script(run) if of_script else None


def _of_squad(run: PlannedRun) -> np.ndarray:
    dataset = read_json_object(run.flags["predict_file"])["data"]
    _, f1 = raw_scores(dataset, read_json_object(os.path.join(run.directory, "predictions.json")))
    return 100.0 * np.array([f1[question] for question in sorted(f1)])


def _of_classifier(run: PlannedRun) -> np.ndarray | None:
    task, path = find_task(run.flags["task_name"]), os.path.join(run.directory, "dev_results.tsv")
    if task.labels is None or not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        probabilities = np.array(list(csv.reader(file, delimiter="\t")), np.float64)
    labels = [task.label_id(example.label) for example in read_examples(task, run.flags["data_dir"], "dev")]
    return 100.0 * (probabilities.argmax(axis=1) == labels)
