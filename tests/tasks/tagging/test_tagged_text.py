"""Files of tagged words: reading, writing, and errors."""

import gzip
import re

import pytest

from albert_tf.tasks.tagging.data import Columns, label_names, read_tagged_text, share_of_words_with_capitals

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


def test_a_compressed_file_has_the_format_of_its_content(tmp_path):
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(CONLLU.encode()))
    text = read_tagged_text(str(tmp_path / "a.conllu.gz"))
    assert words_and_tags(text) == [(("do", "n't", "go"), ("AUX", "PART", "VERB"))]
    text = read_tagged_text(str(tmp_path / "a.conllu.gz"), Columns(1, -1))
    assert words_and_tags(text) == [(("do", "n't", "go"), ("VBP", "RB", "VB"))]


def test_a_hash_is_a_word_elsewhere(tmp_path):
    assert read(tmp_path, "#\tO\n").sentences[0].words == ("#",)


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


def test_the_share_of_words_with_capitals(tmp_path):
    assert share_of_words_with_capitals(read(tmp_path, "Ada\nsold\n\nIT\n5\n")) == 0.5


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
