"""Tokenization with TensorFlow ops: the ids of FullTokenizer, and the offsets of the pieces in the text."""

import functools
import json
import sys
import time
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from tiny import graph_of

from albert_tf.text.graph.tokenization import GraphNormalization
from albert_tf.text.pieces import basic_tokens, preprocess_text
from albert_tf.text.tokenization import FullTokenizer

pytestmark = pytest.mark.both_stacks

NORMALIZATIONS = {
    "lower case": lambda text: preprocess_text(text, lower=True),
    "cased": preprocess_text,
    "lower case with accents": lambda text: preprocess_text(text, lower=True, keep_accents=True),
    "cased with accents": lambda text: preprocess_text(text, keep_accents=True),
    "WordPiece, lower case": lambda text: " ".join(basic_tokens(text, lower=True)),
    "WordPiece, lower case with accents": lambda text: " ".join(basic_tokens(text, lower=True, keep_accents=True)),
    "WordPiece, cased": lambda text: " ".join(basic_tokens(text, lower=False)),
    "WordPiece of transformers": lambda text: " ".join(basic_tokens(text, lower=True, transformers_rules=True)),
}


@functools.lru_cache(maxsize=None)
def normalization(name):
    return GraphNormalization(NORMALIZATIONS[name])


@pytest.fixture(scope="module")
def cases(golden):
    return json.loads((golden / "tokenization.json").read_text(encoding="utf-8"))["cases"]


@pytest.fixture(scope="module")
def wordpiece_cases(golden):
    return json.loads((golden / "wordpiece/wordpiece.json").read_text(encoding="utf-8"))["cases"]


@pytest.fixture(scope="module", params=["tiny", "real"])
def spm(request, golden):
    """(the name in the golden file, the model's path)"""
    if request.param == "tiny":
        return "tiny", str(golden / "tiny_spm/tiny.model")
    return "real", str(request.getfixturevalue("real_data") / "spm/30k-clean.model")


def placed(tokenizer, text):
    """Each piece with its part of the text."""
    ids, starts, ends = (rows[0].numpy().tolist()
                         for rows in graph_of(tokenizer).tokenize_with_offsets([text]))
    encoded = text.encode("utf-8")
    return [(piece, encoded[start:end].decode("utf-8"))
            for piece, start, end in zip(tokenizer.convert_ids_to_tokens(ids), starts, ends)]


def assert_same_but_ties(tokenizer, actual, expected):
    """Asserts that rows of ids are equal, or segmentations of the same text with the same score."""
    assert len(actual) == len(expected)
    for row, other in zip(actual, expected):
        if row != other:
            assert tokenizer.decode(row) == tokenizer.decode(other)
            scores = (sum(map(tokenizer.sp_model.get_score, ids)) for ids in (row, other))
            assert next(scores) == pytest.approx(next(scores), rel=1e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_all_golden_texts_have_the_releases_pieces(spm, cases, lower):
    name, path = spm
    cases = [case for case in cases if case["lower"] == lower]
    full = FullTokenizer(spm_model_file=path, do_lower_case=lower)
    found, expected = graph_of(full).tokenize([case["text"] for case in cases]).to_list(), [
        case[name]["ids"] for case in cases]
    assert_same_but_ties(full, found, expected)
    assert sum(row != other for row, other in zip(found, expected)) <= (name == "tiny") * 6


@pytest.mark.parametrize("lower", [True, False])
def test_all_golden_texts_have_the_releases_wordpieces(golden, wordpiece_cases, lower):
    cases = [case for case in wordpiece_cases if case["do_lower_case"] == lower]
    tokenizer = graph_of(FullTokenizer(vocab_file=str(golden / "wordpiece/vocab.txt"), do_lower_case=lower))
    assert tokenizer.tokenize([case["text"] for case in cases]).to_list() == [case["ids"] for case in cases]


def test_in_a_data_set_it_does_the_same(sentence_pieces, word_pieces, cases):
    texts = [case["text"] for case in cases]
    for tokenizer in map(graph_of, (sentence_pieces, word_pieces)):
        batches = tf.data.Dataset.from_tensor_slices(texts).batch(7).map(tokenizer.tokenize)
        assert [row for batch in batches for row in batch.to_list()] == tokenizer.tokenize(texts).to_list()


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_every_character_is_normalised_as_in_python(name):
    normalize = NORMALIZATIONS[name]
    assigned = (chr(code) for code in range(sys.maxunicode + 1))
    texts = [f"x{character}y" for character in assigned if unicodedata.category(character) not in ("Cn", "Cs")]
    found = normalization(name)(texts).texts.numpy()
    different = [text for text, theirs in zip(texts, found) if normalize(text).split() != theirs.decode().split()]
    assert different == []


def test_what_unicode_keeps_free_of_characters_is_unknown_and_keeps_its_place(sentence_pieces, word_pieces):
    for tokenizer in (sentence_pieces, word_pieces):
        for text in ("a \uffff b", "a \ufdd0 b", "a \U0010fffe b", "a \U0003ffff b"):
            assert graph_of(tokenizer).tokenize([text]).to_list() == [tokenizer.encode(text)]
            assert [part for _, part in placed(tokenizer, text) if part] == text.split()


@pytest.mark.parametrize("name", [
    "lower case", "WordPiece, lower case", "WordPiece, lower case with accents", "WordPiece of transformers"])
def test_the_greek_sigma_is_final_where_python_says_so(name):
    words = ["ΟΔΟΣ", "ΣΟΦΙΑ", "Σ", "ΑΣ ΒΣ", "ΑΣ.", "ΑΣ.Β", "Α'Σ", "ΑΣ'Β", "Α\u00adΣ", "ΑΣ\u00adΒ", "ΣΣ", "ΑΣΣ", "1Σ",
             "ΑΣ1", "aΣ b", "\u1d2cΣ", "ＡΣ", "ΑΣ\u0301", "\U0001d6ba\U0001d6ba", "Δ.Σ.", "Α'Σ'",
             "ΑΣ-Β", "ΑΣ.中Β", "Α. Σ"]
    texts = [text for word in words for text in (word, "Α", word, "Σ")]  # neighbours in the batch are no context
    found = normalization(name)(texts).texts.numpy()
    of_words = (lambda text: text.split()) if name.startswith("WordPiece") else str  # WordPiece: any number of spaces
    assert [of_words(row.decode()) for row in found] == [of_words(NORMALIZATIONS[name](text)) for text in texts]


def test_pieces_are_placed_in_the_text_as_it_was_before_normalisation(word_pieces, sentence_pieces):
    assert placed(sentence_pieces, "  the \t name") == [("\u2581the", "the"), ("\u2581name", "name")]
    assert placed(sentence_pieces, "in 1,234 of") == [  # a comma after a digit is a separate piece
        ("\u2581in", "in"), ("\u2581", ""), ("\u2581", ""), ("1", "1"), (",", ","), ("2", "2"), ("3", "3"), ("4", "4"),
        ("\u2581of", "of")]
    text = "Ｔhe ﬁle's Ñame…"
    found = placed(sentence_pieces, text)
    assert "".join(piece for piece, _ in found).replace("\u2581", " ").strip() == preprocess_text(text, lower=True)
    assert found[0] == ("\u2581the", "Ｔhe") and all(part in text for _, part in found)
    assert [part for piece, part in found if piece == "."] == ["…"] * 3
    assert [part for _, part in placed(word_pieces, " 中\u200b文ÀÉ!")][:2] == ["中", "文"]


@pytest.mark.parametrize("lower, keep_accents", [(True, False), (False, True)])
def test_quotes_dashes_emojis_and_unknown_characters_anywhere_give_the_pieces_of_python(golden, lower, keep_accents):
    full = FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"), do_lower_case=lower,
                         keep_accents=keep_accents)
    units = ["the", "name", " of ", "w", "中", "文字", "😀", "👍🏽", "한", "한국", "\ue000", "'", "“", "—", "…", "\x01",
             "\u200b", "e\u0301", "\u0301", "ﷺ", "1,", "=", " ", "\u2581"]
    random = np.random.default_rng(1)
    texts = ["".join(random.choice(units, size)) for size in random.integers(1, 60, 600)]
    texts += ["中" * 3000, "the" + "😀" * 3000 + "name", "w\x01中\x01" * 2000]
    assert_same_but_ties(full, graph_of(full).tokenize(texts).to_list(), list(map(full.encode, texts)))


@pytest.mark.parametrize("unit", ["中", "😀", "中\x01"])
def test_time_grows_in_proportion_to_the_length_of_a_word_that_is_unknown(sentence_pieces, unit):
    """320,000 characters took 17.9 seconds when time grew with the square of the length."""
    tokenizer = graph_of(sentence_pieces)
    tokenizer.tokenize(["the name"])
    start = time.monotonic()
    ids, starts, ends = tokenizer.tokenize_with_offsets([f"the {unit * 320_000} name"])
    assert time.monotonic() - start < 5
    assert ids.to_list() == [sentence_pieces.encode(f"the {unit} name")]
    unknown = ids.to_list()[0].index(sentence_pieces.unk_id)
    characters = "".join(character for character in unit if character.isprintable())
    assert starts[0, unknown] == 4
    assert ends[0, unknown] >= 4 + len(characters.encode()) * 320_000


def test_an_empty_text_has_no_pieces(sentence_pieces, word_pieces):
    for tokenizer in (sentence_pieces, word_pieces):
        assert graph_of(tokenizer).tokenize(["", " \n", "\u0301"]).to_list() == [[]] * 3
        assert graph_of(tokenizer).tokenize(tf.zeros([0], tf.string)).to_list() == []


def test_bytes_that_are_no_text_count_as_the_replacement_character(sentence_pieces, word_pieces):
    for tokenizer in (sentence_pieces, word_pieces):
        broken = [b"the \xff name", b"\xc3", b"\xed\xa0\x80 of"]
        whole = [text.decode("utf-8", "replace") for text in broken]
        assert graph_of(tokenizer).tokenize(broken).to_list() == [tokenizer.encode(text) for text in whole]


def test_a_word_of_more_than_200_characters_is_unknown_and_keeps_its_place(word_pieces):
    assert placed(word_pieces, f"{'a' * 201} !") == [("[UNK]", "a" * 201), ("!", "!")]
    assert placed(word_pieces, "é" * 201) == [("[UNK]", "é" * 201)]


def test_a_model_that_distinguishes_two_blanks_from_one_is_refused(tmp_path):
    import sentencepiece

    texts = iter(["one  two   three", "two one three  "] * 50)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=texts, model_prefix=str(tmp_path / "m"), vocab_size=25, remove_extra_whitespaces=False,
        pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"], hard_vocab_limit=False,
        minloglevel=2)
    with pytest.raises(ValueError, match="distinguishes two spaces from one"):
        graph_of(FullTokenizer(spm_model_file=str(tmp_path / "m.model")))
