"""Line charts: the elements and their positions."""

import math
import re
import xml.etree.ElementTree as ElementTree

from albert_tf.utils.line_charts import Curve, Panel, write_charts


def drawn(path, panels):
    write_charts(str(path), panels)
    text = path.read_text()
    ElementTree.fromstring(text)  # well-formed
    return text


def test_points_lie_between_the_ends_of_the_axes(tmp_path):
    text = drawn(tmp_path / "x.svg", [Panel("loss", [Curve([(0, 3.0), (5, 2.0), (10, 1.0)], marked_x=10)], "steps")])
    left, top, bottom, right = map(float, re.search(r'd="M(\S+) (\S+)V(\S+)H(\S+)"', text).groups())
    places = re.search('polyline points="(.*?)"', text).group(1)
    assert [tuple(map(float, place.split(","))) for place in places.split()] == [
        (left, top), ((left + right) / 2, (top + bottom) / 2), (right, bottom)]
    assert re.findall(r'r="([\d.]+)"', text) == ["2.5", "2.5", "5"]
    assert ">10 steps</text>" in text and ">loss</text>" in text


def test_points_that_are_not_finite_are_left_out(tmp_path):
    text = drawn(tmp_path / "x.svg", [Panel("loss", [Curve([(0, 1.0), (1, math.nan), (2, math.inf), (3, 2.0)])])])
    assert text.count("<circle") == 2 and "nan" not in text


def test_error_bars_and_named_places(tmp_path):
    curve = Curve([(0, 1.0), (1, 2.0)], errors=[0.5, 0.0], is_joined=False)
    text = drawn(tmp_path / "x.svg", [Panel("accuracy", [curve], x_labels=["E < 64", "E 128"])])
    assert "polyline" not in text and text.count(' stroke="#1f77b4"/>') == 1
    assert ">E &lt; 64</text>" in text and ">E 128</text>" in text


def test_an_empty_panel_is_drawn(tmp_path):
    assert "<path" in drawn(tmp_path / "x.svg", [Panel("loss", [])])
