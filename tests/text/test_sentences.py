"""Lines of text as sentences."""

import sys

import pytest

from albert_tf.pretraining.examples import CreationOptions, MaskingOptions, SegmentOptions
from albert_tf.text.lines import check_splitting, split_lines


@pytest.mark.parametrize("language, line, sentences", [
    ("en", "It rained. Dr. Wu left at 5 p.m. on Monday. It cost $3.50!", [
        "It rained.", "Dr. Wu left at 5 p.m. on Monday.", "It cost $3.50!"]),
    ("de", "Am 3. Mai kam Dr. Meier nach Bonn. Er ging.", ["Am 3. Mai kam Dr. Meier nach Bonn.", "Er ging."]),
    ("zh", "\u4f60\u597d\u3002\u6211\u5f88\u597d\uff01", ["\u4f60\u597d\u3002", "\u6211\u5f88\u597d\uff01"]),
    ("en", "No end", ["No end"]),
    ("en", "Two.   Spaces.  ", ["Two.", "Spaces."]),
])
def test_lines_become_sentences(language, line, sentences):
    pytest.importorskip("sentencex")
    assert list(split_lines([line], language)) == sentences


def test_straight_quotation_marks_have_a_direction():
    pytest.importorskip("sentencex")
    line = 'He looked up. "It is late," he said. He was tired. "Yes," she said.'
    assert list(split_lines([line], "en")) == [
        "He looked up.", '"It is late," he said.', "He was tired.", '"Yes," she said.']


def test_an_apostrophe_without_a_counterpart_does_not_make_a_sentence_of_pages():
    pytest.importorskip("sentencex")
    turns = 'She sat down. "It is late," he told her. ' * 40
    line = f"He said, 'Give 'em here. {turns}So they parted, 'as ever.'"
    sentences = list(split_lines([line], "en"))
    assert sentences[1:5] == ["She sat down.", '"It is late," he told her.'] * 2
    assert max(map(len, sentences)) < 100
    assert "".join(sentences).replace(" ", "") == line.replace(" ", "")  # nothing is lost


def test_an_empty_line_still_ends_a_document():
    pytest.importorskip("sentencex")
    assert list(split_lines(["A. B.", "", "", "C."], "en")) == ["A. B.", "", "", "C."]


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(ValueError, match="split_lines needs the package sentencex, .*: pip install sentencex"):
        CreationOptions(SegmentOptions(32, 0.1), MaskingOptions(5), 1, 1, "en")
    CreationOptions(SegmentOptions(32, 0.1), MaskingOptions(5), 1, 1)  # not needed without split_lines


@pytest.mark.parametrize("language", ["", "True", "english!", "EN", "e"])
def test_a_wrong_language_is_named(language):
    with pytest.raises(ValueError, match="must be the code of the text's language, such as en or zh. Received: '"):
        check_splitting(language)
