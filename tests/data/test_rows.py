"""Rows of tables: an empty line between rows is left out with a warning that names it."""

import csv
import gzip
import re

import numpy as np
import pytest

from albert_tf.data.rows import Row, ShortRow, read_document_lines, read_objects, read_rows, read_texts


@pytest.mark.parametrize("name, content", [
    ("rows.csv", 'text\none\n\n"two, with\n\nlines"\n\n\nthree\n'),
    ("rows.tsv", "text\none\n\ntwo\n\n\nthree\n"),
    ("rows.jsonl", '{"text": "one"}\n\n{"text": "two"}\n  \n\n{"text": "three"}\n'),
])
def test_empty_lines_between_rows_are_left_out_with_a_warning(tmp_path, caplog, name, content):
    (tmp_path / name).write_text(content)
    rows = list(read_rows(str(tmp_path / name), dict(text_a="text")))
    assert [row.fields["text_a"].split(",")[0] for row in rows] == ["one", "two", "three"]
    first = 2 if name.endswith("l") else 3
    assert f"{tmp_path / name} line {first} is empty and skipped (3 lines of this file)" in caplog.text


@pytest.mark.parametrize("name, content", [("rows.csv", "text\r\none\r\n\r\n\r\n"),
                                           ("rows.jsonl", '{"text": "one"}\n\n')])
def test_empty_lines_at_the_end_of_a_file_mean_nothing(tmp_path, caplog, name, content):
    (tmp_path / name).write_text(content)
    assert len(list(read_rows(str(tmp_path / name), dict(text_a="text")))) == 1
    assert not caplog.text


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_carriage_returns_stay_within_a_field_of_csv(tmp_path, name, end, quoting):
    """Fields with quotes that Python's csv module writes, and ones without, as pandas writes them."""
    random = np.random.default_rng(1)
    texts = ["one\rtwo", *("".join(random.choice([*"abé ,\"", "\r", "\n", "\r\n"], 12)) + "." for _ in range(500))]
    with gzip.open(tmp_path / name, "wt", encoding="utf-8", newline="") if name.endswith(".gz") else open(
            tmp_path / name, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator=end, quoting=quoting).writerows([["id", "text"], *enumerate(texts)])
    rows = [row.fields["text"] for row in read_rows(str(tmp_path / name), dict(text="text"))]
    assert rows == [re.sub("\r+\n", "\n", text) for text in texts]
    lines = list(read_document_lines(str(tmp_path / name), "text"))
    assert lines[:2] == ["one two", ""] and not any("\r" in line for line in lines)


def test_other_files_lose_carriage_returns(tmp_path):
    """As the release's."""
    (tmp_path / "rows.tsv").write_bytes(b"text\r\none\rtwo\r\n")
    assert next(read_rows(str(tmp_path / "rows.tsv"), dict(text="text"))).fields == dict(text="onetwo")
    assert list(read_texts(str(tmp_path / "rows.tsv"))) == ["text", "onetwo"]


def test_a_short_row_has_its_line_and_an_empty_field_is_a_row(tmp_path, caplog):
    (tmp_path / "rows.csv").write_text('id,text\n1,""\n\n2\n')
    rows = list(read_rows(str(tmp_path / "rows.csv"), dict(text_a="text")))
    assert rows == [Row(2, dict(text_a="")), ShortRow(4, 2, 1)]
    assert "line 3 is empty" in caplog.text


def test_lines_of_objects_keep_their_numbers(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n')
    assert list(read_objects(str(tmp_path / "rows.jsonl"))) == [(1, {"a": 1}), (3, {"a": 2})]
