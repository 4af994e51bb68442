"""Writes line charts as SVG: panels, one below the other, each with its curves and axes."""

from __future__ import annotations

import dataclasses
import html
import math
from typing import Sequence

from albert_tf.utils.writing import write_text

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 640, 180, 90, 30, 60
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


@dataclasses.dataclass(frozen=True)
class Curve:
    """A curve of points. A point whose y is not finite is left out.

    Args:
      points: (x, y) of each point.
      name: name in the legend; "" for no entry.
      errors: half the length of each point's error bar; empty for no error bars.
      marked_x: x of a point that is drawn larger; None for none.
      is_joined: whether to draw a line through the points.
    """

    points: Sequence[tuple[float, float]]
    name: str = ""
    errors: Sequence[float] = ()
    marked_x: float | None = None
    is_joined: bool = True


@dataclasses.dataclass(frozen=True)
class Panel:
    """Curves with common axes.

    Args:
      title: quantity of the y axis.
      curves: the curves, at least one.
      x_name: quantity of the x axis.
      x_labels: labels at x = 0, 1, ...; if empty, the axis shows its smallest and largest number.
    """

    title: str
    curves: Sequence[Curve]
    x_name: str = ""
    x_labels: Sequence[str] = ()


def write_charts(path: str, panels: Sequence[Panel]) -> None:
    """Writes the panels to an SVG file."""
    size = f'width="{_WIDTH + 2 * _LEFT}" height="{_TOP + len(panels) * (_HEIGHT + _GAP)}"'
    content = "".join(_panel(panel, _TOP + i * (_HEIGHT + _GAP)) for i, panel in enumerate(panels))
    write_text(path, f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n'
                     f'<rect width="100%" height="100%" fill="white"/>\n{content}</svg>\n')


def _panel(panel: Panel, top: int) -> str:
    bottom, right = top + _HEIGHT, _LEFT + _WIDTH
    bars = [bar for curve in panel.curves for bar in _bars(curve)]
    xs = [x for x, _, _ in bars] or [0.0]
    ys = [end for _, y, error in bars for end in (y - error, y + error)] or [0.0]
    curves = []
    for curve, color in zip(panel.curves, _COLORS * len(panel.curves)):
        places = [(x, _along(x, xs, _LEFT, right), *(_along(end, ys, bottom, top) for end in (y, y - error, y + error)))
                  for x, y, error in _bars(curve)]
        curves.append(_curve(curve, color, places))
    legend = "  ".join(f'<tspan fill="{color}">{html.escape(curve.name)}</tspan>'
                       for curve, color in zip(panel.curves, _COLORS * len(panel.curves)) if curve.name)
    return (_text(_LEFT, top - 10, "start", panel.title)
            + (f'<text x="{right}" y="{top - 10}" text-anchor="end">{legend}</text>\n' if legend else "")
            + f'<path d="M{_LEFT} {top}V{bottom}H{right}" fill="none" stroke="black"/>\n'
            + _text(_LEFT - 6, top + 4, "end", f"{max(ys):.4g}") + _text(_LEFT - 6, bottom, "end", f"{min(ys):.4g}")
            + _x_axis(panel, xs, bottom) + "".join(curves))


def _bars(curve: Curve) -> list[tuple[float, float, float]]:
    """x, y and error of the points that are drawn."""
    errors = curve.errors or [0.0] * len(curve.points)
    return [(x, y, error if math.isfinite(error) else 0.0) for (x, y), error in zip(curve.points, errors)
            if math.isfinite(y)]


def _curve(curve: Curve, color: str, places: list[tuple]) -> str:
    """The SVG of a curve. Each of `places` has x, and in pixels x, y and the two ends of the error bar."""
    line = " ".join(f"{left:.1f},{y:.1f}" for _, left, y, _, _ in places)
    return ((f'<polyline points="{line}" fill="none" stroke="{color}"/>\n' if curve.is_joined else "")
            + "".join(f'<path d="M{left:.1f} {low:.1f}V{high:.1f}" stroke="{color}"/>\n'
                      for _, left, _, low, high in places if low != high)
            + "".join(f'<circle cx="{left:.1f}" cy="{y:.1f}" r="{5 if x == curve.marked_x else 2.5}" fill="{color}"/>\n'
                      for x, left, y, _, _ in places))


def _x_axis(panel: Panel, xs: Sequence[float], bottom: int) -> str:
    right = _LEFT + _WIDTH
    if panel.x_labels:  # on two lines in turn, so that long labels do not overlap
        return "".join(_text(_along(x, xs, _LEFT, right), bottom + 16 + 14 * (int(x) % 2), "middle",
                             panel.x_labels[int(x)]) for x in sorted(set(xs)))
    return (_text(_LEFT, bottom + 16, "middle", f"{min(xs):g}")
            + _text(right, bottom + 16, "middle", f"{max(xs):g} {panel.x_name}".rstrip()))


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.4g}" y="{y:.4g}" text-anchor="{anchor}">{html.escape(text)}</text>\n'


def _along(value: float, values: Sequence[float], start: float, end: float) -> float:
    """The pixel of a value. The smallest of `values` is at `start`, the largest at `end`."""
    extent = max(values) - min(values)
    return start + (end - start) * ((value - min(values)) / extent if extent else 0.5)
