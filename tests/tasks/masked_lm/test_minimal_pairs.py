"""Minimal pairs: files in BLiMP's format, accuracy by file and field, errors in files."""

import json

import pytest

from albert_tf.tasks.masked_lm.sentence_scores import accuracies, read_minimal_pairs


def write(path, *pairs):
    path.parent.mkdir(exist_ok=True)
    rows = (dict(sentence_good=good, sentence_bad=bad, **others) for good, bad, others in pairs)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def folder(tmp_path):
    syntax = dict(field="syntax", UID="island")
    write(tmp_path / "blimp/island.jsonl", ("a b", "b a", syntax), ("c", "d", syntax))
    write(tmp_path / "blimp/agreement.jsonl", ("e", "f", dict(field="morphology")))
    (tmp_path / "blimp/README.md").write_text("no pairs\n")
    return tmp_path / "blimp"


def test_a_folder_a_glob_and_a_list_of_files_name_the_same_pairs(folder):
    pairs = read_minimal_pairs(str(folder))
    assert [(pair.file, pair.field, pair.good, pair.bad) for pair in pairs] == [
        ("agreement", "morphology", "e", "f"), ("island", "syntax", "a b", "b a"), ("island", "syntax", "c", "d")]
    assert pairs[2].place == f"{folder}/island.jsonl line 2"
    assert read_minimal_pairs(f"{folder}/*.jsonl") == pairs
    assert read_minimal_pairs(f"{folder}/agreement.jsonl, {folder}/island.jsonl") == pairs


def test_accuracies_by_file_and_field_count_a_tie_as_half(folder):
    pairs = read_minimal_pairs(str(folder))
    assert accuracies(pairs, good=[-1.0, -5.0, -2.0], bad=[-2.0, -5.0, -1.0]) == {
        "all": 0.5, "files": {"agreement": 1.0, "island": 0.25}, "fields": {"morphology": 1.0, "syntax": 0.25}}


def test_pairs_without_a_field_count_in_all_and_in_their_file(tmp_path):
    pairs = read_minimal_pairs(write(tmp_path / "own.jsonl", ("a", "b", {}), ("c", "d", dict(field="syntax"))))
    assert accuracies(pairs, [2, 1], [1, 2]) == {"all": 0.5, "files": {"own": 0.5}, "fields": {"syntax": 0.0}}


@pytest.mark.parametrize("line, message", [
    ('{"sentence_good": "a"}', r"own.jsonl line 1: sentence_good and sentence_bad must be strings. .*\['a', None\]"),
    ('{"sentence_good": "a", "sentence_bad": 3}', "own.jsonl line 1: sentence_good and sentence_bad must be strings"),
    ("not JSON", "own.jsonl line 1"), ("\n", "own.jsonl has no pairs")])
def test_a_line_that_is_no_pair_is_named(tmp_path, line, message):
    (tmp_path / "own.jsonl").write_text(line)
    with pytest.raises(ValueError, match=message):
        read_minimal_pairs(str(tmp_path / "own.jsonl"))


def test_files_of_one_name_and_paths_without_files_are_refused(tmp_path):
    paths = [write(tmp_path / name / "own.jsonl", ("a", "b", {})) for name in ("x", "y")]
    with pytest.raises(ValueError, match="x/own.jsonl and .*y/own.jsonl have the same name"):
        read_minimal_pairs(",".join(paths))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no file matches .*empty/\\*.jsonl"):
        read_minimal_pairs(str(tmp_path / "empty"))
