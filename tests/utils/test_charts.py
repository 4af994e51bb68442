"""Line charts: what is drawn, and the file."""

import math
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from albert_tf.utils.charts import Curve, Panel, figure, matrix_figure, write_charts


def lines(panel):
    """The points of the lines in a panel, by id in the SVG."""
    axes, = figure([panel]).axes
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    return {line.get_gid(): line.get_xydata().tolist() for line in axes.lines}


def test_the_marked_point_is_drawn_a_second_time_and_points_that_are_not_finite_are_left_out():
    drawn = lines(Panel("loss", [Curve([(0, 3.0), (1, math.nan), (2, math.inf), (5, 2.0), (10, 1.0)], marked_x=10)]))
    assert drawn == {"panel_1_line_1": [[0, 3], [5, 2], [10, 1]], None: [[10, 1]]}
    assert lines(Panel("loss", [Curve([(0, 1.0), (2, 2.0)])])) == {"panel_1_line_1": [[0, 1], [2, 2]], None: []}


def test_points_that_are_not_joined_have_error_bars_and_names_for_x():
    curve = Curve([(0, 1.0), (1, 2.0)], "seeds", errors=[0.5, math.nan], is_joined=False)
    axes, = figure([Panel("accuracy", [curve], x_labels=["E < 64", "E 128"])]).axes
    assert axes.lines[0].get_linestyle() == "None" and axes.lines[0].get_gid() == "panel_1_points_1"
    bars, = axes.collections
    assert [segment.tolist() for segment in bars.get_segments()] == [[[0, 0.5], [0, 1.5]], [[1, 2], [1, 2]]]
    assert [label.get_text().strip() for label in axes.get_xticklabels()] == ["E < 64", "E 128"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["seeds"]


def test_a_matrix_has_its_rows_from_the_top_and_a_cell_the_color_of_its_share_of_the_row():
    axes, = matrix_figure(np.array([[3, 1], [0, 0]]), ["a", "b"]).axes
    assert {text.get_text(): text.get_position() for text in axes.texts[:2]} == {"3": (0.5, 0.5), "1": (1.5, 0.5)}
    assert axes.yaxis_inverted() and [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.collections[0].get_array().ravel().tolist() == [0.75, 0.25, 0, 0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted label", "correct label")


def test_without_matplotlib_a_warning_takes_the_place_of_the_chart(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_charts(str(tmp_path / "a.svg"), [Panel("loss", [], "steps")])
    assert not list(tmp_path.iterdir())
    assert "a.svg was not written: a chart needs the package matplotlib" in caplog.text


@pytest.mark.parametrize("curves", [[], [Curve([(0, 1.0), (7, 2.0)], "a < b")]])
def test_the_file_is_the_same_for_the_same_panels(tmp_path, curves):
    for name in ("one.svg", "two.svg"):
        write_charts(str(tmp_path / name), [Panel("loss", curves, "steps")])
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    ElementTree.fromstring(text)  # well-formed
    assert ">loss</text>" in text and ">steps</text>" in text and (">a &lt; b</text>" in text) == bool(curves)
