"""Tokenization, piece for piece as the release does it (golden/tokenization.json, golden/wordpiece)."""

import json
import pathlib

import numpy as np
import pytest

from albert_tf.text.pieces import encode_ids, encode_pieces, load_vocab, preprocess_text
from albert_tf.text.tokenization import FullTokenizer, word_starts

pytestmark = pytest.mark.both_stacks

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
SENTENCEPIECE_CASES = json.loads((GOLDEN / "tokenization.json").read_text(encoding="utf-8"))["cases"]
WORDPIECE = json.loads((GOLDEN / "wordpiece/wordpiece.json").read_text(encoding="utf-8"))
TINY = str(GOLDEN / "tiny_spm/tiny.model")


@pytest.fixture(scope="module", params=["tiny", "real"])
def spm(request):
    """(the name in the golden file, the model's path)"""
    path = TINY if request.param == "tiny" else str(request.getfixturevalue("real_data") / "spm/30k-clean.model")
    return request.param, path


@pytest.fixture(scope="module")
def tiny():
    return FullTokenizer(spm_model_file=TINY)


def test_normalisation_is_the_releases():
    for case in SENTENCEPIECE_CASES:
        assert preprocess_text(case["text"], lower=case["lower"]) == case["preprocessed"]


def test_pieces_and_ids_are_the_releases(spm):
    name, path = spm
    tokenizer = FullTokenizer(spm_model_file=path)
    for case in SENTENCEPIECE_CASES:
        text = case["preprocessed"]
        assert tokenizer.tokenize(text) == encode_pieces(tokenizer.sp_model, text) == case[name]["pieces"]
        assert encode_ids(tokenizer.sp_model, text) == case[name]["ids"]
        assert tokenizer.convert_tokens_to_ids(case[name]["pieces"]) == case[name]["ids"]


@pytest.mark.parametrize("lower", [True, False])
def test_raw_text_is_encoded_alone_and_in_batches_alike(spm, lower):
    name, path = spm
    tokenizer = FullTokenizer(spm_model_file=path, do_lower_case=lower)
    cases = [case for case in SENTENCEPIECE_CASES if case["lower"] == lower]
    batch = tokenizer.encode_batch([case["text"] for case in cases])
    assert all(row.dtype == np.int32 for row in batch)
    assert [row.tolist() for row in batch] == [case[name]["ids"] for case in cases]
    assert [tokenizer.encode(case["text"]) for case in cases] == [case[name]["ids"] for case in cases]


def test_an_empty_batch_is_empty(tiny):
    assert tiny.encode_batch([]) == []


@pytest.mark.parametrize("lower", [True, False])
def test_wordpiece_is_the_releases(lower):
    tokenizer = FullTokenizer(vocab_file=str(GOLDEN / "wordpiece/vocab.txt"), do_lower_case=lower)
    assert tokenizer.vocab_size == WORDPIECE["vocab_size"]
    for case in WORDPIECE["cases"]:
        if case["do_lower_case"] == lower:
            assert tokenizer.tokenize(case["text"]) == case["tokens"]
            assert tokenizer.encode(case["text"]) == case["ids"]


def test_a_vocabulary_file_is_read_with_the_releases_oddities(caplog):
    vocab = load_vocab(str(GOLDEN / "wordpiece/vocab_odd.txt"))
    assert "lines repeat an earlier one and get no id, as in ALBERT's release" in caplog.text
    assert [list(item) for item in vocab.items()] == WORDPIECE["vocab_odd"]


def test_special_pieces_and_the_way_back(tiny):
    assert tiny.convert_ids_to_tokens([tiny.pad_id, tiny.unk_id, tiny.cls_id, tiny.sep_id, tiny.mask_id]) == [
        "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert tiny.vocab_size == tiny.sp_model.vocab_size() == len(tiny.vocab)


def test_the_sentencepiece_model_wins_over_a_vocabulary(tiny):
    tokenizer = FullTokenizer(vocab_file="not/read.vocab", spm_model_file=TINY)
    assert tokenizer.vocab == tiny.vocab and tokenizer.tokenize("the name") == tiny.tokenize("the name")


@pytest.mark.parametrize("piece, starts", [
    ("\u2581the", True), ("<unk>", True), ("ing", False), (".", True), ("!!", False), ("://", False), ("7", True),
    ("'", True), ("'s", True), ("e.g", False), ("é", True), ("\u2581", True), ("STOP", False), ("[CLS]", False),
])
def test_which_sentencepieces_start_a_word(piece, starts):
    class OnePiece:
        sp_model, vocab = object(), {piece: 0}

    assert word_starts(OnePiece)[0] == starts


def test_a_wordpiece_starts_a_word_unless_it_has_the_continuation_prefix():
    tokenizer = FullTokenizer(vocab_file=str(GOLDEN / "wordpiece/vocab.txt"))
    starts = word_starts(tokenizer)
    assert all(starts[i] == (not piece.startswith("##")) for piece, i in tokenizer.vocab.items())
    assert 0 < starts.sum() < len(starts)


@pytest.mark.parametrize("files, message", [
    (dict(), "needs spm_model_file or vocab_file"),
    (dict(spm_model_file="", vocab_file=""), "needs spm_model_file or vocab_file"),
    (dict(spm_model_file="nowhere.model"), "no such SentencePiece model: nowhere.model"),
    (dict(vocab_file="nowhere.txt"), "no such vocabulary file: nowhere.txt"),
    (dict(spm_model_file=__file__), "is not a SentencePiece model"),
    (dict(vocab_file=str(GOLDEN / "wordpiece/vocab_odd.txt")), r"has no \[CLS\]"),
    (dict(vocab_file=str(GOLDEN / "tiny_spm/tiny.vocab")), r"has no \[UNK\]"),
])
def test_a_wrong_file_is_named(files, message):
    with pytest.raises(ValueError, match=message):
        FullTokenizer(**files)


def test_an_error_names_a_piece_that_is_not_in_the_vocabulary(tiny):
    with pytest.raises(ValueError, match="outside the vocabulary"):
        tiny.convert_ids_to_tokens([tiny.vocab_size])
    with pytest.raises(ValueError, match="'kettel' is not in"):
        FullTokenizer(vocab_file=str(GOLDEN / "wordpiece/vocab.txt")).convert_tokens_to_ids(["kettel"])
