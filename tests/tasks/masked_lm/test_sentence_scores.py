"""examples/score_sentences.py: scores of sentences, and accuracy on minimal pairs."""

import importlib.util
import json
import pathlib
import sys

import numpy as np
import pytest

import albert_tf

PROGRAM = pathlib.Path(albert_tf.__file__).parents[1] / "examples/score_sentences.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("score_sentences", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.both_stacks
@pytest.mark.parametrize("tokens_per_batch", [1, 30, 8192])
@pytest.mark.parametrize("within_word_l2r", [False, True])
def test_scores_are_those_of_transformers(golden, example, sentence_pieces, within_word_l2r, tokens_per_batch):
    model = albert_tf.from_pretrained(str(golden / "hf/masked_lm"), model="pretrainer")
    scores = json.loads((golden / "hf/masked_lm/scores.json").read_text())
    ours = example.score_sentences(model, sentence_pieces, scores["sentences"], within_word_l2r, tokens_per_batch)
    expected = scores["within_word_l2r" if within_word_l2r else "plain"]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4)
    assert not np.allclose(ours, scores["plain" if within_word_l2r else "within_word_l2r"], atol=0.1)
    with pytest.raises(ValueError, match="33 tokens exceed the model's 32: the the"):
        example.score_sentences(model, sentence_pieces, ["the " * 31])


@pytest.mark.parametrize("flags, key, expected", [
    ([], "scores", dict(agreement=0.8, anaphora=0.7, syntax=1.0, semantics=0.9)),
    (["--within_word_l2r"], "within_word_l2r", dict(agreement=0.7, anaphora=0.7, syntax=1.0, semantics=0.9))])
def test_forty_pairs_have_the_scores_of_the_command_that_the_example_replaces(
        golden, example, monkeypatch, capsys, flags, key, expected):
    path, scores = golden / "minimal_pairs/forty.jsonl", []
    monkeypatch.setattr(sys, "argv", ["x", "--init_checkpoint=albert_tiny_en", "--pairs", *flags, str(path)])
    monkeypatch.setattr(example, "score_sentences", lambda *arguments, original=example.score_sentences: (
        scores.append(original(*arguments)) or scores[0]))
    example.main()
    mean = pytest.approx(sum(expected.values()) / 4)
    assert json.loads(capsys.readouterr().out) == dict(
        files=dict(forty=mean), fields=expected, mean_of_files=mean, all=mean)
    known = [json.loads(line)[key] for line in path.read_text().splitlines()]
    np.testing.assert_allclose(scores[0], np.ravel(known), atol=2e-3)


def test_lines_are_printed_with_their_scores(golden, example, monkeypatch, capsys, tmp_path):
    row = json.loads((golden / "minimal_pairs/forty.jsonl").read_text().splitlines()[0])
    (tmp_path / "lines.txt").write_text(f"{row['sentence_bad']}\n{row['sentence_good']}\n")
    monkeypatch.setattr(sys, "argv", ["x", "--init_checkpoint=albert_tiny_en", str(tmp_path / "lines.txt")])
    example.main()
    scores, sentences = zip(*(line.split("\t") for line in capsys.readouterr().out.splitlines()))
    assert sentences == (row["sentence_bad"], row["sentence_good"])
    np.testing.assert_allclose([*map(float, scores)], row["scores"][::-1], atol=2e-3)


def test_accuracies_count_a_tie_as_half_and_two_spellings_of_a_field_as_one(example):
    pairs = [("a", dict(field="syntax_semantics")), ("a", dict(field="syntax/semantics")), ("b", {})]
    assert example.accuracies(pairs, np.array([-1.0, -2.0, -5.0, -5.0, -2.0, -1.0])) == dict(
        files=dict(a=0.75, b=0.0), fields={"syntax/semantics": 0.75}, mean_of_files=0.375, all=0.5)
