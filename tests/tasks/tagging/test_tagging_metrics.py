"""Scores of tags: seqeval's numbers, and entities by hand."""

import json

import pytest

from albert_tf.tasks.tagging.metrics import are_entity_tags, best_metric, entities, evaluate_tags


def test_scores_are_those_of_seqeval(golden):
    rows = json.loads((golden / "seqeval" / "numbers.json").read_text())
    assert len(rows) > 40
    for row in rows:
        ours = evaluate_tags(row["expected"], row["predicted"], ["O", "B-place"])
        for name in ("accuracy", "precision", "recall", "f1"):
            assert ours[name] == pytest.approx(row[name], abs=1e-12), row
        for name, value in row["types"].items():  # seqeval has also types that were only predicted
            assert ours.get(f"f1/{name}", 0.0) == pytest.approx(value, abs=1e-12), row


@pytest.mark.parametrize("tags, expected", [
    ("O B-a I-a O", [("a", 1, 2)]),
    ("B-a B-a", [("a", 0, 0), ("a", 1, 1)]),
    ("O I-a I-a", [("a", 1, 2)]),  # IOB1, as the first CoNLL-2003 files
    ("B-a I-b I-b", [("a", 0, 0), ("b", 1, 2)]),
    ("B-a I-a E-a S-a O S-b", [("a", 0, 2), ("a", 3, 3), ("b", 5, 5)]),
    ("E-a I-a", [("a", 0, 0), ("a", 1, 1)]),
    ("B-creative-work I-creative-work", [("creative-work", 0, 1)]),
    ("O O", [])])
def test_entities_of_a_sentence(tags, expected):
    assert entities(tags.split()) == expected


def test_scores_by_hand():
    expected = [["B-a", "I-a", "O"], ["B-b", "O", "B-a"]]
    predicted = [["B-a", "O", "O"], ["B-b", "O", "B-a"]]  # the first is too short
    assert evaluate_tags(expected, predicted, ["O", "B-a", "I-a", "B-b"]) == {
        "accuracy": pytest.approx(5 / 6), "precision": pytest.approx(2 / 3), "recall": pytest.approx(2 / 3),
        "f1": pytest.approx(2 / 3), "f1/a": pytest.approx(1 / 2), "f1/b": 1.0}


def test_plain_tags_have_an_accuracy_alone():
    assert evaluate_tags([["NOUN", "VERB"], ["X"]], [["NOUN", "NOUN"], ["X"]], ["NOUN", "VERB", "X"]) == {
        "accuracy": pytest.approx(2 / 3)}
    assert best_metric(["NOUN", "VERB"]) == "accuracy" and best_metric(["O", "B-a"]) == "f1"


@pytest.mark.parametrize("names, expected", [
    (["O", "B-a", "I-a"], True), (["O"], True), (["S-a", "E-a"], True), (["O", "NOUN"], False), (["B-"], False)])
def test_tags_of_entities_are_recognized_by_their_prefixes(names, expected):
    assert are_entity_tags(names) == expected
