"""A picture of a run's evaluations: the metric that chooses the best checkpoint, and the loss, against the step."""

from __future__ import annotations

import math
import os

from albert_tf.files import write_text
from albert_tf.training.evaluation import best_of, read_history

PLOT = "eval_history.svg"
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 640, 180, 70, 30, 60


def write_plot(directory: str, best_metric: str) -> None:
    """Draws eval_history.jsonl of a directory as eval_history.svg; the best step is marked.

    Args:
      directory: of a run.
      best_metric: what is drawn above the loss, where the results have one.
    """
    history = sorted(read_history(directory, best_metric), key=lambda row: row["global_step"])
    names = [name for name in dict.fromkeys([best_metric, "loss"]) if history and name in history[0]]
    best = best_of(history, best_metric)
    best_step = best["global_step"] if best else None
    panels = [_panel(history, name, best_step, _TOP + i * (_HEIGHT + _GAP)) for i, name in enumerate(names)]
    size = f'width="{_WIDTH + 2 * _LEFT}" height="{_TOP + len(names) * (_HEIGHT + _GAP)}"'
    write_text(os.path.join(directory, PLOT),
               f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n'
               f'<rect width="100%" height="100%" fill="white"/>\n{"".join(panels)}</svg>\n')


def _panel(history: list[dict], name: str, best_step: float | None, top: int) -> str:
    """One curve with its axes."""
    points = [(row["global_step"], row[name]) for row in history if math.isfinite(row[name])]
    steps, values = [step for step, _ in points] or [0], [value for _, value in points] or [0.0]
    bottom, right = top + _HEIGHT, _LEFT + _WIDTH
    places = [(step, _along(step, steps, _LEFT, right), _along(value, values, bottom, top)) for step, value in points]
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{5 if step == best_step else 2.5}" fill="#1f77b4"/>\n'
                   for step, x, y in places)
    line = " ".join(f"{x:.1f},{y:.1f}" for _, x, y in places)
    return (_label(_LEFT, top - 10, "start", name)
            + f'<path d="M{_LEFT} {top}V{bottom}H{right}" fill="none" stroke="black"/>\n'
            + _label(_LEFT - 6, top + 4, "end", f"{max(values):.4g}")
            + _label(_LEFT - 6, bottom, "end", f"{min(values):.4g}")
            + _label(_LEFT, bottom + 16, "middle", f"{min(steps)}")
            + _label(right, bottom + 16, "middle", f"{max(steps)} steps")
            + f'<polyline points="{line}" fill="none" stroke="#1f77b4"/>\n' + dots)


def _label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>\n'


def _along(value: float, values: list[float], start: float, end: float) -> float:
    """Where a value lies between start (the lowest of values) and end (the highest)."""
    span = max(values) - min(values)
    return start + (end - start) * ((value - min(values)) / span if span else 0.5)
