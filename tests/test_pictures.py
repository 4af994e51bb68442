"""The pictures of the pages are those that docs/draw.py draws from the configs and the measured values."""

import importlib.util
import xml.etree.ElementTree

import pytest
from script_session import REPOSITORY

from albert_tf.config import AlbertConfig

_SPEC = importlib.util.spec_from_file_location("draw", REPOSITORY / "docs/draw.py")
draw = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(draw)


@pytest.mark.parametrize("name", draw.PICTURES)
def test_a_picture_is_current(name):
    drawn = str(draw.PICTURES[name]())
    xml.etree.ElementTree.fromstring(drawn)
    assert (REPOSITORY / f"docs/pictures/{name}.svg").read_text("utf-8") == drawn, "run `python docs/draw.py`"


@pytest.mark.parametrize("name, expected", [
    ("albert_base_v2", 11_683_584), ("albert_large_v2", 17_683_968), ("albert_xlarge_v2", 58_724_864),
    ("albert_xxlarge_v2", 222_595_584), ("bert_base", 109_081_344), ("bert_large", 334_607_360)])
def test_the_numbers_of_parameters_are_known(name, expected):
    assert draw.number_of_parameters(AlbertConfig.preset(name)) == expected
