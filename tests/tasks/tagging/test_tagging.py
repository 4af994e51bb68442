"""Tagging: losses, scores, and the tags of raw texts."""

import gzip
import json
import re
import types

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf

from albert_tf.data.feature_table import FeatureSchema, FeatureTable
from albert_tf.tasks.tagging.metrics import (
    are_entity_tags,
    evaluate,
    evaluate_tags,
    tags_of_sentences,
    word_probabilities,
)
from albert_tf.tasks.tagging.reading import Columns, NamedColumns, label_names, read_tagged_text
from albert_tf.tasks.tagging.task import TaggingObjective

TASK = TaggingObjective(types.SimpleNamespace())


def test_the_loss_is_the_mean_over_tokens_with_a_tag():
    logits = np.log(np.array([[[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.5, 0.5], [0.5, 0.5]]], np.float32))
    batch = dict(tag_ids=tf.constant([[0, 1, 2], [2, 0, 0]]))
    denominators = TASK.loss_denominators(batch)
    assert float(denominators["tags"]) == 3
    loss, _ = TASK.loss(dict(logits=tf.constant(logits)), batch, denominators)
    assert float(loss) == pytest.approx(-np.log([0.9, 0.8, 0.6]).mean(), abs=1e-6)


def test_the_parts_of_a_batch_have_the_loss_of_the_whole():
    random = np.random.default_rng(1)
    logits, tags = random.normal(size=[4, 5, 3]).astype(np.float32), random.integers(0, 4, [4, 5], np.int32)

    def loss(rows, denominators):
        return TASK.loss(dict(logits=tf.constant(logits[rows])), dict(tag_ids=tf.constant(tags[rows])), denominators)[0]

    whole = TASK.loss_denominators(dict(tag_ids=tf.constant(tags)))
    parts = [loss(slice(0, 1), whole), loss(slice(1, 4), whole)]
    assert float(sum(parts)) == pytest.approx(float(loss(slice(0, 4), whole)), abs=1e-6)


def test_a_batch_without_tags_has_no_loss():
    batch = dict(tag_ids=tf.zeros([2, 3], tf.int32))
    assert float(TASK.loss(dict(logits=tf.ones([2, 3, 2])), batch, TASK.loss_denominators(batch))[0]) == 0


@pytest.fixture
def text(tmp_path):
    (tmp_path / "a.tsv").write_text("Ada\tA\nleft\tB\n\nNo\tC\n")
    return read_tagged_text(str(tmp_path / "a.tsv"))


def test_words_have_the_probabilities_of_their_first_pieces_and_their_mean_over_checkpoints(text):
    """Two windows of the first sentence, whose second word has its context in the second; then the second sentence."""
    rows = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0]]
    names = ("input_ids", "segment_ids", "first_pieces", "tag_ids")
    table = FeatureTable(FeatureSchema(4, {}), {name: tf.ragged.constant(rows, dtype=tf.int32) for name in names}, {})
    one = [np.zeros([4, 2], np.float32), np.zeros([4, 2], np.float32), np.zeros([8, 2], np.float32)]
    one[0][1:3] = [[0.5, 0.5], [0, 1]]
    one[1][1:3] = [[1, 0], [0.2, 0.8]]
    one[2][1] = [0.6, 0.4]
    two = [values[:, ::-1] for values in one]
    found = word_probabilities(table, [dict(probabilities=one)])
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]], atol=1e-6)
    both = word_probabilities(table, [dict(probabilities=one), dict(probabilities=two)])
    np.testing.assert_allclose(both, np.full([3, 2], 0.5), atol=1e-6)
    assert tags_of_sentences(text, found, ["A", "B"]) == [["A", "B"], ["A"]]


def test_a_tag_that_the_model_does_not_know_counts_as_wrong_and_has_no_loss(text):
    probabilities = np.array([[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]])
    results = evaluate(text, probabilities, ["A", "B"])
    assert results["accuracy"] == pytest.approx(2 / 3)
    assert results["eval_loss"] == results["loss"] == pytest.approx(-np.log([0.5, 0.8]).mean())


def test_answers_that_are_no_numbers_are_refused(text):
    with pytest.raises(ValueError, match="training has diverged, lower --learning_rate"):
        evaluate(text, np.full([3, 2], np.nan), ["A", "B"])


def test_scores_are_those_of_seqeval(golden):
    rows = json.loads((golden / "seqeval" / "numbers.json").read_text())
    assert len(rows) > 40
    for row in rows:
        ours = evaluate_tags(row["expected"], row["predicted"], ["O", "B-place"])
        for name in ("accuracy", "precision", "recall", "f1"):
            assert ours[name] == pytest.approx(row[name], abs=1e-12), row
        for name, value in row["types"].items():  # seqeval has also types that were only predicted
            assert ours.get(f"f1/{name}", 0.0) == pytest.approx(value, abs=1e-12), row


def test_plain_tags_have_an_accuracy_alone():
    assert evaluate_tags([["NOUN", "VERB"], ["X"]], [["NOUN", "NOUN"], ["X"]], ["NOUN", "VERB", "X"]) == {
        "accuracy": pytest.approx(2 / 3)}


@pytest.mark.parametrize("names, expected", [
    (["O", "B-a", "I-a"], True), (["O"], True), (["S-a", "E-a"], True), (["O", "NOUN"], False), (["B-"], False)])
def test_tags_of_entities_are_recognized_by_their_prefixes(names, expected):
    assert are_entity_tags(names) == expected


CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

-DOCSTART- -X- -X- O
Peter NNP B-NP B-PER
"""
CONLLU = """# text = don't go
1-2\tdon't\t_\t_\t_
1\tdo\tdo\tAUX\tVBP
2\tn't\tnot\tPART\tRB
2.1\tnow\tnow\tADV\tRB
3\tgo\tgo\tVERB\tVB
"""


def read(tmp_path, content, columns=None, name="a.conll"):
    (tmp_path / name).write_text(content, encoding="utf-8")
    return read_tagged_text(str(tmp_path / name), columns)


def words_and_tags(text):
    return [(each.words, each.tags) for each in text.sentences]


def test_sentences_end_at_blank_lines(tmp_path):
    text = read(tmp_path, "\ufeffAda\tB-person\nsold\tO\n\n\nNo\tO\r\n \n")
    assert words_and_tags(text) == [(("Ada", "sold"), ("B-person", "O")), (("No",), ("O",))]
    assert text.num_words == 3 and label_names([text]) == ("B-person", "O")
    assert [each.lines for each in text.sentences] == [(1, 2), (5,)]


def test_the_lines_of_conll_2003_are_read_by_columns(tmp_path):
    assert words_and_tags(read(tmp_path, CONLL_2003)) == [
        (("EU", "rejects"), ("B-ORG", "O")), (("Peter",), ("B-PER",))]
    assert words_and_tags(read(tmp_path, CONLL_2003, Columns(0, 1)))[0] == (("EU", "rejects"), ("NNP", "VBZ"))


def test_comments_and_multiword_tokens_of_conllu_are_no_words(tmp_path):
    text = read(tmp_path, CONLLU, name="a.conllu")
    assert words_and_tags(text) == [(("do", "n't", "go"), ("AUX", "PART", "VERB"))]
    text.write_with_tags(str(tmp_path / "b.conllu"), [["X", "Y", "Z"]])
    assert (tmp_path / "b.conllu").read_text() == CONLLU.replace("AUX", "X").replace("PART", "Y").replace("VERB", "Z")


MULTICONER = """# id 0a-1\tdomain=train
Ada _ _ B-PER
sold _ _ O

# id 0a-2\tdomain=train
# of _ O
it _ _ O
"""
GERMEVAL = """#\thttp://example.org/a [2009-10-17]
1\tAda\tB-PER\tO
2\tsold\tO\tO
"""
CONLLU_10 = re.sub("(.*\t.*)", "\\1\t_\t_\t_\t_\tB-X", CONLLU)


@pytest.mark.parametrize("content, expected", [
    (MULTICONER, [(("Ada", "sold"), ("B-PER", "O")), (("#", "it"), ("O", "O"))]),
    (MULTICONER.replace(" _ _", "\t").replace("# of _ O", "#\tO").replace("\t ", "\t"),
     [(("Ada", "sold"), ("B-PER", "O")), (("#", "it"), ("O", "O"))]),
    (GERMEVAL, [(("Ada", "sold"), ("O", "O"))]),
    (CONLLU_10.replace("B-X", "_", 2), [(("do", "n't", "go"), ("AUX", "PART", "VERB"))]),
    (CONLLU_10, [(("do", "n't", "go"), ("B-X", "B-X", "B-X"))]),
    (CONLLU_10.replace("B-X", "_\tB-X"), [(("do", "n't", "go"), ("B-X", "B-X", "B-X"))]),
    ("#begin document (a); part 000\na 0 Ada X\na 1 # O\n\n#end document\n", [(("a", "a"), ("X", "O"))]),
    ("#Lima\tB-LOC\n#\tO\nis\tO\n\n#\tO\n", [(("#Lima", "#", "is"), ("B-LOC", "O", "O")), (("#",), ("O",))]),
    ("# newdoc\n#tag HASHTAG\nis V\n# SYM\n\n# SYM\n", [
        (("#tag", "is", "#"), ("HASHTAG", "V", "SYM")), (("#",), ("SYM",))]),
    ("#\nAda\n\n# a comment\nsold\n", [(("#", "Ada"), None), (("sold",), None)]),
])
def test_comments_before_a_sentence_are_no_words(tmp_path, content, expected):
    text = read(tmp_path, content)
    assert words_and_tags(text) == expected
    if text.has_tags:
        text.write_with_tags(str(tmp_path / "out"), text.tags)
        assert (tmp_path / "out").read_text() == content


ROWS = [dict(id="0", tokens=["Ada", "sold", "10\u00a0000"], ner_tags=[1, 0, 0]), dict(id="1", tokens=[], ner_tags=[]),
        dict(id="2", tokens=["Lima"], ner_tags=[2])]
NAMES = ["O", "B-PER", "B-LOC"]


def write_rows(path, rows, feature=None):
    if path.suffix == ".parquet":
        table = pyarrow.Table.from_pylist(rows)
        if feature:
            stored = json.dumps(dict(info=dict(features=dict(ner_tags=feature))))
            table = table.replace_schema_metadata(dict(huggingface=stored))
        pyarrow.parquet.write_table(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("name, stored", [("a.jsonl", False), ("a.parquet", False), ("a.parquet", True)])
def test_lists_of_tokens_and_tags_are_sentences(tmp_path, name, stored):
    """The metadata are those that datasets 5.2 writes for List(ClassLabel(names=...))."""
    feature = dict(feature=dict(names=NAMES, _type="ClassLabel"), _type="List") if stored else None
    path = write_rows(tmp_path / name, ROWS, feature)
    text = read_tagged_text(path, tag_names=None if stored else NAMES)
    assert words_and_tags(text) == [(("Ada", "sold", "10\u00a0000"), ("B-PER", "O", "O")), (("Lima",), ("B-LOC",))]
    text.write_with_tags(str(tmp_path / "out.jsonl"), [["O", "O", "B-PER"], ["B-LOC"]])
    assert [json.loads(line) for line in open(tmp_path / "out.jsonl", encoding="utf-8")] == [
        dict(tokens=["Ada", "sold", "10\u00a0000"], ner_tags=["O", "O", "B-PER"]), dict(tokens=[]),
        dict(tokens=["Lima"], ner_tags=["B-LOC"])]


def test_other_columns_have_words_and_tags_and_a_file_may_have_no_tags(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [dict(words=["Ada"], upos=["PROPN"])])
    assert words_and_tags(read_tagged_text(path, NamedColumns("words", "upos"))) == [(("Ada",), ("PROPN",))]
    text = read_tagged_text(path, NamedColumns("words"))
    assert words_and_tags(text) == [(("Ada",), None)]
    with pytest.raises(ValueError, match="a.jsonl has no tags: there is no column 'ner_tags'. Set --columns"):
        text.check_has_tags()
    text.write_with_tags(str(tmp_path / "out"), [["X"]])
    assert (tmp_path / "out").read_text() == '{"words": ["Ada"], "ner_tags": ["X"]}\n'


@pytest.mark.parametrize("row, columns, message", [
    (dict(text="Ada sold", label=[[0, 3, "PER"]]), None, "line 1: 'tokens' must be a list of words. .*Set --columns"),
    (dict(tokens=["Ada", 5], ner_tags=["O", "O"]), None, "line 1: 'tokens' must be a list of words"),
    (dict(tokens=["Ada"], ner_tags=["O", "O"]), None, r"line 1: 'ner_tags' must be a list of 1 tags. Received: \['O'"),
    (dict(tokens=["Ada"], ner_tags=[3]), None, "line 1: the tag 3 has no name: set --tag_names"),
    (dict(tokens=["Ada"], ner_tags=[True]), None, "line 1: the tag True has no name"),
    (dict(tokens=[], ner_tags=[]), None, "a.jsonl has no words"),
    (dict(tokens=["Ada"], ner_tags=["O"]), Columns(), "--columns must be two names, .*a.jsonl. Received: 0,-1")])
def test_rows_without_words_and_tags_are_refused(tmp_path, row, columns, message):
    with pytest.raises(ValueError, match=message):
        read_tagged_text(write_rows(tmp_path / "a.jsonl", [row]), columns, ["O", "B-PER"])
    with pytest.raises(ValueError, match="--columns must be two numbers, .*a.conll. Received: tokens,ner_tags"):
        read(tmp_path, "Ada\tO\n", NamedColumns())


def test_a_compressed_file_has_the_format_of_its_content(tmp_path):
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(CONLLU.encode()))
    text = read_tagged_text(str(tmp_path / "a.conllu.gz"))
    assert words_and_tags(text) == [(("do", "n't", "go"), ("AUX", "PART", "VERB"))]
    text = read_tagged_text(str(tmp_path / "a.conllu.gz"), Columns(1, -1))
    assert words_and_tags(text) == [(("do", "n't", "go"), ("VBP", "RB", "VB"))]


def test_predictions_take_the_place_of_tags_and_nothing_else_changes(tmp_path):
    text = read(tmp_path, CONLL_2003)
    text.write_with_tags(str(tmp_path / "b.conll"), [["O", "B-X"], ["B-Y"]])
    assert (tmp_path / "b.conll").read_text() == CONLL_2003.replace("B-ORG", "O").replace(
        "B-VP O", "B-VP B-X").replace("B-PER", "B-Y")


def test_words_alone_get_a_column_of_tags(tmp_path):
    text = read(tmp_path, "Ada\nsold\n\nNo\n")
    assert not text.has_tags and text.tags == []
    with pytest.raises(ValueError, match="a.conll has no tags: each line must have a word and its tag"):
        text.check_has_tags()
    text.write_with_tags(str(tmp_path / "b"), [["A", "B"], ["C"]])
    assert (tmp_path / "b").read_text() == "Ada\tA\nsold\tB\n\nNo\tC\n"


@pytest.mark.parametrize("content, columns, message", [
    ("", Columns(), "a.conll is empty"),
    ("\n\n", Columns(), "a.conll has no words"),
    ("Ada\tO\n\nNo\tx\n", Columns(0, 2), "line 1: expected at least 3 columns, got 2"),
    ("Ada\tO\nNo\t\n", Columns(), "line 2: the tag is empty"),
    ("\tO\n", Columns(), "line 1: the word is empty"),
    ("Ada\tO\nNo\n", Columns(), "line 2: this word has no tag, but the word of line 1 has one"),
    ("Ada\n\nNo\tO\n", Columns(), "line 3: this word has a tag, but the word of line 1 has none")])
def test_a_wrong_line_is_named(tmp_path, content, columns, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content, columns)


@pytest.mark.parametrize("content", ["10\u00a0000\tO\n", "10\u00a0000 O\n", "\u3000 O\n", "Ada\n10\u00a0000\n"])
def test_only_tabs_and_spaces_separate_columns(tmp_path, content):
    text = read(tmp_path, content)
    words = [line.split("\t")[0].split(" ")[0] for line in content.splitlines()]
    assert list(text.sentences[0].words) == words and text.has_tags == ("O" in content)
    text.write_with_tags(str(tmp_path / "out"), [["X"] * len(words)])
    written = (tmp_path / "out").read_text()
    assert written == (content.replace("O", "X") if text.has_tags else "".join(f"{word}\tX\n" for word in words))


def test_a_conllu_file_without_any_tag_has_none(tmp_path):
    untagged = re.sub(r"AUX|PART|VERB", "_", CONLLU)
    text = read(tmp_path, untagged, name="a.conllu")
    assert not text.has_tags
    text.write_with_tags(str(tmp_path / "b.conllu"), [["AUX", "PART", "VERB"]])
    assert (tmp_path / "b.conllu").read_text() == CONLLU
    assert read(tmp_path, CONLLU.replace("AUX", "_"), name="a.conllu").tags == [("_", "PART", "VERB")]
