"""The results of all trials of a study that have finished, also in earlier commands."""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
import os
import statistics

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.pretraining import reading
from albert_tf.tasks.classification.data import find_task, read_examples
from albert_tf.tasks.squad.metrics import raw_scores
from albert_tf.training.evaluation import best_of, read_history
from albert_tf.utils.files import expand_globs, read_json_object
from studies.finished_runs import ScriptRuns
from studies.intervals import Interval, difference_over_seeds, paired_bootstrap, paired_difference_over_seeds
from studies.neighbour_baseline import NeighbourBaseline, neighbour_baseline
from studies.planning import PlannedRun, Trial
from studies.sizes import compute_parameters
from studies.study import COLUMNS

MASKED_LM_ACCURACY, MASKED_LM_LOSS = "masked_lm_accuracy", "masked_lm_loss"


@dataclasses.dataclass(frozen=True)
class Row:
    """The measured values of a configuration.

    Args:
      label: label of the configuration.
      config: config of the model.
      values: values by column, then by seed, in the unit of the table.
      credits: scores of single examples by column, then by seed, [examples] each.
      models: directories of the pre-trained models by seed.
      minutes: minutes of pre-training by seed.
      masked_lm_losses: masked-LM losses by seed.
      baseline: baselines of the records; None before the first seed has finished.
    """

    label: str
    config: AlbertConfig
    values: dict[str, dict[int, float]]
    credits: dict[str, dict[int, np.ndarray]]
    models: dict[int, str]
    minutes: dict[int, float]
    masked_lm_losses: dict[int, float]
    baseline: NeighbourBaseline | None

    @property
    def is_on_plateau(self) -> bool:
        """Whether neighbouring tokens explain the mean masked-LM loss (see docs/pretraining.md)."""
        return self.baseline is not None and self.baseline.explains(statistics.mean(self.masked_lm_losses.values()))


def collect(trials: list[Trial], finished: ScriptRuns, columns: list[str]) -> list[Row]:
    """The rows of the configurations in their order, with the values of the trials that have finished."""
    return [_row(label, [trial for trial in trials if trial.label == label], finished, columns)
            for label in dict.fromkeys(trial.label for trial in trials)]


def compare(row: Row, other: Row, column: str) -> Interval | None:
    """The difference of two rows (row minus other), or None if one of them has no results.

    The interval is over seeds, or by paired bootstrap if both answered the same examples, whichever is wider: the first
    describes other seeds, the second other examples. Over seeds, the values are paired if both rows have measured the
    same pre-trained models: what these models have in common is then no part of the error. A row with a single seed has
    no interval, since nothing is known about other seeds.
    """
    a, b = row.values[column], other.values[column]
    if not (a and b):
        return None
    if set(a) == set(b) and row.models == other.models:
        over_seeds = paired_difference_over_seeds(list(a.values()), [b[seed] for seed in a])
    else:
        over_seeds = difference_over_seeds(list(a.values()), list(b.values()))
    if math.isnan(over_seeds.low) or not (row.credits[column] and other.credits[column]):
        return over_seeds
    over_examples = paired_bootstrap(*(np.stack(list(of.credits[column].values())) for of in (row, other)))
    return max(over_seeds, over_examples, key=lambda interval: interval.high - interval.low)


def training_flops(run: PlannedRun, config: AlbertConfig) -> float:
    """Operations of a pre-training run, by the formula of sizes.py with logits for masked tokens only."""
    tokens, predictions = run.flags["max_seq_length"], run.flags["max_predictions_per_seq"]
    examples = run.flags["num_train_steps"] * run.flags["train_batch_size"]
    return 6 * compute_parameters(config, predictions / tokens) * tokens * examples


def _row(label: str, trials: list[Trial], finished: ScriptRuns, columns: list[str]) -> Row:
    values: dict[str, dict[int, float]] = {column: {} for column in columns}
    answers: dict[str, dict[int, np.ndarray]] = {column: {} for column in columns}
    minutes, losses, baseline = {}, {}, None
    for trial in trials:
        for column in columns:
            run, key = trial.runs[COLUMNS[column].run], COLUMNS[column].key
            if _seconds(finished, run) is None:
                continue
            results = _results(run)
            if key in results:  # a model without a sentence objective has no accuracy of it
                values[column][trial.seed] = COLUMNS[column].scale * results[key]
            of_examples = credits(run)
            if of_examples is not None:
                answers[column][trial.seed] = of_examples
        pretraining = trial.runs["pretraining"]
        seconds = _seconds(finished, pretraining)
        if seconds is not None:
            minutes[trial.seed] = seconds / 60
            losses[trial.seed] = _results(pretraining)[MASKED_LM_LOSS]
            baseline = _baseline(trial)
    models = {trial.seed: trial.runs["pretraining"].directory for trial in trials}
    return Row(label, trials[0].config, values, answers, models, minutes, losses, baseline)


def _results(run: PlannedRun) -> dict[str, float]:
    """The results of a run; of pre-training, those of the best evaluation, from whose weights other runs start."""
    if run.script != "run_pretraining":
        return read_json_object(run.results_file)
    best = best_of(read_history(run.directory, MASKED_LM_ACCURACY), MASKED_LM_ACCURACY)
    assert best is not None  # a finished run has been evaluated
    return best


def _seconds(finished: ScriptRuns, run: PlannedRun) -> float | None:
    return finished.seconds(run.script, **run.flags)


def _baseline(trial: Trial) -> NeighbourBaseline:
    """The baseline of the first of the records that are trained on, and of those that are evaluated."""
    training, evaluation = trial.runs["pretraining"].flags["input_file"], trial.runs["dev_records"].flags
    first = training if isinstance(training, str) else training[0]
    made_by = {run.flags.get("output_file"): run.flags for run in trial.runs.values()}
    both = (first, made_by.get(first, evaluation)), (evaluation["output_file"], evaluation)
    return _baseline_of_records(trial.config.vocab_size, *(
        (paths, flags["max_seq_length"], flags["max_predictions_per_seq"]) for paths, flags in both))


@functools.lru_cache(maxsize=None)  # configurations share records, and results are collected after each trial
def _baseline_of_records(vocab_size: int, *records: tuple[str, int, int]) -> NeighbourBaseline:
    return neighbour_baseline(*(reading.open_records(expand_globs(paths), length, predictions, vocab_size)
                                for paths, length, predictions in records), vocab_size)


# --- the answers of a run to each example, so that two models can be compared in pairs on the same examples ----------


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
