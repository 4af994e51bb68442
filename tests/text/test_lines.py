"""Lines of text files, and the sentences in them."""

import bz2
import gzip

import pytest

from albert_tf.text import lines
from albert_tf.text.lines import check_splitting, read_lines, split_lines

TEXT = "\ufeffone\r\ntwo\n\nthree\u2028four\n\xe4\r\nfive\rsix\r\rseven\r\r\nlast".encode()
LINES = ["one", "two", "", "three\u2028four", "\xe4", "five", "six", "", "seven", "last"]


@pytest.fixture
def file(tmp_path):
    """file(name, content) writes a file and returns its path."""

    def file(name, content):
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return file


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize("content", [TEXT, TEXT + b"\n", TEXT + b"\r"])
def test_ranges_that_follow_each_other_have_every_line_once(file, step, content):
    path = file("text.txt", content)
    ranges = [(start, start + step) for start in range(0, len(content), step)]
    assert [line for start, stop in ranges for line in read_lines(path, start, stop)] == LINES == list(read_lines(path))


@pytest.mark.parametrize("name, compress", [("text.txt.gz", gzip.compress), ("text.bz2", bz2.compress)])
def test_a_compressed_file_has_the_lines_of_its_text_and_is_named_if_it_is_damaged(file, name, compress):
    content = compress(TEXT)
    assert list(read_lines(file(name, content))) == LINES
    # Two files one after the other are one, as for gzip and bzip2 themselves.
    assert list(read_lines(file(name, compress(TEXT + b"\n") + content))) == LINES + ["\ufeffone", *LINES[1:]]
    for damaged in (content[:-6], b"plain text\n", content[:20] + b"xxxxx" + content[25:]):
        with pytest.raises(ValueError, match=name):
            list(read_lines(file(name, damaged)))


@pytest.mark.parametrize("start", [0, 3, 8, 9])
def test_the_line_that_is_not_utf8_is_named_wherever_its_range_begins(file, start):
    path = file("text.txt", b"fine\rok\nnot \xff fine\n" if start < 9 else b"fine\r\nok\n\nnot \xff fine\n")
    with pytest.raises(ValueError, match=f"text.txt line {3 if start < 9 else 4}: not UTF-8"):
        list(read_lines(path, start))


@pytest.mark.parametrize("language, line, sentences", [
    ("en", "It rained. Dr. Wu left at 5 p.m. on Monday. It cost $3.50!", [
        "It rained.", "Dr. Wu left at 5 p.m. on Monday.", "It cost $3.50!"]),
    ("de", "Am 3. Mai kam Dr. Meier nach Bonn. Er ging.", ["Am 3. Mai kam Dr. Meier nach Bonn.", "Er ging."]),
    ("zh", "\u4f60\u597d\u3002\u6211\u5f88\u597d\uff01", ["\u4f60\u597d\u3002", "\u6211\u5f88\u597d\uff01"]),
    ("en", "No end", ["No end"]), ("en", "Two.   Spaces.  ", ["Two.", "Spaces."]), ("en", "", [""]),
    ("en", 'He looked up. "It is late," he said. He was tired. "Yes," she said.', [  # straight quotation marks
        "He looked up.", '"It is late," he said.', "He was tired.", '"Yes," she said.'])])
def test_lines_become_sentences_and_empty_lines_stay(language, line, sentences):
    pytest.importorskip("sentencex")
    assert list(split_lines([line], language)) == sentences


def test_an_apostrophe_without_a_counterpart_does_not_make_a_sentence_of_pages():
    pytest.importorskip("sentencex")
    turns = 'She sat down. "It is late," he told her. ' * 40
    line = f"He said, 'Give 'em here. {turns}So they parted, 'as ever.'"
    sentences = list(split_lines([line], "en"))
    assert sentences[1:5] == ["She sat down.", '"It is late," he told her.'] * 2
    assert max(map(len, sentences)) < 100
    assert "".join(sentences).replace(" ", "") == line.replace(" ", "")  # nothing is lost


@pytest.mark.parametrize("language", ["", "True", "english!", "EN", "e"])
def test_a_wrong_language_is_named(language):
    with pytest.raises(ValueError, match=f"Received: '{language}'"):
        check_splitting(language)


@pytest.mark.parametrize("name, compress", [("text.txt", bytes), ("text.txt.gz", gzip.compress)])
def test_a_line_without_an_end_is_not_read_as_a_whole(file, monkeypatch, name, compress):
    monkeypatch.setattr(lines, "_MOST_BYTES", 10)
    assert list(read_lines(file(name, compress(b"123456789\n1234567890")))) == ["123456789", "1234567890"]
    path = file(name, compress(b"one\rtwo\nthree\n" + b"x" * 1000))
    for start in (0, 5) if name == "text.txt" else (0,):
        with pytest.raises(ValueError, match=f"{name} line 4 has more than 10 bytes"):
            list(read_lines(path, start, 2000))
