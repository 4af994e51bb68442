"""Compares the results of the trials of a study that have finished, and writes them as CSV files and a chart."""

from __future__ import annotations

import csv
import math
import os
import statistics
from typing import Any, NamedTuple

import numpy as np

from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.training.evaluation import best_of, read_history
from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.utils.files import read_json_object
from albert_tf.utils.outputs import write_csv
from studies.intervals import Interval, over_examples, over_seeds, standard_error
from studies.study import COLUMNS, PlannedRun, Study, Trial

LOSS = "masked-LM loss"  # of pre-training, beside the columns


class Row(NamedTuple):
    """Measured values and scores of single examples by title and seed, and the pre-trained models by seed."""

    values: dict[str, dict[int, float]]
    answers: dict[str, dict[int, np.ndarray]]
    models: dict[int, str]


def row_of(columns: list[str], trials: list[Trial]) -> Row:
    """The row of a configuration, with the values of its trials that have finished."""
    columns = [column for column in columns if COLUMNS[column][1] in trials[0].runs]
    values: dict[str, dict[int, float]] = {title: {} for title in (*(COLUMNS[column][0] for column in columns), LOSS)}
    answers: dict[str, dict[int, np.ndarray]] = {title: {} for title in values}
    for trial in trials:
        for title, name, key, factor in (COLUMNS[column] for column in columns):
            results = results_of(trial.runs[name])
            if key in results:  # a model without a sentence objective has no accuracy of it
                values[title][trial.seed] = factor * results[key]
                if (scores := scores_of_examples(trial.runs[name])) is not None:
                    answers[title][trial.seed] = scores
        if results := results_of(trial.runs["pretraining"]):
            values[LOSS][trial.seed] = results["masked_lm_loss"]
    return Row(values, answers, {trial.seed: trial.runs["pretraining"].directory for trial in trials})


def results_of(run: PlannedRun) -> dict[str, Any]:
    """The results of a run that has finished; of pre-training, the best evaluation, whose weights are used."""
    if not run.is_finished:
        return {}
    if run.script == "run_pretraining":
        return best_of(read_history(run.directory, "masked_lm_accuracy"), "masked_lm_accuracy") or {}
    return read_json_object(os.path.join(run.directory, "eval_results.json"))


def scores_of_examples(run: PlannedRun) -> np.ndarray | None:
    """0 or 100 for each dev example of a classifier, [examples]; None for other runs."""
    path = os.path.join(run.directory, "dev_results.tsv")
    if run.script != "run_classifier" or not os.path.exists(path):
        return None
    task = find_task(run.flags["task_name"])
    with open(path, encoding="utf-8") as file:
        probabilities = np.array(list(csv.reader(file, delimiter="\t")), np.float64)
    labels = [task.label_id(example.label) for example in read_examples(task, run.flags["data_dir"], "dev")]
    return 100.0 * (probabilities.argmax(axis=1) == labels)


def compare(row: Row, other: Row, title: str) -> Interval:
    """Row minus other. The interval is over seeds, or over the examples that both answered, whichever is wider.

    Over seeds, the values are paired if both measured the same pre-trained models. A single seed has no interval.
    """
    a, b = row.values[title], other.values[title]
    paired = set(a) == set(b) and row.models == other.models
    found = over_seeds(list(a.values()), [b[seed] for seed in (a if paired else b)], paired)
    if math.isnan(found.low) or not (row.answers[title] and other.answers[title]):
        return found
    of_examples = over_examples(*(np.stack(list(each.answers[title].values())) for each in (row, other)))
    return max(found, of_examples, key=lambda interval: interval.high - interval.low)


def write_results(study: Study, trials: list[Trial], directory: str) -> list[tuple]:
    """Writes scores.csv, seeds.csv, differences.csv (as in docs/measured) and results.svg; returns the differences."""
    rows = {label: row_of(study.content["columns"], [trial for trial in trials if trial.label == label])
            for label in study.configurations}
    measured = [(label, title, by_seed) for label, row in rows.items() for title, by_seed in row.values.items()
                if by_seed]
    titles = list(next(iter(rows.values())).values)
    differences = [(study.name, label, other, title,
                    *(_rounded(value, 1) for value in compare(rows[label], rows[other], title)))
                   for label, other in study.references.items() if label != other for title in titles
                   if title != LOSS and rows[label].values[title] and rows[other].values[title]]
    tables: dict[str, list[tuple]] = {
        "scores": [("study", "configuration", "column", "mean", "standard_error"), *(
            (study.name, label, title, *(_rounded(of(list(by_seed.values())), 3 if title == LOSS else 1)
                                         for of in (statistics.mean, standard_error)))
            for label, title, by_seed in measured)],
        "seeds": [("study", "configuration", "seed", "column", "value"), *(
            (study.name, label, seed, title, round(value, 3)) for label, title, by_seed in measured
            for seed, value in by_seed.items())],
        "differences": [("study", "configuration", "other", "column", "difference", "low", "high"), *differences]}
    for name, lines in tables.items():
        write_csv(os.path.join(directory, f"{name}.csv"), lines)
    write_charts(os.path.join(directory, "results.svg"), [
        _panel(title, [list(row.values[title].values()) for row in rows.values()], list(rows)) for title in titles])
    return differences


def _rounded(value: float, digits: int) -> float | str:
    """A value as the CSV files have it: empty if a single seed has none."""
    return "" if math.isnan(value) else round(value, digits)


def _panel(title: str, values: list[list[float]], labels: list[str]) -> Panel:
    """The means with their standard errors, and a dot for each seed."""
    means = [(place, statistics.mean(of_row) if of_row else math.nan) for place, of_row in enumerate(values)]
    seeds = [(place, value) for place, of_row in enumerate(values) for value in of_row]
    return Panel(title, [Curve(means, "mean and standard error", list(map(standard_error, values))),
                         Curve(seeds, "single seeds", is_joined=False)], x_labels=labels)
