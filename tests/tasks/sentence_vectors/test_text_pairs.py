"""Pairs of texts: reading, errors, and features."""

import pytest
import tensorflow as tf

from albert_tf.data.feature_table import FeatureCache
from albert_tf.tasks.classification.data import find_task
from albert_tf.tasks.sentence_vectors.data import (
    TextPair,
    feature_table,
    read_pairs,
    read_scored_pairs,
    read_single_texts,
)


@pytest.mark.parametrize("name, content", [
    ("a.tsv", 'a "text"\tb, c\td\te\né\tf\tg\th\n'), ("a.csv", '"a ""text""","b, c",d,e\né,f,g,h\n'),
    ("a.jsonl", '{"text_a": "a \\"text\\"", "text_b": "b, c", "negative_1": "d", "negative_2": "e"}\n'
                '{"text_a": "é", "text_b": "f", "negative_2": "h", "negative_1": "g"}\n')])
def test_negatives_are_the_columns_after_the_pair(tmp_path, name, content):
    (tmp_path / name).write_text(content, "utf-8")
    pairs = [TextPair('a "text"', "b, c", negatives=("d", "e")), TextPair("é", "f", negatives=("g", "h"))]
    assert read_pairs(str(tmp_path / name), num_negatives=2) == pairs
    assert read_pairs(str(tmp_path / name)) == [pair._replace(negatives=()) for pair in pairs]
    with pytest.raises(ValueError, match=f"{name} lines? 1.*: (expected 5 columns, got 4|no 'negative_3' among)"):
        read_pairs(str(tmp_path / name), num_negatives=3)


@pytest.mark.parametrize("content, message", [
    ("one\ttwo\nthree\n", "line 2: expected 2 columns, got 1"), ("one\t \n", "line 1: a text is empty"),
    ("", "a.tsv is empty"), ("\n\n", "a.tsv has no pairs"), ("one\ttwo\t\n", "line 1: a text is empty")])
def test_a_wrong_row_is_named(tmp_path, content, message):
    (tmp_path / "a.tsv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_pairs(str(tmp_path / "a.tsv"), num_negatives=int(content.endswith("two\t\n")))


@pytest.mark.parametrize("header, first", [
    ("sentence1,sentence2,score", "'sentence1', 'sentence2'"), ("id,Sentence 1,Sentence 2", "'id', 'Sentence 1'"),
    ("anchor;positive", None), ("anchor\tpositive", "'anchor', 'positive'")])
def test_a_header_is_not_trained_as_a_pair(tmp_path, header, first):
    separator = "\t" if "\t" in header else ","
    rows = [separator.join(row) for row in (("7", "A boat, maybe.".replace(",", ""), "x"), ("No.", "It sank.", "y"))]
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]))
    message = f"a.csv: the first row looks like a header, and pairs have none: {first}" if first else (
        "a.csv line 1: expected 2 columns, got 1")
    with pytest.raises(ValueError, match=message):
        read_pairs(str(tmp_path / "a.csv"))


def test_pairs_of_words_are_no_header(tmp_path):
    (tmp_path / "a.csv").write_text("boat,ship\nIt sank.,It went down.\nsea,ocean\n")
    assert len(read_pairs(str(tmp_path / "a.csv"))) == 3


def test_blank_lines_are_no_texts(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo words\n")
    assert read_single_texts(str(tmp_path / "a.txt")) == ["one", "two words"]
    (tmp_path / "b.txt").write_text("\n")
    with pytest.raises(ValueError, match="b.txt has no lines"):
        read_single_texts(str(tmp_path / "b.txt"))


def test_scores_of_sts_b_are_cosines(golden):
    pairs = read_scored_pairs(find_task("sts-b"), str(golden / "glue"), "dev", 5.0)
    scores = [2.271, 1.821, 3.708, 1.903, 4.448, 0.391]  # the last column of dev.tsv
    assert [pair.cosine for pair in pairs] == pytest.approx([score / 5 for score in scores])
    assert (pairs[3].second, pairs[4].second) == ("A dessert was served near the glasshouse.", "Zoë measured things.")
    with pytest.raises(ValueError, match="the task rte must be a regression of two texts, as sts-b is"):
        read_scored_pairs(find_task("rte"), str(golden / "glue"), "dev", 5.0)
    with pytest.raises(ValueError, match="sts-b: --best_score is 4, but an example has the score 4.448"):
        read_scored_pairs(find_task("sts-b"), str(golden / "glue"), "dev", 4.0)


def test_each_text_is_a_row_of_its_own(sentence_pieces, tmp_path):
    pairs = [TextPair("the file", "a name", 0.5), TextPair("a " * 20, "of", 1.0)]
    table = feature_table(FeatureCache(sentence_pieces, str(tmp_path)), pairs, "dev", 8)
    batch = table.batch(tf.constant([0, 1], tf.int64), tf.constant(8))
    assert batch["input_ids"].shape == [2, 2, 8] and batch["label_ids"].numpy().tolist() == [0.5, 1]
    ids = [sentence_pieces.cls_id, *sentence_pieces.encode("a name"), sentence_pieces.sep_id]
    assert batch["input_ids"].numpy()[0, 1, : len(ids)].tolist() == ids
    assert batch["input_mask"].numpy()[0, 1].sum() == len(ids) and batch["input_mask"].numpy()[1, 0].sum() == 8
    assert not batch["segment_ids"].numpy().any()
