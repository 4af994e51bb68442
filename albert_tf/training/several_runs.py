"""Summarizes runs with different seeds: the median of each result (as in the paper for GLUE), range and deviation."""

from __future__ import annotations

import json
import math
import os
import reprlib
import statistics

import tensorflow as tf
from absl import logging

from albert_tf.files import write_text
from albert_tf.json_files import read_json_object
from albert_tf.training.checkpoints import best_or_latest
from albert_tf.training.evaluation import best_of, logged_names, read_history, write_results

_RUNS = "eval_runs.json"


def write_summary(directory: str, runs: dict[int, str], best_metric: str) -> None:
    """Writes the medians over all runs to eval_results.txt and .json, and a summary to eval_runs.json.

    The summary has the best run, the best results of each seed, and for each result the median, the lowest and highest
    value and the standard deviation.

    Args:
      directory: folder of the files.
      runs: the directory of each seed. Runs without an evaluation are ignored.
      best_metric: the result that decides which run, and which step of a run, is the best; higher is better.
    """
    bests = {seed: best_of(read_history(run, best_metric), best_metric) for seed, run in runs.items()}
    evaluated = {seed: results for seed, results in bests.items() if results}
    if not evaluated:
        return
    best = max(evaluated, key=lambda seed: evaluated[seed][best_metric])
    names = [name for name in evaluated[best] if name != "global_step"]
    statistics_of = {name: _statistics([results[name] for results in evaluated.values()]) for name in names}
    for name in logged_names(statistics_of):
        over_runs = statistics_of[name]
        logging.info("%s: median %.4f of %d runs, %.4f to %.4f, standard deviation %.4f", name, over_runs["median"],
                     len(evaluated), over_runs["lowest"], over_runs["highest"], over_runs["standard_deviation"])
    write_results(directory, {name: over_runs["median"] for name, over_runs in statistics_of.items()})
    content = dict(best_run=os.path.basename(runs[best]), seeds=evaluated, over_runs=statistics_of)
    write_text(os.path.join(directory, _RUNS), json.dumps(content, indent=2) + "\n")


def best_run(directory: str) -> str:
    """The directory of the best of several runs; the directory itself if it is that of a single run.

    If none of several runs was evaluated, it is the first one that has a checkpoint.
    """
    path = os.path.join(directory, _RUNS)
    if not tf.io.gfile.exists(path):
        runs = [] if best_or_latest(directory) else sorted(tf.io.gfile.glob(os.path.join(directory, "seed_*")))
        return next(filter(best_or_latest, runs), directory)
    best = read_json_object(path).get("best_run")
    if not isinstance(best, str) or os.path.basename(best) != best or best in ("", ".", ".."):
        raise ValueError(f"{path}: best_run must be the name of a folder next to it. Received: {reprlib.repr(best)}")
    return os.path.join(directory, best)


def _statistics(values: list[float]) -> dict[str, float]:
    deviation = 0.0 if len(values) == 1 else statistics.stdev(values) if math.isfinite(sum(values)) else math.nan
    return dict(median=statistics.median(values), lowest=min(values), highest=max(values),
                standard_deviation=deviation)
