"""The runs in a directory: finds them and the best one, and summarizes runs with different seeds.

The summary has the median of each result (as in the paper for GLUE), its range and its standard deviation.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
from typing import Iterable

import tensorflow as tf
from absl import logging

from albert_tf.training.checkpoints import best_or_latest
from albert_tf.training.evaluation import best_of, best_value, logged_names, read_history, write_results
from albert_tf.utils.counts import count_of
from albert_tf.utils.files import write_text


def saved_runs(directory: str) -> list[str]:
    """The runs in a directory that have a checkpoint: the directory itself, then its folders seed_N by number."""
    names = tf.io.gfile.listdir(directory) if tf.io.gfile.isdir(directory) else []
    matches = (re.fullmatch(r"seed_(\d+)/?", name) for name in names)
    seeds = sorted(int(match[1]) for match in matches if match)
    return [run for run in (directory, *(run_directory(directory, seed) for seed in seeds)) if best_or_latest(run)]


def run_directory(directory: str, seed: int) -> str:
    """The directory of a seed's run, if there are several runs in a directory."""
    return os.path.join(directory, f"seed_{seed}")


def checkpoint_of(directory: str) -> str | None:
    """The checkpoint of the best run in a directory: its model.ckpt-best or its latest one. None without a checkpoint.

    The best run has the highest value in best_trial.txt. If no run was evaluated, it is the first of `saved_runs`.

    Raises:
      ValueError: a best_trial.txt is damaged.
    """
    runs = saved_runs(directory)
    return best_or_latest(max(runs, key=best_value)) if runs else None


def write_summary(directory: str, runs: Iterable[str], best_metric: str) -> None:
    """Writes the medians over all runs to eval_results.txt and .json, and a summary to eval_runs.json.

    The summary has the best run, the best results of each seed, and for each result the median, the lowest and highest
    value and the standard deviation. A result that some runs lack, such as that of a data file that was added later, is
    that of the others.

    Args:
      directory: folder of the files.
      runs: the directories of the runs. A run without an evaluation, or in `directory` itself, is ignored.
      best_metric: the result that decides which run, and which step of a run, is the best; higher is better.
    """
    bests = {os.path.basename(run): best_of(read_history(run, best_metric), best_metric)
             for run in runs if run != directory}
    evaluated = {name: results for name, results in bests.items() if results}
    if not evaluated:
        return
    best = max(evaluated, key=lambda name: evaluated[name][best_metric])
    names = dict.fromkeys(name for results in (evaluated[best], *evaluated.values()) for name in results)
    values_of = {name: [results[name] for results in evaluated.values() if name in results]
                 for name in names if name != "global_step"}
    statistics_of = {name: _statistics(values) for name, values in values_of.items()}
    for name in logged_names(statistics_of):
        over_runs = statistics_of[name]
        logging.info("%s: median %.4f of %s, %.4f to %.4f, standard deviation %.4f", name, over_runs["median"],
                     count_of(len(values_of[name]), "run"), over_runs["lowest"], over_runs["highest"],
                     over_runs["standard_deviation"])
    write_results(directory, {name: over_runs["median"] for name, over_runs in statistics_of.items()})
    seeds = {name.removeprefix("seed_"): results for name, results in evaluated.items()}
    content = dict(best_run=best, seeds=seeds, over_runs=statistics_of)
    write_text(os.path.join(directory, "eval_runs.json"), json.dumps(content, indent=2) + "\n")


def _statistics(values: list[float]) -> dict[str, float]:
    deviation = 0.0 if len(values) == 1 else statistics.stdev(values) if math.isfinite(sum(values)) else math.nan
    return dict(median=statistics.median(values), lowest=min(values), highest=max(values),
                standard_deviation=deviation)
