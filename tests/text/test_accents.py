"""Tokenizers that keep accents: the pieces of transformers' tokenizers, in graphs too, and their places in the text."""

import functools
import json
import shutil
import unicodedata

import numpy as np
import pytest
from tiny import graph_of

from albert_tf.text.pieces import WORD_START
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key
from albert_tf.weights.vocabulary import vocabulary_of_tokenizer_json

pytestmark = pytest.mark.both_stacks


@pytest.fixture(scope="module")
def cases(golden):
    return json.loads((golden / "accents/cases.json").read_text("utf-8"))


@functools.lru_cache(maxsize=None)
def tokenizer_of(golden, vocabulary, lower):
    name = "spm_model_file" if vocabulary.endswith(".model") else "vocab_file"
    return FullTokenizer(**{name: str(golden / "accents" / vocabulary)}, do_lower_case=lower, keep_accents=True)


@pytest.mark.parametrize("vocabulary, lower", [("spiece.model", True), ("spiece.model", False), ("vocab.txt", True)])
def test_pieces_and_ids_are_those_of_transformers(golden, cases, vocabulary, lower):
    tokenizer, graph_texts, graph_ids = tokenizer_of(golden, vocabulary, lower), [], []
    for case in (case for case in cases if (case["vocabulary"], case["lower"]) == (vocabulary, lower)):
        assert tokenizer.tokenize(tokenizer.preprocess(case["text"])) == case["pieces"]
        assert tokenizer.encode(case["text"]) == tokenizer.convert_tokens_to_ids(case["pieces"])
        graph_texts.append(case["text"])
        graph_ids.append(tokenizer.encode(case["text"]))
    assert len(graph_texts) == 12
    assert graph_of(tokenizer).tokenize(graph_texts).to_list() == graph_ids


@pytest.mark.parametrize("vocabulary", ["spiece.model", "vocab.txt"])
def test_offsets_cut_the_pieces_out_of_the_text(golden, cases, vocabulary):
    tokenizer = tokenizer_of(golden, vocabulary, True)
    texts = dict.fromkeys(case["text"] for case in cases)
    for text in filter(functools.partial(unicodedata.is_normalized, "NFKC"), texts):
        offsets = tokenizer([text], return_offsets=True, max_seq_length=100)["offsets"][0][1:-1]
        _, starts, ends = (rows[0].numpy() for rows in graph_of(tokenizer).tokenize_with_offsets([text]))
        in_bytes = [[len(text[:end].encode()) for end in span] for span in offsets.tolist()]
        covered = "".join(text[start:end] for start, end in offsets.tolist())
        assert "".join(covered.split()) == "".join(text.split())
        parts, graph_parts = ([text.encode()[start:end].decode().strip() for start, end in spans]
                              for spans in (in_bytes, zip(starts, ends)))
        assert graph_parts == parts


@pytest.mark.parametrize(
    "text", ["cafe\u0301 cre\u0300me", "か\u3099っこうへ ﾊﾟン", "मेज़ यहाँ", "\u1112\u1161\u11ab \u1100"])
def test_a_composed_character_has_the_place_of_all_its_parts(golden, text):
    tokenizer = tokenizer_of(golden, "spiece.model", True)
    offsets = tokenizer([text], return_offsets=True)["offsets"][0][1:-1].tolist()
    ids, starts, ends = (rows[0].numpy() for rows in graph_of(tokenizer).tokenize_with_offsets([text]))
    graph_parts = [text.encode()[start:end].decode() for start, end in zip(starts, ends)]
    assert "".join(graph_parts) == text.replace(" ", "")
    of_words = [i for i, piece in enumerate(tokenizer.convert_ids_to_tokens(ids)) if piece != WORD_START]
    assert [text[slice(*offsets[i])].strip() for i in of_words] == [graph_parts[i] for i in of_words]


def test_an_accent_that_is_removed_has_no_place(golden):
    text = "scho\u0308n cafe\u0301"
    tokenizer = FullTokenizer(vocab_file=str(golden / "accents/vocab.txt"))
    offsets = tokenizer([text], return_offsets=True)["offsets"][0][1:-1].tolist()
    _, starts, ends = (rows[0].numpy() for rows in graph_of(tokenizer).tokenize_with_offsets([text]))
    for parts in ([text[start:end] for start, end in offsets],
                  [text.encode()[start:end].decode() for start, end in zip(starts, ends)]):
        assert parts == ["scho\u0308n", "caf", "e"]


def test_tokenizer_json_says_that_accents_are_kept(golden, tmp_path):
    shutil.copy(golden / "accents/hugging_face/tokenizer.json", tmp_path)  # without tokenizer_config.json
    stored = vocabulary_of_tokenizer_json(str(tmp_path))
    assert stored.keep_accents and stored.do_lower_case
    expected = tokenizer_of(golden, "spiece.model", True)
    texts = ["schön", "Élève", "यहाँ", "cafe\u0301"]
    np.testing.assert_equal(stored.tokenizer().encode_batch(texts), expected.encode_batch(texts))
    assert tokenizer_key(stored.tokenizer()) == tokenizer_key(expected)
