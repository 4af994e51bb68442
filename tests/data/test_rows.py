"""Texts and rows of files of every kind."""

import csv
import datetime
import decimal
import gzip
import itertools
import json
import re
import time
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from in_process import loaded
from ordinary_text import sentences

from albert_tf.data import rows as reading
from albert_tf.data.rows import BadRows, Row, read_document_lines, read_objects, read_rows, read_texts
from albert_tf.text.lines import read_lines


@pytest.mark.parametrize("name, content, lines, first", [
    ("rows.csv", 'text\none\n\n"two, with\n\nlines"\n\n\nthree\n', [2, 4, 9], 3),
    ("rows.tsv", "text\none\n\ntwo\n\n\nthree\n", [2, 4, 7], 3),
    ("rows.jsonl", '{"text": "one"}\n\n{"text": "two"}\n  \n\n{"text": "three"}\n', [1, 3, 6], 2),
    ("rows.csv", "text\r\none\r\n\r\n\r\n", [2], None), ("rows.jsonl", '{"text": "one"}\n\n', [1], None)])
def test_empty_lines_are_skipped_with_a_warning_unless_they_end_the_file(tmp_path, caplog, name, content, lines, first):
    (tmp_path / name).write_text(content)
    rows = list(read_rows(str(tmp_path / name), dict(text_a="text")))
    assert [row.fields["text_a"].split(",")[0] for row in rows] == ["one", "two", "three"][: len(lines)]
    assert [row.line for row in rows] == lines
    warning = f"{tmp_path / name} line {first} is empty and skipped (3 lines of this file)"
    assert caplog.messages == ([warning] if first else [])


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines_within_a_field_of_csv_become_newlines(tmp_path, name, end):
    random = np.random.default_rng(1)
    texts = ["one\rtwo", *("".join(random.choice([*"abé ,\"", "\r", "\n", "\r\n"], 12)) + "." for _ in range(500))]
    with gzip.open(tmp_path / name, "wt", encoding="utf-8", newline="") if name.endswith(".gz") else open(
            tmp_path / name, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([["id", "text"], *enumerate(texts)])
    rows = [row.fields["text"] for row in read_rows(str(tmp_path / name), dict(text="text"))]
    assert rows == [re.sub("\r*\n|\r", "\n", text) for text in texts]
    assert list(read_document_lines(str(tmp_path / name), "text"))[:3] == ["one", "two", ""]


CSV = "text,label", '"a, ""b""",0', "c,1"
SEMICOLONS = "text;label", '"a, ""b""";0', "c;1"
TSV = "text\tlabel", 'a, "b"\t0', "c\t1"
JSON = '{"text": "a, \\"b\\"", "label": 0}', '{"label": "1", "text": "c"}'


@pytest.mark.parametrize("start, ends", [
    ("", "\n"), ("\ufeff", ["\r\n"]), ("\ufeff", "\r"), ("", ["\r", "\r\n", "\n"]), ("", "\n\r"), ("", ["\r\r\n"])],
    ids=ascii)
@pytest.mark.parametrize("name, lines, options", [
    ("rows.csv", CSV, {}), ("rows.csv", SEMICOLONS, {}), ("rows.csv", TSV, {}),
    ("rows.csv", TSV[1:], dict(has_header=False)),
    ("rows.tsv", CSV, dict(separator=",")),
    ("rows.csv", ("text|label", '"a, ""b"""|0', "c|1"), dict(separator="|")),
    ("rows.csv", SEMICOLONS[1:], dict(separator=";", has_header=False)),
    ("rows.tsv", TSV, {}), ("rows.jsonl", JSON, {}),
    ("rows.json", ("[", " {", '  "text": "a, \\"b\\"",', '  "label": 0', " },", JSON[1], "]"), {}),
    ("rows.json", (f"[{JSON[0]},{JSON[1]}]",), {}),
])
def test_rows_are_the_same_whatever_ends_lines_and_separates_columns(tmp_path, name, lines, options, start, ends):
    content = start + "".join(line + end for line, end in zip(lines, itertools.cycle(ends)))
    for text in (content, content.rstrip("\r\n")):
        (tmp_path / name).write_bytes(text.encode())
        columns = dict(a="text", b="label") if options.get("has_header", True) else dict(a=0, b=1)
        rows = list(read_rows(str(tmp_path / name), columns, **options))
        assert [row.fields for row in rows] == [dict(a='a, "b"', b="0"), dict(a="c", b="1")]
        if len(lines) > 3:
            assert [row.line for row in rows] == [2, 6]


STS_B = """main-news\ta\t2015\t0\t1.4\t"We sold the boat, and it sank.\tShe said "no".
main-news\ta\t2015\t1\t2.8\t"No," he wrote.\t"Two dogs run
main-news\ta\t2015\t2\t3.5\tA man plays.\tA man plays a harp"
"""


@pytest.mark.parametrize("separator", [None, "\t"])
def test_a_csv_file_with_tabs_has_a_row_for_each_line_whatever_its_quotes(tmp_path, separator):
    path = tmp_path / "sts-train.csv"
    path.write_text(STS_B)
    rows = list(read_rows(str(path), dict(a=5, b=6, label=4), has_header=False, separator=separator))
    expected = [line.split("\t") for line in STS_B.splitlines()]
    assert rows == [Row(i, dict(a=line[5], b=line[6], label=line[4])) for i, line in enumerate(expected, start=1)]
    path.write_text("".join(f'"a\tb, {i}",c\n' for i in range(2)))  # a tab within quotes separates nothing
    assert [row.fields for row in read_rows(str(path), dict(a=0, b=1), False)] == [
        dict(a=f"a\tb, {i}", b="c") for i in range(2)]


def test_quotes_of_csv_between_tabs_bring_a_warning(tmp_path, caplog):
    path = tmp_path / "t.csv"
    path.write_text('text\tlabel\n"No."\t0\n"a ""b"" c"\t1\n')
    assert list(read_texts(str(path), "text")) == ['"No."', '"a ""b"" c"']
    assert "t.csv line 3: a text has quotes as in CSV (1 row of this file), which stay" in caplog.text


def test_one_error_names_the_first_ten_bad_rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "".join(["a\n", "b,1\n", "a,1,2\n"][i % 3] for i in range(60)))
    bad, good = BadRows(str(path)), []
    with pytest.raises(ValueError) as error:
        for row in bad.removed_from(read_rows(str(path), dict(text="text", label="label"))):
            good.append(row.line)
            if row.line == 3:
                with bad.at(row.line):
                    raise ValueError("unknown label '1'")
    assert str(error.value) == (
        f"{path} lines 2, 5, 8, 11, 14: expected 2 columns, got 1; line 3: unknown label '1'; lines 4, 7, 10, 13: "
        "3 fields, but the header has 2: put quotes around a text with ',' in it; later rows are not checked yet")
    assert good == [3, 6, 9, 12]
    path.write_text("text,label\na\nb,1\n")
    texts = read_texts(str(path), "label")
    with pytest.raises(ValueError, match="rows.csv line 2: expected 2 columns, got 1$"):
        list(texts)


@pytest.mark.parametrize("name", ["t.txt", "t.csv", "t.jsonl"])
@pytest.mark.parametrize("ending", [".zst", ".xz", ".zip"])
def test_a_file_of_another_compression_is_named(tmp_path, name, ending):
    path = tmp_path / (name + ending)
    path.write_bytes(b"text,label\n")
    for column in ("text", None):
        with pytest.raises(ValueError, match=f"^{path}: {ending} files are not read: decompress it"):
            list(read_texts(str(path), column))


CAFE = "text\ncaf\u00e9\n"


@pytest.mark.parametrize("content, message", [
    (CAFE.encode("cp1252"), r"line 2: not UTF-8 .* \(Excel: CSV UTF-8\), .* iconv -f WINDOWS-1252 -t UTF-8$"),
    (CAFE.encode("utf-16"), r"line 1: not UTF-8 .* \(Excel: CSV UTF-8\), .* iconv -f UTF-16 -t UTF-8$"),
    (gzip.compress(CAFE.encode()), "line 1: not UTF-8 .* This is no text: unpack an archive")], ids=range(3))
def test_what_is_not_utf8_is_refused_with_its_cure(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=f"t.csv {message}"):
        list(read_texts(str(tmp_path / "t.csv"), "text"))


def test_a_list_in_json_names_the_line_of_what_is_wrong(tmp_path):
    path = tmp_path / "rows.json"
    for content, message in (('[\n{"a": 1},\n 2]', "line 3: expected a JSON object, got '2]'"),
                             ('[\n{"a": 1}\n', "line 2: not JSON"), ('[{"b": 1}]', "line 1: no 'a' among 'b'")):
        path.write_text(content)
        with pytest.raises(ValueError, match=re.escape(f"{path} {message}")):
            list(read_objects(str(path), ["a"]))
    path.write_text("[]")
    assert list(read_objects(str(path))) == []


pyarrow = pytest.importorskip("pyarrow")
DOCUMENTS = [["It rained.", "The boat, \"a yawl\", sank."], ["Größe: 5\tm.", "She left.", "He stayed."], ["Why?"]]
def write_table(path, rows, row_group_size=2):
    """Writes dicts to a file, in the format of its name."""
    name = str(path)
    if name.endswith(".parquet"):
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=row_group_size,
                                    compression="none", use_dictionary=False)
    elif name.endswith((".json", ".jsonl", ".ndjson", ".gz")):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    else:
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if name.endswith(".tsv") else ",", quoting=csv.QUOTE_MINIMAL)
            writer.writerows([rows[0].keys(), *(row.values() for row in rows)])
    return str(path)


def rows_of(documents):
    return [dict(id=number, text="\n".join(lines)) for number, lines in enumerate(documents)]


def as_text(documents):
    return "\n\n".join("\n".join(lines) for lines in documents) + "\n"


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "jsonl.gz", "csv"])
def test_a_row_is_a_document_and_its_lines_are_the_lines(tmp_path, ending):
    path = write_table(tmp_path / f"table.{ending}", rows_of(DOCUMENTS))
    (tmp_path / "text.txt").write_text(as_text(DOCUMENTS), encoding="utf-8")
    assert list(read_document_lines(path, "text")) == list(read_document_lines(str(tmp_path / "text.txt")))
    assert list(read_texts(path, "text")) == [" ".join(lines) for lines in DOCUMENTS]


def test_empty_lines_of_a_row_do_not_end_its_document(tmp_path):
    path = write_table(tmp_path / "table.parquet", [dict(text="a\r\n \n\nb\n"), dict(text=None), dict(text="c")])
    assert list(read_document_lines(path, "text")) == ["a", "b", "", "", "c", ""]
    assert list(read_texts(path, "text"))[1:] == ["", "c"]


def test_remote_files_are_read_and_a_range_of_lines_without_requests_for_the_size(tmp_path, monkeypatch):
    local = write_table(tmp_path / "table.parquet", rows_of(DOCUMENTS))
    tf.io.gfile.makedirs("ram://tables")
    tf.io.gfile.copy(local, "ram://tables/table.parquet", overwrite=True)
    assert list(read_objects("ram://tables/table.parquet")) == list(read_objects(local))
    with tf.io.gfile.GFile("ram://tables/a.txt", "w") as file:
        file.write("one\ntwo\nthree\n")
    monkeypatch.setattr(tf.io.gfile.GFile, "size", mock.Mock(side_effect=AssertionError("a request")))
    assert list(read_lines("ram://tables/a.txt", 2, 9)) == ["two", "three"]


def test_a_table_is_read_in_parts(tmp_path, monkeypatch):
    """Of the row groups of a large file, only the first ones are read when the first rows are taken."""
    rows = [dict(text="x" * 1000 + str(number)) for number in range(1000)]
    path = write_table(tmp_path / "table.parquet", rows, row_group_size=100)
    read = []

    class Counted:
        def __init__(self, path):
            self._file = open(path, "rb")

        def read(self, *size):
            content = self._file.read(*size)
            read.append(len(content))
            return content

        def __getattr__(self, name):
            return getattr(self._file, name)

    monkeypatch.setattr(reading, "open_binary", Counted)
    texts = read_texts(path, "text")
    assert [next(texts) for _ in range(3)] == [row["text"] for row in rows[:3]]
    started = sum(read)
    assert len(list(texts)) == 997
    assert started < 0.5 * sum(read)


@pytest.mark.parametrize("engine", ["local", pytest.param("beam", marks=pytest.mark.long)])
def test_records_are_those_of_the_text_file(tmp_path, tiny_spm, engine):
    lines, out = sentences(40), tmp_path / "out.tfrecord"
    documents = [lines[start : start + 5] for start in range(0, 40, 5)]
    (tmp_path / "text.txt").write_text(as_text(documents), encoding="utf-8")
    table = write_table(tmp_path / "table.parquet", rows_of(documents))
    flags = dict(spm_model_file=tiny_spm, max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1, num_workers=1,
                 output_file=out)
    if engine == "beam":
        pytest.importorskip("apache_beam")
    with loaded("create_pretraining_data") as run:
        assert run(input_file=tmp_path / "text.txt", **flags) == 0
        expected = out.read_bytes()
        assert run(input_file=table, text_column="text", engine=engine, **flags) == 0
    assert out.read_bytes() == expected


@pytest.mark.parametrize("command", ["extract_embeddings", "train_vocabulary"])
def test_commands_read_columns(tmp_path, command, capsys):
    lines = [line for document in DOCUMENTS for line in document] * 20
    (tmp_path / "lines.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    write_table(tmp_path / "table.parquet", [dict(text=line) for line in lines])
    model = dict(init_checkpoint="albert_tiny_en")
    flags = dict(extract_embeddings=dict(model, output_file=str(tmp_path / "out.npy")),
                 train_vocabulary=dict(model_prefix=str(tmp_path / "out"), vocab_size=38))[command]
    results = []
    with loaded(command) as run:
        for inputs in (dict(input_file="lines.txt"), dict(input_file="table.parquet", text_column="text")):
            status = run(**{**flags, **inputs, "input_file": str(tmp_path / inputs["input_file"])})
            printed = capsys.readouterr()
            assert status == 0, printed.err
            results.append((printed.out, *(np.load(path).tolist() for path in tmp_path.glob("out.npy")),
                            *(path.read_bytes() for path in tmp_path.glob("out.model"))))
    assert results[0] == results[1]


def test_bytes_dates_and_decimals_of_parquet_are_what_csv_holds(tmp_path):
    """500 rows of each type, compared with Python's own str and decode."""
    days = [datetime.date(1990, 1, 1) + datetime.timedelta(days=37 * number) for number in range(500)]
    columns = dict(text=[f"größe {number}\n".encode() for number in range(500)], day=days,
                   price=[decimal.Decimal(number) / 100 for number in range(500)],
                   labels=[[b"a", b"b"][: number % 3] for number in range(500)])
    expected = dict(text=[value.decode() for value in columns["text"]], day=list(map(str, days)),
                    price=[f"{value:.2f}" for value in columns["price"]],
                    labels=[json.dumps(["a", "b"][: number % 3]) for number in range(500)])
    path = write_table(tmp_path / "t.parquet", [dict(zip(columns, row)) for row in zip(*columns.values())], 200)
    rows = [row.fields for row in read_rows(path, {name: name for name in columns})]
    assert {name: [row[name] for row in rows] for name in columns} == expected
    assert list(read_texts(path, "text")) == [text.strip() for text in expected["text"]]


@pytest.mark.parametrize("name, content, column, named", [
    ("t.parquet", [dict(text=b"\xff")], "text", ": the column 'text' .* binary"),
    ("t.parquet", [dict(text=dict(a="x"))], "text", ": the column 'text' .* struct<a: string>"),
    ("t.parquet", [dict(a="x")], "text", ": no column 'text' among 'a'"),
    ("t.jsonl", [dict(text="x"), dict(a="x")], "text", " line 2: no 'text' among 'a'"),
    ("t.csv", [dict(a="x")], "text", ": no column 'text' .* 'a'"),
    ("t.parquet", [dict(text=["x"])], "text", r" line 1: 'text' .* \['x'\]"),
    ("t.jsonl", [dict(text=5)], "text", " line 1: 'text' .* 5"),
    *((f"t.{ending}", [dict(text="x")], None, " is a table: set --text_column")
      for ending in ("parquet", "jsonl", "jsonl.gz", "json", "ndjson", "csv", "tsv"))])
def test_a_column_that_cannot_be_read_is_refused(tmp_path, name, content, column, named):
    path = write_table(tmp_path / name, content)
    with pytest.raises(ValueError, match=f"^{tmp_path}/{name}{named}"):
        list(read_document_lines(path, column))


@pytest.mark.parametrize("damage", [lambda data: b"nothing", lambda data: data[:-20], lambda data: b""])
def test_a_damaged_table_is_refused(tmp_path, damage):
    path = write_table(tmp_path / "t.parquet", rows_of(DOCUMENTS))
    (tmp_path / "t.parquet").write_bytes(damage((tmp_path / "t.parquet").read_bytes()))
    with pytest.raises(ValueError, match=f"^{path} cannot be read as Parquet: "):
        list(read_texts(path, "text"))


def test_other_files_are_refused(tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text("a\n")
    with pytest.raises(ValueError, match="t.txt: unknown file format; the file's extension must be one of .*.parquet"):
        list(read_texts(str(tmp_path / "t.txt"), "text"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "t.parquet").write_text("")
    with pytest.raises(ValueError, match="a Parquet file needs the package pyarrow, .*: pip install pyarrow"):
        list(read_texts(str(tmp_path / "t.parquet"), "text"))


def test_a_small_table_with_any_number_of_equal_values_is_refused_before_they_are_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    for values in (["a"] * 2_000_000, [[1] * 1_000] * 2_000):
        pyarrow.parquet.write_table(pyarrow.table(dict(text=values)), tmp_path / "t.parquet")
        assert (tmp_path / "t.parquet").stat().st_size < 20_000
        with pytest.raises(ValueError, match="t.parquet has 2,000,000 values of a column in [0-9,]+ bytes"):
            next(read_objects(str(tmp_path / "t.parquet"), ["text"]))


def test_a_small_table_with_equal_long_texts_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_LARGEST_BATCH", 1_000_000)
    path = write_table(tmp_path / "t.parquet", [dict(text="a" * 10_000)] * 200, 200)
    with pytest.raises(ValueError, match="t.parquet has texts of 2,00[0-9],[0-9]{3} bytes in [0-9,]+ bytes"):
        next(read_objects(path, ["text"]))


def test_a_list_in_json_has_a_largest_size(tmp_path, monkeypatch):
    (tmp_path / "t.json").write_text("\n" * 900 + '[{"a": 1}]' + "\n" * 200)
    assert list(read_objects(str(tmp_path / "t.json"), ["a"])) == [(901, dict(a=1))]
    monkeypatch.setattr(reading, "_MOST_CHARACTERS", 1000)
    with pytest.raises(ValueError, match="t.json is a JSON list with more than 1,000 characters"):
        next(read_objects(str(tmp_path / "t.json"), ["a"]))


def test_a_field_of_quotes_is_read_in_linear_time(tmp_path):
    (tmp_path / "t.csv").write_text("a\tb\n" + '"' * 100_000 + "x\ty\n")
    start = time.monotonic()
    assert [row.fields for row in read_rows(str(tmp_path / "t.csv"), dict(text="b"))] == [dict(text="y")]
    assert len(next(iter(read_rows(str(tmp_path / "t.csv"), dict(text="a")))).fields["text"]) == 100_001
    assert time.monotonic() - start < 5
