"""GLUE's files: features equal to the release's, and errors for wrong rows."""

import json

import pytest

from albert_tf.tasks.classification.data import convert_examples_to_features, find_task, read_examples
from albert_tf.text.packing import PairPacker

pytestmark = pytest.mark.both_stacks

CASES = [("cola", 3), ("mnli", 3), ("mismnli", 3), ("mrpc", 3), ("rte", 3), ("sst-2", 3), ("sts-b", 3), ("qqp", 3),
         ("qnli", 3), ("wnli", 3), ("ax", 1)]


@pytest.fixture(scope="module")
def released(golden):
    return json.loads((golden / "glue" / "glue_features.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("task, splits", CASES)
def test_features_are_those_of_the_release(golden, released, sentence_pieces, task, splits):
    expected = released["tasks"][task]["splits"]
    assert len(expected) == splits
    for split, of_split in expected.items():
        examples = read_examples(task, str(golden / "glue"), split)
        for length, columns in of_split["features"].items():
            ours = list(convert_examples_to_features(examples, task, sentence_pieces, int(length)))
            assert {name: [row[name] for row in ours] for name in columns} == columns


def test_a_padding_row_is_that_of_the_release(released, sentence_pieces):
    for length, columns in released["padding_example"].items():
        ours = PairPacker(sentence_pieces, int(length)).padding()
        assert {name: [row] for name, row in ours.items()} == {name: columns[name] for name in ours}


@pytest.mark.parametrize("name, known", [
    ("SST2", "sst-2"), ("stsb", "sts-b"), ("mnli_mm", "mismnli"), ("MNLI-mm", "mismnli")])
def test_names_of_tasks_need_no_hyphens(name, known):
    assert find_task(name) is find_task(known)


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


HEADER = "index\tsentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize("task, split, content, message", [
    ("rte", "train", HEADER, "RTE/train.tsv has no examples"),
    ("rte", "train", HEADER + "0\ta lamp\ta light\tentailment\n1\ta lamp\ta light\n",
     "RTE/train.tsv line 3: expected 4 columns, got 3"),
    ("rte", "train", HEADER + "0\ta lamp\ta light\tmaybe\n",
     r"RTE/train.tsv line 2: unknown label 'maybe' \(allowed: entailment, not_entailment\)"),
    ("rte", "train", HEADER + "0\ta lamp\ta light\t\n", r"RTE/train.tsv line 2: the label is missing \(allowed: ent"),
    ("rte", "train", HEADER + "0\ta lamp\ta light\tmaybe\n" * 2 + "1\ta lamp\n0\ta lamp\ta light\tno\n",
     "train.tsv lines 2, 3: unknown label 'maybe' .*; line 4: expected 4 columns, got 2; line 5: unknown label 'no'"),
    ("ax", "train", "", "ax has no 'train' set; it has test"),
    ("sst-3", "train", "", "unknown task 'sst-3': expected one of cola, mnli, mismnli, .*--task_config")])
def test_a_file_that_is_not_as_it_should_be_is_one_clear_line(tmp_path, task, split, content, message):
    write(tmp_path, "RTE/train.tsv", content)
    with pytest.raises(ValueError, match=message):
        read_examples(task, str(tmp_path), split)


def write_score(folder, score):
    columns = ["0", "g", "f", "y", "i", "s", "s", "a lamp", "a light"]
    header = "\t".join([*"abcdefghi", "score"])
    write(folder, "STS-B/train.tsv", f"{header}\n" + "\t".join([*columns, score]) + "\n")


@pytest.mark.parametrize("score", ["high", "1_0", "nan", "inf", "1e999", "\uff15", "0x1", "1 0", "."])
def test_a_score_that_is_none_is_named(tmp_path, score):
    write_score(tmp_path, score)
    with pytest.raises(ValueError, match=f"STS-B/train.tsv line 2: '{score}' is not a score: expected a number"):
        read_examples("sts-b", str(tmp_path), "train")


@pytest.mark.parametrize("score, value", [("3.5", 3.5), (" 4 ", 4), ("-1.", -1), (".5", 0.5), ("+2e-3", 0.002)])
def test_scores_are_decimal_numbers(tmp_path, score, value):
    write_score(tmp_path, score)
    assert read_examples("sts-b", str(tmp_path), "train")[0].label == value


ROW = "0\ta lamp\ta light\tentailment\n"


@pytest.mark.parametrize("content, message", [
    (HEADER + ROW + "1\t \ta light\tentailment\n" + ROW + "2\ta lamp\t\tentailment\n",
     "RTE/train.tsv line 3: a text is empty (2 rows of this file)"),
    (HEADER + ROW, None)])
def test_rows_with_an_empty_text_bring_a_warning(tmp_path, caplog, content, message):
    write(tmp_path, "RTE/train.tsv", content)
    read_examples("rte", str(tmp_path), "train")
    assert caplog.messages == ([f"{tmp_path}/{message}"] if message else [])


def test_rows_of_qqp_with_too_few_columns_are_left_out_and_counted(golden, caplog):
    with caplog.at_level("WARNING"):
        assert len(read_examples("qqp", str(golden / "glue"), "train")) == 6
    assert "skipped 1 row with too few columns" in caplog.text


def test_an_unknown_label_of_ones_own_example_is_named(sentence_pieces):
    from albert_tf.tasks.classification.data import InputExample

    with pytest.raises(ValueError, match=r"example x-1: unknown label 'so so' \(allowed: 0, 1\)"):
        list(convert_examples_to_features([InputExample("x-1", "a lamp", None, "so so")], "sst-2", sentence_pieces, 16))


def test_a_length_too_small_for_text_is_refused(sentence_pieces):
    with pytest.raises(ValueError, match="max_seq_length must be more than 3. Received: 3"):
        convert_examples_to_features([], "sst-2", sentence_pieces, 3)
