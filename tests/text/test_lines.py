"""Lines of text files: whole ones, byte ranges of them, and compressed ones."""

import bz2
import gzip

import pytest

from albert_tf.text.lines import read_lines

TEXT = "one\r\ntwo\n\nthree\u2028four\n\xe4\r\nlast".encode()
LINES = ["one", "two", "", "three\u2028four", "\xe4", "last"]


@pytest.fixture
def file(tmp_path):
    """file(name, content) writes a file and returns its path."""

    def file(name, content):
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return file


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize("content", [TEXT, TEXT + b"\n"])
def test_ranges_that_follow_each_other_have_every_line_once(file, step, content):
    path = file("text.txt", content)
    ranges = [(start, start + step) for start in range(0, len(content), step)]
    assert [line for start, stop in ranges for line in read_lines(path, start, stop)] == LINES == list(read_lines(path))


@pytest.mark.parametrize("name, compress", [("text.txt.gz", gzip.compress), ("text.bz2", bz2.compress)])
def test_a_compressed_file_has_the_lines_of_its_text(file, name, compress):
    assert list(read_lines(file(name, compress(TEXT)))) == LINES
    # Two files one after the other are one, as for gzip and bzip2 themselves.
    assert list(read_lines(file(name, compress(TEXT + b"\n") + compress(TEXT)))) == LINES + LINES


@pytest.mark.parametrize("name, compress", [("text.txt.gz", gzip.compress), ("text.bz2", bz2.compress)])
@pytest.mark.parametrize("damage", [lambda content: content[:-6], lambda content: b"plain text\n",
                                    lambda content: content[:20] + b"xxxxx" + content[25:]])
def test_a_damaged_compressed_file_is_named(file, name, compress, damage):
    path = file(name, damage(compress(TEXT)))
    with pytest.raises(ValueError, match=f"{name} is truncated, damaged or not compressed as its extension says"):
        list(read_lines(path))


@pytest.mark.parametrize("start", [0, 3, 8, 9])
def test_the_line_that_is_not_utf8_is_named_wherever_its_range_begins(file, start):
    path = file("text.txt", b"fine\nok\nnot \xff fine\n" if start < 9 else b"fine\r\nok\n\nnot \xff fine\n")
    with pytest.raises(ValueError, match=f"text.txt line {3 if start < 9 else 4}: not UTF-8"):
        list(read_lines(path, start))
