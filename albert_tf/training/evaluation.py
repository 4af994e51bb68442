"""Evaluating checkpoints: the results as files, and which checkpoint is the best."""

from __future__ import annotations

import json
import os
from typing import Callable

import tensorflow as tf
from absl import logging

from albert_tf.files import write_text

RESULTS = "eval_results.txt"
HISTORY = "eval_history.jsonl"


class Evaluator:
    """Evaluates a run's model, step after step.

    Args:
      directory: gets eval_results.txt (the last results, "key = value"), eval_history.jsonl (all, a line each), and in
        eval/ curves for TensorBoard.
      evaluate: gives the results of the model as it is, as a dict of floats.
      best_metric: the key of which more is better.
      save_best: called when the results are the best so far.
      writes: whether this process writes: one of several does.
    """

    def __init__(self, directory: str, evaluate: Callable[[], dict[str, float]], best_metric: str,
                 save_best: Callable[[], None], writes: bool = True):
        self._directory, self._writes = directory, writes
        self._evaluate, self._best_metric, self._save_best = evaluate, best_metric, save_best
        self._curves = tf.summary.create_file_writer(os.path.join(directory, "eval")) if writes else None
        self._history = read_history(directory)

    def has_evaluated(self, step: int) -> bool:
        return any(row["global_step"] == step for row in self._history)

    def __call__(self, step: int) -> dict[str, float]:
        """Evaluates a step of the run: its results enter the history, and it may become the best."""
        results = self.report(step)
        others = [row for row in self._history if row["global_step"] != step]
        if all(results[self._best_metric] > row[self._best_metric] for row in others):
            self._save_best()
        self._history = [*others, results]
        if self._writes:
            self._write_history(results)
        return results

    def report(self, step: int) -> dict[str, float]:
        """Evaluates the model as it is, and writes eval_results.txt."""
        results = dict(self._evaluate(), global_step=step)
        shown = ", ".join(f"{key} {value:.4f}" for key, value in results.items() if key != "global_step")
        logging.info("step %d: %s", step, shown)
        if self._writes:
            lines = "".join(f"{key} = {results[key]}\n" for key in sorted(results))
            write_text(os.path.join(self._directory, RESULTS), lines)
        return results

    def _write_history(self, results: dict[str, float]) -> None:
        write_text(os.path.join(self._directory, HISTORY), "".join(json.dumps(row) + "\n" for row in self._history))
        with self._curves.as_default(step=results["global_step"]):
            for key in results.keys() - {"global_step"}:
                tf.summary.scalar(key, results[key])
        self._curves.flush()


def read_history(directory: str) -> list[dict]:
    """The results of a run's evaluations so far, oldest first."""
    path = os.path.join(directory, HISTORY)
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path) as file:
        return [json.loads(line) for line in file]
