"""The results of runs that differ in their seed alone: their median, as the paper has it for GLUE, and their spread."""

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
from albert_tf.training.evaluation import best_of, read_history, write_results

_RUNS = "eval_runs.json"


def write_summary(directory: str, runs: dict[int, str], best_metric: str) -> None:
    """Writes the medians over runs to eval_results.txt and .json, and to eval_runs.json all there is to know.

    That is: the best run, the best results of each seed, and of each result its median, lowest and highest value and
    standard deviation.

    Args:
      directory: gets the files.
      runs: the directory of each seed; of each run that was evaluated its best results count.
      best_metric: the result of which more is better.
    """
    bests = {seed: best_of(read_history(run, best_metric), best_metric) for seed, run in runs.items()}
    found = {seed: results for seed, results in bests.items() if results}
    if not found:
        return
    best = max(found, key=lambda seed: found[seed][best_metric])
    names = [name for name in found[best] if name != "global_step"]
    spread = {name: _spread([results[name] for results in found.values()]) for name in names}
    for name, of_runs in spread.items():
        logging.info("%s: median %.4f of %d runs, %.4f to %.4f, standard deviation %.4f", name, of_runs["median"],
                     len(found), of_runs["lowest"], of_runs["highest"], of_runs["standard_deviation"])
    write_results(directory, {name: of_runs["median"] for name, of_runs in spread.items()})
    content = dict(best_run=os.path.basename(runs[best]), seeds=found, over_runs=spread)
    write_text(os.path.join(directory, _RUNS), json.dumps(content, indent=2) + "\n")


def best_run(directory: str) -> str:
    """The directory of the best of several runs; the directory itself where it is that of a single one."""
    path = os.path.join(directory, _RUNS)
    if not tf.io.gfile.exists(path):
        return directory
    best = read_json_object(path).get("best_run")
    if not isinstance(best, str) or os.path.basename(best) != best or best in ("", ".", ".."):
        raise ValueError(f"{path}: best_run must be the name of a folder beside it. Received: {reprlib.repr(best)}")
    return os.path.join(directory, best)


def _spread(values: list[float]) -> dict[str, float]:
    deviation = 0.0 if len(values) == 1 else statistics.stdev(values) if math.isfinite(sum(values)) else math.nan
    return dict(median=statistics.median(values), lowest=min(values), highest=max(values),
                standard_deviation=deviation)
