"""Evaluates checkpoints, writes the results to files, and determines the best checkpoint."""

from __future__ import annotations

import json
import math
import os
import re
import statistics
from typing import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.training.checkpoints import copy_as_best
from albert_tf.training.config import RESULTS
from albert_tf.utils.charts import Curve, Panel, write_charts
from albert_tf.utils.files import names_in
from albert_tf.utils.outputs import locked, remove, write_text
from albert_tf.utils.progress import count_of
from albert_tf.weights.runs import BEST, HISTORY, or_lowest, saved_by_step, saved_step, stored_history

PLOT = "eval_history.svg"
BEST_TRIAL = "best_trial.txt"  # step:best_step:best_value, as in the release; it follows from the history
_PREDICTED = re.compile(r"(predict_results.*|(dev|test)_confusion_matrix.*)\.(txt|json|svg)")


class Evaluator:
    """Evaluates a run's model, step after step. Results are in eval_history.jsonl, the latest in eval_results.txt.

    Args:
      evaluate: function that evaluates the model's current weights and returns the results as a dict of floats.
      best_metric: the result that decides which checkpoint is the best; higher is better.
      save_best: function that saves the model as model.ckpt-best, in training.
      writes: whether this process writes files; only one of several workers does.
    """

    def __init__(self, directory: str, evaluate: Callable[[], dict[str, float]], best_metric: str,
                 save_best: Callable[[], None] = lambda: None, writes: bool = True):
        self._directory, self._writes = directory, writes
        self._evaluate, self._best_metric, self._save_best = evaluate, best_metric, save_best
        self._curves = tf.summary.create_file_writer(os.path.join(directory, "eval")) if writes else (
            tf.summary.create_noop_writer())
        self._history = {row["global_step"]: row for row in read_history(directory, best_metric)}  # by step
        if writes and self._history:
            self._write_best_trial()  # the run may have been killed before it did

    def has_evaluated(self, step: int) -> bool:
        """Whether the history has the results of a step."""
        return step in self._history

    @property
    def best(self) -> dict[str, float] | None:
        """The best results so far (see best_of)."""
        return best_of(self._history.values(), self._best_metric)

    @property
    def best_step(self) -> int:
        """The step of the best results; 0 if there are none."""
        best = self.best
        return int(best["global_step"]) if best else 0

    def log_best(self) -> None:
        """Logs the best results so far, and where all results are."""
        best = self.best
        if best is not None:
            logging.info("best of %s: step %d: %s; all are in %s", count_of(len(self._history), "evaluation"),
                         self.best_step, format_results(best), os.path.join(self._directory, HISTORY))
            if not self.best_step:
                logging.warning("no step was better than the initial weights, which %s has",
                                os.path.join(self._directory, BEST))

    def write_best(self) -> None:
        """Replaces the latest results in eval_results.txt by the best ones."""
        best = self.best
        if self._writes and best is not None:
            write_results(self._directory, best)

    def draw(self) -> None:
        """Draws the history as eval_history.svg: best_metric with its best step, and the loss."""
        history = read_history(self._directory, self._best_metric) if self._writes and self._history else []
        names = [name for name in dict.fromkeys([self._best_metric, "loss"]) if history and name in history[0]]
        best = best_of(history, self._best_metric)
        panels = [Panel(name, [Curve([(row["global_step"], row[name]) for row in history],
                                     marked_x=best["global_step"] if best else None)], "steps") for name in names]
        if panels:
            write_charts(os.path.join(self._directory, PLOT), panels)

    def __call__(self, step: int) -> None:
        """Evaluates a step of the run, adds its results to the history, and saves it if it is the best so far."""
        results = self._history[step] = self.report(step)
        if self.best_step == step:
            self._save_best()
        self._write_history([results])

    def evaluate_saved(self, load: Callable[[str, int], object]) -> None:
        """Evaluates the checkpoints in the directory, and then copies the best of them to model.ckpt-best.

        A checkpoint that cannot be loaded is skipped with a warning, and so is one that a training of the same run has
        removed or replaced meanwhile; its results stay in the history. A result that is better than the best one is
        removed from the history if its checkpoint did not exist or is damaged: it may be of other data. `load` loads a
        checkpoint, with a prefix and a step, into the model.
        """
        saved = saved_by_step(self._directory)
        evaluated: dict[int, dict[str, float]] = {}
        for step, prefix in saved.items():
            # A training may have removed the model.ckpt-STEP of the best step meanwhile.
            if self._loads(load, saved_by_step(self._directory).get(step, prefix), step):
                evaluated[step] = self.report(step)
        if not evaluated:
            raise ValueError(f"no checkpoint in {self._directory} can be read, so none was evaluated")
        self._history.update(evaluated)
        left, removed = saved_by_step(self._directory), []
        while self.best_step not in evaluated and (self.best_step in left or self.best_step not in saved):
            removed.append(self.best_step)
            del self._history[self.best_step]
        self._copy_best_of(saved, left, load)
        self._write_history(list(evaluated.values()), removed)

    def _copy_best_of(self, saved: dict[int, str], left: dict[int, str], load: Callable[[str, int], object]) -> None:
        """Copies the best of the checkpoints that are left, unless a training has saved a best one meanwhile."""
        best, prefix = os.path.join(self._directory, BEST), left.get(self.best_step)
        if tf.io.gfile.exists(f"{best}.index") and saved_step(best) not in saved:
            logging.warning("%s was saved meanwhile by a training of the same run, and is kept", best)
        elif prefix not in (best, None) and self._loads(load, prefix, self.best_step) and self._writes:
            try:
                copy_as_best(prefix)
            except (FileNotFoundError, tf.errors.NotFoundError):
                logging.warning("%s was removed meanwhile by a training of the same run; %s stays", prefix, best)

    def _loads(self, load: Callable[[str, int], object], prefix: str, step: int) -> bool:
        """Loads a checkpoint. Returns whether it could be loaded and is of the step."""
        try:
            load(prefix, step)
        except ValueError as error:
            logging.warning("%s; it is not evaluated", error)
            return False
        if os.path.basename(prefix) == BEST and saved_step(prefix) != step:
            logging.warning("%s was replaced meanwhile by a training of the same run; it is not evaluated", prefix)
            return False
        return True

    def report(self, step: int) -> dict[str, float]:
        """Evaluates the model's current weights and writes eval_results.txt."""
        results = dict(self._evaluate(), global_step=step)
        logging.info("step %d: %s", step, format_results(results))
        if self._writes:
            write_results(self._directory, results)
        return results

    def _write_history(self, evaluated: Sequence[dict[str, float]], removed: Sequence[int] = ()) -> None:
        """Adds rows to the file and removes the rows of some steps. Rows of other processes stay."""
        if not self._writes:
            return
        with locked(os.path.join(self._directory, "eval_history"), wait=True):
            rows = {row["global_step"]: row for row in read_history(self._directory, self._best_metric)}
            rows = {step: row for step, row in rows.items() if step not in removed}
            rows.update({row["global_step"]: row for row in evaluated})
            write_text(os.path.join(self._directory, HISTORY),
                       "".join(json.dumps(dict(rows[step], best_metric=self._best_metric)) + "\n"
                               for step in sorted(rows)))
            self._write_best_trial()
        for results in evaluated:
            with self._curves.as_default(step=results["global_step"]):
                for key in results.keys() - {"global_step"}:
                    tf.summary.scalar(key, results[key])
        self._curves.flush()

    def _write_best_trial(self) -> None:
        rows = read_history(self._directory, self._best_metric)
        best = best_of(rows, self._best_metric) or {}  # never empty: there are rows
        write_text(os.path.join(self._directory, BEST_TRIAL),
                   f"{rows[-1]['global_step']}:{best['global_step']}:{best[self._best_metric]}\n")


def write_results(directory: str, results: dict[str, float], name: str = RESULTS) -> None:
    """Writes eval_results.txt ("key = value") and eval_results.json, or the same with another name."""
    lines = "".join(f"{key} = {results[key]}\n" for key in sorted(results))
    write_text(os.path.join(directory, f"{name}.txt"), lines)
    write_text(os.path.join(directory, f"{name}.json"), json.dumps(results, indent=2, sort_keys=True) + "\n")


def report_predicted(output_dir: str, scores: dict[str, float], step: int, suffix: str = "") -> None:
    """Logs the scores of predictions, and writes them to predict_results.txt and .json."""
    logging.info("%s", format_results(scores))
    write_results(output_dir, dict(scores, global_step=step), f"predict_results{suffix}")


def remove_predicted(output_dir: str) -> None:
    """Removes the scores of earlier predictions, which may be those of another file."""
    for name in filter(_PREDICTED.fullmatch, names_in(output_dir)):
        remove(os.path.join(output_dir, name))


def best_of(history: Iterable[dict], best_metric: str) -> dict[str, float] | None:
    """The row with the highest best_metric, on a tie with the lowest loss, and then the first; None without rows."""
    return max(history, key=lambda row: (or_lowest(row[best_metric]), or_lowest(-row.get("loss", 0.0))), default=None)


def read_history(directory: str, best_metric: str) -> list[dict]:
    """The results of a run's evaluations so far, by step."""
    history = [row for _, row in stored_history(directory)]
    if not all(best_metric in row for row in history):
        raise ValueError(f"{os.path.join(directory, HISTORY)} has no {best_metric}: {directory} has the results of "
                         "another task, choose another --output_dir")
    return history


def logged_names(results: Iterable[str]) -> list[str]:
    """The results that are logged: not their step and, next to eval_loss, not the release's loss, which is equal."""
    names = list(results)
    left_out = {"global_step", "loss"} if "eval_loss" in names else {"global_step"}
    return [name for name in names if name not in left_out]


def format_results(results: dict[str, float]) -> str:
    """Results for a log line: names and values."""
    return ", ".join(f"{name} {results[name]:.4f}" for name in logged_names(results))


def write_summary(directory: str, runs: Iterable[str], best_metric: str) -> None:
    """Writes the medians over all runs to eval_results.txt and .json, and a summary to eval_runs.json.

    The summary has the best run, the best results of each seed, and for each result the median, the lowest and highest
    value and the standard deviation; all four are NaN if a run's value is. A result that some runs lack is computed
    from the others. A run without an evaluation, or in `directory` itself, is ignored.
    """
    bests = {os.path.basename(run): best_of(read_history(run, best_metric), best_metric)
             for run in runs if run != directory}
    evaluated = {name: results for name, results in bests.items() if results}
    if not evaluated:
        return
    best = max(evaluated, key=lambda name: or_lowest(evaluated[name][best_metric]))
    names = dict.fromkeys(name for results in (evaluated[best], *evaluated.values()) for name in results)
    values_of = {name: [results[name] for results in evaluated.values() if name in results]
                 for name in names if name != "global_step"}
    statistics_of = {}
    for name, values in values_of.items():
        deviation = 0.0 if len(values) == 1 else statistics.stdev(values) if math.isfinite(sum(values)) else math.nan
        # NumPy returns NaN if a value is NaN; the result of the standard library would depend on the order.
        statistics_of[name] = dict(median=float(np.median(values)), lowest=float(np.min(values)),
                                   highest=float(np.max(values)), standard_deviation=deviation)
    for name in logged_names(statistics_of):
        over_runs = statistics_of[name]
        logging.info("%s: median %.4f of %s, %.4f to %.4f, standard deviation %.4f", name, over_runs["median"],
                     count_of(len(values_of[name]), "run"), over_runs["lowest"], over_runs["highest"],
                     over_runs["standard_deviation"])
    write_results(directory, {name: over_runs["median"] for name, over_runs in statistics_of.items()})
    seeds = {name.removeprefix("seed_"): results for name, results in evaluated.items()}
    content = dict(best_run=best, seeds=seeds, over_runs=statistics_of)
    write_text(os.path.join(directory, "eval_runs.json"), json.dumps(content, indent=2) + "\n")
