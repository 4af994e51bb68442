"""The user's own task: a JSON file instead of code, and TSV, CSV and JSON-lines files."""

import json

import pytest

from albert_tf.tasks.classification.data import read_examples, read_label_ids
from albert_tf.tasks.classification.table_format import read_table_format

CONFIG = dict(name="reviews", files=dict(train="train.csv", dev="dev.jsonl", test="test.tsv"),
              columns=dict(text_a="review", label="verdict"), labels=["bad", "good"], metrics=["f1", "eval_accuracy"])


def config(folder, **changes):
    path = folder / "task.json"
    path.write_text(json.dumps({name: value for name, value in {**CONFIG, **changes}.items() if value is not None}))
    return read_table_format(str(path))


def test_csv_json_lines_and_tsv_are_read_by_their_endings(tmp_path):
    (tmp_path / "train.csv").write_text('\ufeffid,review,verdict\n1,"It is, I ""think"",\nfine.",good\n2,No.,BAD\n')
    (tmp_path / "dev.jsonl").write_text('{"review": "Fine.", "verdict": "good", "stars": 4}\n\n'
                                        '{"verdict": "bad", "review": "No."}\n')
    (tmp_path / "test.tsv").write_text('id\treview\n7\tA "quote" that does not end: "\n')
    task = config(tmp_path)
    train, dev, test = (read_examples(task, str(tmp_path), split) for split in ("train", "dev", "test"))
    assert [row[1:] for row in train] == [('It is, I "think",\nfine.', None, "good"), ("No.", None, "BAD")]
    assert [task.label_id(row.label) for row in train] == [1, 0]
    assert [row.text_a for row in dev] == ["Fine.", "No."]
    assert test[0].text_a == 'A "quote" that does not end: "' and test[0].guid == "test-1"


def test_case_of_labels_does_not_count_unless_two_labels_differ_in_it_alone(tmp_path):
    assert [config(tmp_path).label_id(label) for label in ("BAD", " Good ")] == [0, 1]
    assert config(tmp_path, labels=["bad", "caf\u00e9"]).label_id("cafe\u0301") == 1
    task = config(tmp_path, labels=["bad", "Bad"])
    assert [task.label_id(label) for label in ("bad", "Bad")] == [0, 1]
    with pytest.raises(ValueError, match=r"unknown label 'BAD' \(allowed: bad, Bad\)"):
        task.label_id("BAD")


def test_labels_may_be_any_json_values(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"review": "Fine.", "verdict": true}\n{"review": "No.", "verdict": 0}\n')
    task = config(tmp_path, files=dict(train="train.jsonl"), labels=[0, True])
    assert task.labels == ("0", "true")
    assert [task.label_id(row.label) for row in read_examples(task, str(tmp_path), "train")] == [1, 0]


def test_null_in_json_lines_is_nothing(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"a": "Fine.", "b": null, "verdict": "good"}\n')
    columns = dict(text_a="a", text_b="b", label="verdict")
    task = config(tmp_path, files=dict(train="train.jsonl"), columns=columns)
    assert read_examples(task, str(tmp_path), "train")[0].text_b == ""


@pytest.mark.parametrize("name, separator", [("train.tsv", "\t"), ("train.csv", ",")])
def test_a_column_that_the_header_has_twice_is_refused(tmp_path, name, separator):
    rows = (["review", "verdict", "review", "note", "note"], ["Fine.", "good", "No.", "", ""])
    (tmp_path / name).write_text("".join(separator.join(row) + "\n" for row in rows))
    task = config(tmp_path, files=dict(train=name))
    with pytest.raises(ValueError, match=f"{name}: the header, .*, has the column 'review' 2 times: give each column"):
        read_examples(task, str(tmp_path), "train")
    task = config(tmp_path, files=dict(train=name), columns=dict(text_a=2, label="verdict"))
    assert read_examples(task, str(tmp_path), "train")[0].text_a == "No."


def test_a_config_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "task.json").write_text("\ufeff" + json.dumps(CONFIG), encoding="utf-8")
    assert read_table_format(str(tmp_path / "task.json")).name == "reviews"


def test_columns_may_be_numbers_if_there_is_no_header(tmp_path):
    (tmp_path / "train.tsv").write_text("good\ta lamp\ta light\nbad\tno lamp\tno light\n")
    task = config(tmp_path, files=dict(train="train.tsv"), columns=dict(label=0, text_a=1, text_b=-1), has_header=False)
    assert [row.text_b for row in read_examples(task, str(tmp_path), "train")] == ["a light", "no light"]


def test_a_column_beyond_a_row_from_either_end_is_a_row_with_too_few(tmp_path):
    (tmp_path / "train.tsv").write_text("a\tb\ngood\ta lamp\n")
    for place in (4, -5):
        task = config(tmp_path, files=dict(train="train.tsv"), columns=dict(label=0, text_a=place))
        with pytest.raises(ValueError, match="train.tsv line 2: expected 5 columns, got 2"):
            read_examples(task, str(tmp_path), "train")


def test_a_row_with_lines_in_quotes_is_named_by_its_first_line(tmp_path):
    (tmp_path / "train.csv").write_text('review,verdict\n"two\nlines",good\n\n"two\nmore",great\n')
    task = config(tmp_path, files=dict(train="train.csv"))
    with pytest.raises(ValueError, match="train.csv line 5: unknown label 'great'"):
        read_examples(task, str(tmp_path), "train")


def test_a_regression_has_scores(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"review": "Fine.", "verdict": 4.5}\n')
    task = config(tmp_path, files=dict(train="train.jsonl"), labels=None, regression=True, metrics=["spearman"])
    assert task.is_regression and read_examples(task, str(tmp_path), "train")[0].label == 4.5


def test_a_text_may_have_several_labels_as_a_json_list_or_with_separators(tmp_path):
    (tmp_path / "train.jsonl").write_text("".join(
        f'{{"review": "A", "verdict": {verdict}}}\n' for verdict in ('["good", "Old"]', "[]", '"old"', "null")))
    (tmp_path / "dev.csv").write_text("review,verdict\nA,good | bad\nB,\n")
    changes = dict(labels=["bad", "good", "old"], metrics=None, multi_label=True, label_separator="|")
    task = config(tmp_path, files=dict(train="train.jsonl", dev="dev.csv"), **changes)
    assert task.metrics == ("micro_f1",)
    train, dev = ([task.label_id(row.label) for row in read_examples(task, str(tmp_path), split)]
                  for split in ("train", "dev"))
    assert train == [[0, 1, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0]] and dev == [[1, 1, 0], [0, 0, 0]]
    assert task.label_id(None) == [0, 0, 0]
    (tmp_path / "dev.csv").write_text("review,verdict\nA,good | new\n")
    with pytest.raises(ValueError, match="dev.csv line 2: unknown label 'new' .allowed: bad, good, old"):
        read_examples(task, str(tmp_path), "dev")
    (tmp_path / "dev.csv").write_text("review,verdict\nA,[good\n")
    with pytest.raises(ValueError, match="dev.csv line 2: '\\[good' is not a JSON list of labels"):
        read_examples(task, str(tmp_path), "dev")


def test_json_has_no_separator(tmp_path):
    (tmp_path / "train.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="train.jsonl has no separator '|': it is for .tsv and .csv files"):
        read_examples(config(tmp_path, files=dict(train="train.jsonl"), separator="|"), str(tmp_path), "train")


@pytest.mark.parametrize("changes, message", [
    (dict(colums={}), "unknown key: 'colums'"),
    (dict(name=None), "missing key: 'name'"),
    (dict(files=dict(valid="x.tsv")), "unknown split in files: 'valid' .allowed: train, dev, test"),
    (dict(columns=dict(text_a="review")), "missing field in columns: 'label'"),
    (dict(labels=None), 'give "labels", or "regression": true, and not both'),
    (dict(name="../up"), "name must be a plain file name, without a folder. Received: '../up'"),
    (dict(files="train.csv"), "files must be an object. Received: 'train.csv'"),
    (dict(labels=["bad", "very\ngood"]), "a label must not have a line break"),
    (dict(labels=["a"]), "labels must be a list of at least two different labels"),
    (dict(metrics=["accuracy"]), "metrics must be some of eval_accuracy, f1, matthew_corr"),
    (dict(labels=["a", "b", "c"]), "f1 needs exactly two labels"),
    (dict(labels=None, regression=True, metrics=["MSE", "pearson"]), "MSE cannot be the first"),
    (dict(multi_label=True), "metrics must be some of micro_f1, macro_f1, average_precision, eval_accuracy. Received"),
    (dict(labels=None, regression=True, multi_label=True, metrics=None), 'give "multi_label": true, or "regression"'),
    (dict(separator="; "), "separator must be one character, such as \";\". Received: '; '"),
    (dict(multi_label=True, metrics=None, label_separator=""), "label_separator must be text that does not begin with"),
    (dict(multi_label=True, metrics=None, labels=["a,b", "c"]), "the label 'a,b' has the label_separator ',' in it"),
    (dict(class_weights="equal"), 'class_weights must be "balanced", or a number above 0 for each of the 2 labels'),
    (dict(class_weights=[1, 0]), "a number above 0 for each of the 2 labels. Received: .1, 0."),
    (dict(labels=None, regression=True, metrics=None, class_weights="balanced"), "class_weights are for labels"),
])
def test_a_config_that_makes_no_sense_is_one_clear_line(tmp_path, changes, message):
    with pytest.raises(ValueError, match=r"task.json: .*" + message):
        config(tmp_path, **changes)


@pytest.mark.parametrize("name, content, message", [
    ("x.csv", 'review,verdict\n"open,good\n', r"x.csv line 2: unexpected end of data"),
    ("x.csv", "text,verdict\nfine,good\n",
     "x.csv: no column 'review' in the header, which is the first line: 'text', 'verdict'$"),
    ("x.csv", "review|verdict\nfine|good\n", "first line: 'review|verdict'. Columns must be separated by ','$"),
    ("x.csv", "review;verdict\nfine;long;good\n", "x.csv line 2: 3 fields, .*: put quotes around a text with ';'"),
    ("x.csv", "review,verdict\nfine,good\nlong, and dull,bad\n",
     "x.csv line 3: 3 fields, but the header has 2: put quotes around a text with ',' in it"),
    ("x.jsonl", '{"review": "fine"\n', r"x.jsonl line 1: not JSON .*: each line must be an obj"),
    ("x.jsonl", '["fine"]\n', r"x.jsonl line 1: expected a JSON object"),
])
def test_an_error_names_a_file_whose_content_does_not_match_its_ending(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_examples(config(tmp_path, files=dict(train=name)), str(tmp_path), "train")


def test_a_config_that_is_missing_or_no_json_is_named(tmp_path):
    with pytest.raises(ValueError, match="no such file: .*nothing.json"):
        read_table_format(str(tmp_path / "nothing.json"))
    (tmp_path / "task.json").write_text("{")
    with pytest.raises(ValueError, match="task.json line 1: not JSON"):
        read_table_format(str(tmp_path / "task.json"))


@pytest.mark.parametrize("content, expected", [
    ("verdict\treview\nGOOD\tFine.\nbad\tNo.\n", [1, 0]), ("review\nFine.\n", None),
    ("review\tverdict\nFine.\t\n", None), ("review\tverdict\nFine.\tgood\nNo.\t?\n", None),
    ("review\tverdict\nFine.\tgood\nNo.\n", None)],
    ids=["labelled", "no column", "empty", "unknown", "short row"])
def test_a_test_file_has_labels_if_every_row_has_one_and_is_read_in_any_case(tmp_path, content, expected, caplog):
    (tmp_path / "test.tsv").write_text(content)
    caplog.set_level("INFO", logger="absl")
    task = config(tmp_path)
    labels = read_label_ids(task, str(tmp_path), "test")
    assert (None if labels is None else labels.tolist()) == expected
    assert [row.text_a for row in read_examples(task, str(tmp_path), "test")][0] == "Fine."
    assert ("the predictions have no scores: " in caplog.text) == (expected is None)
    unread = config(tmp_path, test_columns=dict(text_a="review"))
    assert read_label_ids(unread, str(tmp_path), "test") is None


def test_labels_of_the_dev_set_are_not_optional(tmp_path):
    (tmp_path / "dev.jsonl").write_text('{"review": "Fine.", "verdict": "good"}\n'
                                        '{"review": "No.", "verdict": "worse"}\n')
    with pytest.raises(ValueError, match="dev.jsonl line 2: unknown label 'worse'"):
        read_label_ids(config(tmp_path), str(tmp_path), "dev")
    task = config(tmp_path, files=dict(train="train.csv")).with_file("dev", str(tmp_path / "dev.jsonl"))
    assert read_label_ids(task, None, "dev") is None and len(read_examples(task, None, "dev")) == 2


def test_texts_of_which_none_has_one_of_several_labels_are_not_labelled(tmp_path):
    task = config(tmp_path, multi_label=True, metrics=None)
    for labels, expected in ((("", ""), None), (("", "good,bad"), [[0, 0], [1, 1]])):
        (tmp_path / "test.tsv").write_text("review\tverdict\n" + "".join(f"Fine.\t{label}\n" for label in labels))
        found = read_label_ids(task, str(tmp_path), "test")
        assert (None if found is None else found.tolist()) == expected
