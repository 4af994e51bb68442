"""Texts to pieces, ids and arrays, as the release's tokenization does; also without TensorFlow."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece

from albert_tf.tasks.squad.alignment import align_paragraphs
from albert_tf.text.graph.tokenization import GraphTokenizer
from albert_tf.text.packing import PairPacker
from albert_tf.text.pieces import clean, encode_ids, encode_pieces, load_vocab, preprocess_text
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key, warn_of_unknown_pieces, word_starts

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


@pytest.mark.parametrize("lower", [True, False])
def test_wordpiece_is_the_releases(lower):
    tokenizer = FullTokenizer(vocab_file=str(GOLDEN / "wordpiece/vocab.txt"), do_lower_case=lower)
    assert tokenizer.vocab_size == WORDPIECE["vocab_size"]
    for case in WORDPIECE["cases"]:
        if case["do_lower_case"] == lower:
            assert tokenizer.tokenize(case["text"]) == case["tokens"]
            assert tokenizer.encode(case["text"]) == case["ids"]


def test_a_vocabulary_file_is_read_with_the_releases_oddities_and_without_a_byte_order_mark(caplog, tmp_path):
    vocab = load_vocab(str(GOLDEN / "wordpiece/vocab_odd.txt"))
    assert "lines repeat an earlier one and get no id" in caplog.text
    assert [list(item) for item in vocab.items()] == WORDPIECE["vocab_odd"]
    (tmp_path / "vocab.txt").write_text((GOLDEN / "wordpiece/vocab.txt").read_text("utf-8"), "utf-8-sig")
    assert load_vocab(str(tmp_path / "vocab.txt")) == load_vocab(str(GOLDEN / "wordpiece/vocab.txt"))


def test_by_the_rules_of_transformers_an_id_is_the_number_of_its_line_also_of_repeated_and_empty_lines(tmp_path):
    """transformers 5.24 has these ids."""
    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "\u2028", "", "a", "the\r", "one two", "in \t", "boat"]
    (tmp_path / "vocab.txt").write_text("\n".join([*lines, ""]), newline="")
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"), transformers_rules=True)
    assert tokenizer.encode("The boat in a one two") == [9, 12, 11, 8, 1, 1] and tokenizer.vocab_size == 13
    assert tokenizer.convert_ids_to_tokens([5, 8]) == ["[UNK]", "a"]  # an id without a piece is no error


# A text, its tokens by transformers 5.24, and those by the release.
RULES = {
    "private use": ("the\uf0b7 in\U000f0000", "the in", "[UNK] [UNK]"),
    "not assigned": ("the\u0378", "[UNK]", "[UNK]"),
    "final sigma": ("\u0391\u03a3 \u03a3\u03a3.", "\u03b1 ##\u03c3 \u03c3 ##\u03c3 .",
                    "\u03b1 ##\u03c2 \u03c3 ##\u03c2 ."),
    "word of 100": ("a" * 100, "a" + " ##a" * 99, "a" + " ##a" * 99),
    "word of 101": ("in " + "a" * 101, "in [UNK]", "in a" + " ##a" * 100),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_transformers_and_of_the_release_differ_where_it_is_written(tmp_path, name):
    text, *expected = RULES[name]
    (tmp_path / "vocab.txt").write_text("\n".join([
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
        *"the in a ##a \u03b1 \u03c3 ##\u03c3 ##\u03c2 .".split()]), "utf-8")
    of_transformers, of_release = (
        FullTokenizer(str(tmp_path / "vocab.txt"), transformers_rules=rules) for rules in (True, False))
    assert [" ".join(tokenizer.tokenize(text)) for tokenizer in (of_transformers, of_release)] == expected
    for tokenizer in (of_transformers, of_release):
        batch = tokenizer([text], return_offsets=True)
        assert batch["input_ids"][0][1:-1].tolist() == tokenizer.encode(text)
        ids, starts, ends = GraphTokenizer(tokenizer).tokenize_with_offsets([text])
        assert ids[0].numpy().tolist() == tokenizer.encode(text)
        assert [text.encode()[start:end].decode() for start, end in zip(starts[0].numpy(), ends[0].numpy())] == [
            text[start:end] for start, end in batch["offsets"][0][1:-1]]
    assert tokenizer_key(of_transformers) != tokenizer_key(of_release)


def test_special_pieces_and_a_sentencepiece_model_that_wins_over_a_vocabulary(sentence_pieces):
    ids = [getattr(sentence_pieces, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")]
    assert sentence_pieces.convert_ids_to_tokens(ids) == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert sentence_pieces.vocab_size == sentence_pieces.sp_model.vocab_size() == len(sentence_pieces.vocab)
    assert sentence_pieces.encode_batch([]) == []
    assert FullTokenizer(vocab_file="not/read.vocab", spm_model_file=TINY).vocab == sentence_pieces.vocab


@pytest.mark.parametrize("piece, starts", [
    ("\u2581the", True), ("<unk>", True), ("ing", False), (".", True), ("!!", False), ("://", False), ("7", True),
    ("'", True), ("'s", True), ("e.g", False), ("é", True), ("\u2581", True), ("STOP", False), ("[CLS]", False),
])
def test_which_sentencepieces_start_a_word(piece, starts):
    class OnePiece(FullTokenizer):
        sp_model, vocab, __init__ = object(), {piece: 0}, object.__init__

    assert word_starts(OnePiece())[0] == starts


def test_a_wordpiece_starts_a_word_unless_it_has_the_continuation_prefix(word_pieces):
    starts = word_starts(word_pieces)
    assert all(starts[i] == (not piece.startswith("##")) for piece, i in word_pieces.vocab.items())
    assert 0 < starts.sum() < len(starts)


@pytest.mark.parametrize("first, last", [
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x2A6DF), (0x2A700, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)])
def test_ideographs_are_words_in_the_blocks_that_bert_has(first, last):
    """google-research/bert, tokenization.py, _is_chinese_char."""
    is_word = [clean(chr(code)).startswith(" ") for code in (first - 1, first, last, last + 1)]
    assert is_word == [False, True, True, False]


@pytest.mark.parametrize("files, named", [
    (dict(), "spm_model_file or vocab_file"), (dict(spm_model_file="", vocab_file=""), "spm_model_file or vocab_file"),
    (dict(spm_model_file="nowhere.model"), "no such .* nowhere.model"),
    (dict(vocab_file="nowhere.txt"), "no such .* nowhere.txt"), (dict(spm_model_file=str(GOLDEN)), "is a directory"),
    (dict(spm_model_file=__file__), "not a SentencePiece model"),
    (dict(vocab_file=str(GOLDEN / "wordpiece/vocab_odd.txt")), r"has no \[CLS\]"),
    (dict(vocab_file=str(GOLDEN / "tiny_spm/tiny.vocab")), r"has no \[UNK\]")])
def test_a_wrong_file_is_named(files, named):
    with pytest.raises(ValueError, match=named):
        FullTokenizer(**files)


def test_an_error_names_a_piece_that_is_not_in_the_vocabulary(sentence_pieces, word_pieces):
    with pytest.raises(ValueError, match="outside the vocabulary"):
        sentence_pieces.convert_ids_to_tokens([sentence_pieces.vocab_size])
    with pytest.raises(ValueError, match="'kettel'"):
        word_pieces.convert_tokens_to_ids(["kettel"])


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


def test_offsets_cut_the_pieces_out_of_their_texts_also_of_cut_rows(sentence_pieces):
    text = "Über the boat, sold"
    for length in (100, 8):
        batch = sentence_pieces([text], ["far away"], max_seq_length=length, return_offsets=True)
        pieces = sentence_pieces.convert_ids_to_tokens(batch["input_ids"][0].tolist())
        second = pieces.index("[SEP]") + 1
        for place, (piece, (start, end)) in enumerate(zip(pieces, batch["offsets"][0].tolist(), strict=True)):
            source = text if place < second else "far away"
            expected = "" if piece in ("[CLS]", "[SEP]") else piece.replace("▁", "")
            assert source[start:end].strip().lower().replace("ü", "u") == expected
        assert len(pieces) <= length


def test_decode_gives_the_normalised_text_and_joins_pieces_inside_a_word(sentence_pieces, word_pieces):
    assert sentence_pieces.decode(sentence_pieces("The  Boat, 1990.")["input_ids"][0]) == "the boat, 1990."
    ids = word_pieces.convert_tokens_to_ids(["[CLS]", *word_pieces.tokenize("我们"), "[SEP]", "[PAD]"])
    assert word_pieces.decode(ids) == " ".join(word_pieces.tokenize("我们"))
    inside = next(piece for piece in word_pieces.vocab if piece.startswith("##") and len(piece) == 3)
    word = next(piece for piece in word_pieces.vocab if len(piece) == 1 and piece.isalpha())
    assert word_pieces.decode(word_pieces.convert_tokens_to_ids([word, inside])) == word + inside[2:]


@pytest.mark.parametrize("arguments, received", [
    (dict(texts=["a", "b"], text_pairs=["c"]), "2 texts and 1 text_pairs"), (dict(texts="a", padding="left"), "'left'"),
    (dict(texts="a", max_seq_length=3), "3"), (dict(texts=["a", None]), r"texts\[1\]=None"),
    (dict(texts=[b"a"]), r"texts\[0\]=b'a'")])
def test_bad_arguments_are_refused(sentence_pieces, arguments, received):
    with pytest.raises(ValueError, match=f"Received: {received}$"):
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


UNKNOWN = ["A fine film 😀", "a dull film 😀 😀", "a quiet day 名", "a quiet day"]


@pytest.mark.parametrize("kind, unknown", [("spm_model_file", "<unk>"), ("vocab_file", "[UNK]")])
def test_the_share_of_unknown_pieces_is_warned_of_from_one_per_cent_on(kind, unknown, tmp_path, caplog):
    (tmp_path / "vocab.txt").write_text("\n".join(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film", "quiet", "day"]))
    tokenizer = FullTokenizer(**{kind: str(tmp_path / "vocab.txt") if kind == "vocab_file" else TINY})
    warn_of_unknown_pieces(tokenizer, [*UNKNOWN[:1], *["a quiet day"] * 200], "train.csv")
    assert not caplog.messages
    ids = [i for ids in tokenizer.encode_batch(UNKNOWN) for i in ids]
    warn_of_unknown_pieces(tokenizer, UNKNOWN, "train.csv")
    share, (warning,) = 100 * ids.count(tokenizer.unk_id) / len(ids), caplog.messages
    assert all(part in warning for part in (f"{share:.1f} % of the pieces of train.csv", unknown, "often 😀 名"))


BYTES_TEXT, BYTES = "the \u8239, 1\u524d", {"\u8239": 3, "\u524d": 3}


def test_bytes_of_unknown_characters_have_the_span_of_the_character(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the boat, 19"] * 9), vocab_size=290, byte_fallback=True, hard_vocab_limit=False,
        model_prefix=str(tmp_path / "bytes"), pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, minloglevel=2,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    tokenizer = FullTokenizer(spm_model_file=str(tmp_path / "bytes.model"))
    batch = tokenizer([BYTES_TEXT], return_offsets=True)
    spans = [BYTES_TEXT[start:end] for start, end in batch["offsets"][0]]
    assert {character: spans.count(character) for character in BYTES} == BYTES
    assert tokenizer.decode(batch["input_ids"][0]) == BYTES_TEXT
    paragraph, = align_paragraphs(tokenizer, [BYTES_TEXT])
    first, last = paragraph.pieces_of(4, 4)
    assert last - first == 2 and {*paragraph.starts[first : last + 1], *paragraph.ends[first : last + 1]} == {4}
    graph_ids, starts, ends = GraphTokenizer(tokenizer).tokenize_with_offsets([BYTES_TEXT * 2])
    assert graph_ids[0].numpy().tolist() == tokenizer.encode(BYTES_TEXT * 2)
    spans = [(BYTES_TEXT * 2).encode()[start:end].decode() for start, end in zip(starts[0], ends[0])]
    assert {character: spans.count(character) // 2 for character in BYTES} == BYTES


WITHOUT_TENSORFLOW = """
import json, sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "tensorflow_text", "keras"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NotInstalled())
from albert_tf.text.tokenization import FullTokenizer
flag, path, *texts = sys.argv[1:]
print(json.dumps({name: array.tolist() for name, array in FullTokenizer(**{flag: path})(texts).items()}))
"""


@pytest.mark.parametrize("flag, path", [("spm_model_file", "tiny_spm/tiny.model"),
                                        ("vocab_file", "wordpiece/vocab.txt")])
def test_a_batch_is_the_same_without_tensorflow(golden, flag, path):
    path = str(golden / path)
    command = [sys.executable, "-c", WITHOUT_TENSORFLOW, flag, path, *TEXTS]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == {name: array.tolist() for name, array in FullTokenizer(**{flag: path})(TEXTS).items()}
