"""Hard negatives: those that sentence-transformers mines, files, errors."""

import json

import pytest

import albert_tf
from albert_tf.tasks.sentence_vectors.features import TextPair, read_pairs
from albert_tf.tasks.sentence_vectors.mining import MiningOptions, as_rows, mine_negatives


@pytest.fixture(scope="module")
def numbers(golden):
    return json.loads((golden / "sentence_transformers/numbers.json").read_text())["mining"]


def test_negatives_are_those_of_sentence_transformers(golden, numbers):
    path = str(golden / "sentence_transformers/mean_normalized")
    model = albert_tf.from_pretrained(path, model="sentence_encoder")
    tokenizer = albert_tf.tokenizer_from_pretrained(path)
    pairs = [TextPair(*pair) for pair in numbers["pairs"]]
    for settings, expected in zip(numbers["settings"], numbers["mined"]):
        assert expected, settings
        mined = mine_negatives(model, tokenizer, pairs, MiningOptions(**settings), numbers["corpus"])
        # sentence-transformers puts the pairs of a query side by side
        assert sorted(pair.texts for pair in mined) == sorted(expected), settings


@pytest.mark.parametrize("name", ["mined.tsv", "mined.csv", "mined.jsonl"])
def test_a_written_file_is_read_again(tmp_path, name):
    pairs = [TextPair('a "text"', "b, c", negatives=("d", "e")), TextPair("é", "f", negatives=("g", "h"))]
    (tmp_path / name).write_text(as_rows(pairs, name), "utf-8")
    assert read_pairs(str(tmp_path / name), num_negatives=2) == pairs
    assert read_pairs(str(tmp_path / name)) == [pair._replace(negatives=()) for pair in pairs]
    with pytest.raises(ValueError, match=f"{name} line 1: (expected 5 columns, got 4|no 'negative_3' among)"):
        read_pairs(str(tmp_path / name), num_negatives=3)


def test_an_empty_negative_and_a_tab_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,\n")
    with pytest.raises(ValueError, match="a.csv line 1: a text is empty"):
        read_pairs(str(tmp_path / "a.csv"), num_negatives=1)
    with pytest.raises(ValueError, match="x.tsv: a .tsv cannot have a text with a tab"):
        as_rows([TextPair("a\tb", "c")], "x.tsv")


@pytest.mark.parametrize("arguments, message", [
    (dict(num_negatives=0), "num_negatives must be a whole number from 1"),
    (dict(range_min=-1), "range_min must be a whole number from 0"),
    (dict(range_min=2, range_max=4), r"range_max must be at least range_min \+ num_negatives, 2 \+ 3. Received: 4")])
def test_a_wrong_option_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        MiningOptions(**arguments)
