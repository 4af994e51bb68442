"""Writes charts as SVG: panels of curves, one below the other, and confusion matrices."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Callable, Sequence

import numpy as np
from absl import logging

from albert_tf.utils.imports import check_installed
from albert_tf.utils.outputs import output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Text stays text, and the file depends on nothing but the panels.
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "albert_tf", "font.sans-serif": ["DejaVu Sans"]}
_MARKER, _LARGE_MARKER = 4, 9  # points


@dataclasses.dataclass(frozen=True)
class Curve:
    """A curve of points. Points without a finite y are left out."""

    points: Sequence[tuple[float, float]]
    name: str = ""  # in the legend; "" for no entry
    errors: Sequence[float] = ()  # half the length of each point's error bar; empty for no error bars
    marked_x: float | None = None  # x of a point that is drawn larger
    is_joined: bool = True


@dataclasses.dataclass(frozen=True)
class Panel:
    """Curves with common axes."""

    title: str  # quantity of the y axis
    curves: Sequence[Curve]
    x_name: str = ""  # quantity of the x axis. Its ticks are whole numbers
    x_labels: Sequence[str] = ()  # at x = 0, 1, ... instead of numbers


def write_charts(path: str, panels: Sequence[Panel]) -> None:
    """Writes the panels to an SVG file, which is the same for the same panels; without matplotlib, only a warning."""
    _write(path, lambda: figure(panels))


def write_confusion_matrix(path: str, counts: np.ndarray, names: Sequence[str]) -> None:
    """Writes counts by correct label (row) and predicted label (column) to an SVG file, as write_charts does."""
    _write(path, lambda: matrix_figure(counts, names))


def _write(path: str, draw: Callable[[], Figure]) -> None:
    try:
        check_installed("a chart", "matplotlib")
    except ValueError as error:  # a run does not fail for it after hours of training
        logging.warning("%s was not written: %s", path, error)
        return
    import matplotlib

    with matplotlib.rc_context(_STYLE), output(path) as temporary:
        draw().savefig(temporary, format="svg", metadata=dict(Date=None, Creator=None))


def figure(panels: Sequence[Panel]) -> Figure:
    """The panels as a figure of matplotlib."""
    from matplotlib.figure import Figure

    height = 0.3 + 2.6 * len(panels)  # inches; matplotlib's layouts take twice as long
    drawing = Figure(figsize=(8, height))
    drawing.subplots_adjust(left=0.1, right=0.97, bottom=0.6 / height, top=1 - 0.3 / height, hspace=0.5)
    for number, (axes, panel) in enumerate(zip(drawing.subplots(len(panels), squeeze=False)[:, 0], panels), start=1):
        _draw(axes, panel, f"panel_{number}")
    return drawing


def matrix_figure(counts: np.ndarray, names: Sequence[str]) -> Figure:
    """Counts [labels, labels] as a figure of matplotlib. The color of a cell is its share of its row."""
    from matplotlib.figure import Figure

    indices, size = range(len(names)), 2.5 + 0.5 * len(names)  # inches
    drawing = Figure(figsize=(size, size), layout="constrained")
    axes = drawing.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.pcolormesh(shares, cmap="Blues", vmin=0, vmax=1, edgecolors="white")
    for row, column in np.ndindex(counts.shape):
        axes.text(column + 0.5, row + 0.5, str(counts[row, column]), ha="center", va="center",
                  color="white" if shares[row, column] > 0.5 else "black")
    axes.set(xlabel="predicted label", ylabel="correct label", aspect="equal")
    axes.set_xticks([index + 0.5 for index in indices], names, rotation=90 if max(map(len, names)) > 6 else 0)
    axes.set_yticks([index + 0.5 for index in indices], names)
    axes.invert_yaxis()
    return drawing


def _draw(axes: Axes, panel: Panel, element: str) -> None:
    """Draws a panel. In the SVG, the lines have ids that begin with the name of its element."""
    axes.set_title(panel.title, loc="left", fontsize="medium")
    axes.set_xlabel(panel.x_name)
    for number, curve in enumerate(panel.curves, start=1):
        drawn = [i for i, (_, y) in enumerate(curve.points) if math.isfinite(y)]
        xs, ys = ([curve.points[i][axis] for i in drawn] for axis in (0, 1))
        errors = [curve.errors[i] if math.isfinite(curve.errors[i]) else 0.0 for i in drawn] if curve.errors else None
        bars = axes.errorbar(xs, ys, errors, fmt="o-" if curve.is_joined else "o", markersize=_MARKER, linewidth=1,
                             label=curve.name)
        bars[0].set_gid(f"{element}_{'line' if curve.is_joined else 'points'}_{number}")
        marked = [(x, y) for x, y in zip(xs, ys) if x == curve.marked_x]
        axes.plot(*zip(*marked) if marked else ((), ()), "o", markersize=_LARGE_MARKER, color=bars[0].get_color())
    if any(curve.name for curve in panel.curves):
        axes.legend(frameon=False)
    if panel.x_labels:  # on two lines in turn, so that long labels do not overlap
        axes.set_xticks(range(len(panel.x_labels)), [i % 2 * "\n" + label for i, label in enumerate(panel.x_labels)])
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
