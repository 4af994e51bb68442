"""Numbers of things in messages."""

import pathlib
import re

import pytest

from albert_tf.utils.progress import count_of

REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("number, text", [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1024, "1,024 files")])
def test_a_count_has_the_singular_or_the_plural(number, text):
    assert count_of(number, "file") == text


def test_a_plural_may_be_irregular():
    assert (count_of(1, "query", "queries"), count_of(2, "query", "queries")) == ("1 query", "2 queries")


def test_no_message_leaves_the_plural_to_the_reader():
    """"1 file(s)" and "%d text files" that are 1."""
    pattern = re.compile(r"[a-z]\(s\)|%d (?:text|record) files")
    sources = [path for folder in ("albert_tf", "demo", "studies") for path in (REPOSITORY / folder).rglob("*.py")]
    wrong = [f"{path}: {line}" for path in [*sources, *REPOSITORY.glob("*.py")]
             for line in path.read_text(encoding="utf-8").splitlines() if pattern.search(line)]
    assert not wrong
