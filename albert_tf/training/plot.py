"""Draws a chart of a run's evaluations: the metric that decides on the best checkpoint, and the loss, by step."""

from __future__ import annotations

import os

from albert_tf.training.evaluation import best_of, read_history
from albert_tf.utils.line_charts import Curve, Panel, write_charts

PLOT = "eval_history.svg"


def write_plot(directory: str, best_metric: str) -> None:
    """Draws a directory's eval_history.jsonl as eval_history.svg and marks the best step.

    Args:
      directory: directory of a run.
      best_metric: the metric in the upper panel. The lower panel has the loss, if the results have one.
    """
    history = sorted(read_history(directory, best_metric), key=lambda row: row["global_step"])
    names = [name for name in dict.fromkeys([best_metric, "loss"]) if history and name in history[0]]
    best = best_of(history, best_metric)
    best_step = best["global_step"] if best else None
    panels = [Panel(name, [Curve([(row["global_step"], row[name]) for row in history], marked_x=best_step)], "steps")
              for name in names]
    write_charts(os.path.join(directory, PLOT), panels)
