"""The tokenizer as a function from texts to a model's inputs, and back."""

import numpy as np
import pytest
import sentencepiece

from albert_tf.text.packing import PairPacker
from albert_tf.text.tokenization import FullTokenizer

TEXTS = ["The boat, 1990.", "A", "Über  the hill and far away the river runs"]
PAIRS = ["Sold!", "", "to the sea"]


@pytest.fixture(params=["sentence_pieces", "word_pieces"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("pairs", [None, PAIRS])
def test_rows_are_packed_as_the_release_packs_them(tokenizer, pairs):
    batch = tokenizer(TEXTS, pairs, max_seq_length=12)
    packer = PairPacker(tokenizer, 12)
    rows = [packer.pack(tokenizer.encode(text), tokenizer.encode(pair)) for text, pair in zip(TEXTS, pairs or [""] * 3)]
    longest = max(sum(row["input_mask"]) for row in rows)
    for name, array in batch.items():
        assert array.dtype == np.int32
        np.testing.assert_array_equal(array, [row[name][:longest] for row in rows], err_msg=name)


def test_padding_is_to_the_longest_row_or_to_the_length(tokenizer):
    assert tokenizer("A")["input_ids"].shape == (1, len(tokenizer.encode("A")) + 2)
    padded = tokenizer(["A"], max_seq_length=20, padding="max_length")
    assert padded["input_ids"].shape == (1, 20)
    assert padded["input_mask"].sum() == len(tokenizer.encode("A")) + 2
    assert (padded["input_ids"][padded["input_mask"] == 0] == tokenizer.pad_id).all()
    assert tokenizer([])["input_ids"].shape[0] == 0


def test_offsets_cut_the_pieces_out_of_their_texts(sentence_pieces):
    text = "Über the boat, sold"
    batch = sentence_pieces([text], ["far away"], return_offsets=True)
    pieces = sentence_pieces.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    second = pieces.index("[SEP]") + 1
    for place, (piece, (start, end)) in enumerate(zip(pieces, batch["offsets"][0].tolist())):
        source = text if place < second else "far away"
        expected = "" if piece in ("[CLS]", "[SEP]") else piece.replace("▁", "")
        assert source[start:end].strip().lower().replace("ü", "u") == expected


def test_cut_rows_keep_the_offsets_of_what_is_left(sentence_pieces):
    whole = sentence_pieces([TEXTS[2]], ["far away"], return_offsets=True)
    cut = sentence_pieces([TEXTS[2]], ["far away"], max_seq_length=8, return_offsets=True)
    first_length = 1 + int(np.argmax(cut["input_ids"][0] == sentence_pieces.sep_id))
    np.testing.assert_array_equal(cut["offsets"][0, : first_length - 1], whole["offsets"][0, : first_length - 1])
    assert cut["offsets"].shape == (1, 8, 2)


def test_decode_gives_the_normalised_text(sentence_pieces, word_pieces):
    assert sentence_pieces.decode(sentence_pieces("The  Boat, 1990.")["input_ids"][0]) == "the boat, 1990."
    ids = word_pieces.convert_tokens_to_ids(["[CLS]", *word_pieces.tokenize("我们"), "[SEP]", "[PAD]"])
    assert word_pieces.decode(ids) == " ".join(word_pieces.tokenize("我们"))


def test_pieces_inside_a_word_are_joined(word_pieces):
    inside = next(piece for piece in word_pieces.vocab if piece.startswith("##") and len(piece) == 3)
    word = next(piece for piece in word_pieces.vocab if len(piece) == 1 and piece.isalpha())
    assert word_pieces.decode(word_pieces.convert_tokens_to_ids([word, inside])) == word + inside[2:]


@pytest.mark.parametrize("arguments, message", [
    (dict(texts=["a", "b"], text_pairs=["c"]), "Received: 2 texts and 1 text_pairs"),
    (dict(texts="a", padding="left"), "padding must be one of longest, max_length. Received: 'left'"),
    (dict(texts="a", max_seq_length=3), "max_seq_length must be more than 3. Received: 3"),
    (dict(texts=["a", None]), r"texts must be strings. Received: texts\[1\]=None"),
    (dict(texts=[b"a"]), r"texts must be strings. Received: texts\[0\]=b'a'")])
def test_bad_arguments_are_refused(sentence_pieces, arguments, message):
    with pytest.raises(ValueError, match=message):
        sentence_pieces(**arguments)


def test_offsets_of_a_model_without_a_dummy_prefix(tmp_path):
    """The comma rule encodes the number again, and this model then adds no word-start mark."""
    text = "sold in 1990, to him"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text, "in 1990 he sold it, him"] * 20), vocab_size=23,
        model_prefix=str(tmp_path / "plain"), add_dummy_prefix=False, user_defined_symbols=["\u25811990,"], pad_id=0,
        unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"], minloglevel=1)
    tokenizer = FullTokenizer(spm_model_file=str(tmp_path / "plain.model"))
    pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode(text))
    spans = [text[start:end] for start, end in tokenizer([text], return_offsets=True)["offsets"][0][1:-1]]
    assert "," in pieces and "\u25811990" not in pieces
    assert [span.strip() for span in spans] == [piece.strip("\u2581") for piece in pieces]
