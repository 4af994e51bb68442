"""Scores of sentences, and accuracy on minimal pairs."""

import json

import numpy as np
import pytest

import albert_tf
from albert_tf.tasks.masked_lm import accuracies, read_minimal_pairs, score_sentences


@pytest.fixture(scope="module")
def model(golden):
    return albert_tf.from_pretrained(str(golden / "hf/masked_lm"), model="pretrainer")


@pytest.fixture(scope="module")
def scores(golden):
    return json.loads((golden / "hf/masked_lm/scores.json").read_text())


@pytest.mark.parametrize("tokens_per_batch", [1, 30, 8192])
@pytest.mark.parametrize("within_word_l2r", [False, True])
def test_scores_are_those_of_transformers(model, sentence_pieces, scores, within_word_l2r, tokens_per_batch):
    ours = score_sentences(model, sentence_pieces, scores["sentences"], within_word_l2r, tokens_per_batch)
    expected = scores["within_word_l2r" if within_word_l2r else "plain"]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4)
    assert not np.allclose(ours, scores["plain" if within_word_l2r else "within_word_l2r"], atol=0.1)


def test_sentences_with_the_same_pieces_have_the_same_score_to_the_last_bit(model, sentence_pieces):
    texts = ["Of the file", "a name", "of the name", "  of THE file "]
    scores = score_sentences(model, sentence_pieces, texts, tokens_per_batch=7)
    assert scores[0] == scores[3] != scores[2]


def test_a_single_string_is_refused(model, sentence_pieces):
    with pytest.raises(ValueError, match="sentences must be a list of strings, not a string"):
        score_sentences(model, sentence_pieces, "the file")


def test_a_sentence_longer_than_the_model_is_named(model, sentence_pieces):
    texts = ["of", "the " * 31]
    with pytest.raises(ValueError, match=r"^sentence 2: 31 pieces, \[CLS\] and \[SEP\] exceed the model's 32"):
        score_sentences(model, sentence_pieces, texts)
    with pytest.raises(ValueError, match="^a.txt line 9: 31 pieces"):
        score_sentences(model, sentence_pieces, texts, places=["a.txt line 8", "a.txt line 9"])


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
        "all": 0.5, "mean_of_files": 0.625, "files": {"agreement": 1.0, "island": 0.25},
        "fields": {"morphology": 1.0, "syntax": 0.25}}


def test_both_spellings_of_a_field_of_blimp_are_one_field_and_pairs_without_one_count_in_all(tmp_path):
    fields = ("syntax_semantics", "syntax/semantics", "semantics")
    pairs = read_minimal_pairs(write(tmp_path / "own.jsonl", ("a", "b", {}), *(
        ("a", "b", dict(field=field)) for field in fields)))
    assert accuracies(pairs, [2, 2, 1, 1], [1, 1, 2, 2]) == {
        "all": 0.5, "mean_of_files": 0.5, "files": {"own": 0.5},
        "fields": {"syntax/semantics": 0.5, "semantics": 0.0}}


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
