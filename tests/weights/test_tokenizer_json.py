"""The vocabulary of a folder that transformers 5 has saved, which has tokenizer.json and no vocabulary file."""

import dataclasses
import json
import pathlib
import shutil
import sys

import pytest
import sentencepiece

from albert_tf.config import AlbertConfig
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key
from albert_tf.weights.hugging_face.tokenizer_json import (
    tokenizer_json,
    vocabulary_of_tokenizer_json,
    write_tokenizer,
)
from albert_tf.weights.hugging_face.tokenizer_options import WHITE_SPACE
from albert_tf.weights.vocabulary import copy_vocabulary, vocabulary_in

pytestmark = pytest.mark.both_stacks
GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
ADDED = json.loads((GOLDEN / "added_tokens.json").read_text("utf-8"))


def test_the_sentencepiece_model_that_is_made_encodes_as_the_original_one(golden):
    made = vocabulary_of_tokenizer_json(str(golden / "hf/tokenizer")).tokenizer()
    original = FullTokenizer(spm_model_file=str(golden / "tiny_spm/tiny.model"), do_lower_case=True)
    assert made.vocab == original.vocab and made.do_lower_case
    for piece_id in range(original.vocab_size):
        for name in ("get_score", "is_control", "is_unknown"):
            assert getattr(made.sp_model, name)(piece_id) == getattr(original.sp_model, name)(piece_id)
    texts = texts_of(json.loads((golden / "tokenization.json").read_text("utf-8")))
    assert len(texts) > 100
    for text in texts:
        assert made.sp_model.encode(text) == original.sp_model.encode(text), text
        assert made.tokenize(text) == original.tokenize(text), text


def texts_of(value):
    """All strings named "text" or "preprocessed" in a value of JSON."""
    if isinstance(value, dict):
        own = [value[name] for name in ("text", "preprocessed") if isinstance(value.get(name), str)]
        return own + [text for part in value.values() for text in texts_of(part)]
    return [text for part in value for text in texts_of(part)] if isinstance(value, list) else []


def test_the_lines_of_a_wordpiece_vocabulary_are_in_the_order_of_their_ids(golden):
    vocabulary = vocabulary_of_tokenizer_json(str(golden / "sentence_transformers/cls"))
    assert vocabulary.do_lower_case and not vocabulary.spm_model_file
    with open(vocabulary.vocab_file, encoding="utf-8") as file:
        assert file.read() == (golden / "wordpiece/vocab.txt").read_text("utf-8")


# Classes that follow tokenizer.json, and one that transformers makes anew from tokenizer_config.json.
GENERIC, OTHER = ("PreTrainedTokenizerFast", "TokenizersBackend"), "BertTokenizer"


def changed(golden, folder, name, change, tokenizer_class=GENERIC[0], **config):
    """Copies a golden tokenizer.json, changed by a function, into a folder, and writes tokenizer_config.json."""
    content = json.loads((golden / name / "tokenizer.json").read_text("utf-8"))
    change(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(config, tokenizer_class=tokenizer_class)))
    return content


BERT, ALBERT = "sentence_transformers/cls", "hf/tokenizer"


@pytest.mark.parametrize("strip_accents", [None, True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("tokenizer_class", [*GENERIC, OTHER])
@pytest.mark.parametrize("with_vocabulary", [True, False])
def test_casing_comes_from_the_file_that_transformers_follows(
        golden, tmp_path, lower, strip_accents, tokenizer_class, with_vocabulary):
    def change(content):
        content["normalizer"].update(lowercase=lower, strip_accents=strip_accents)

    is_generic = tokenizer_class in GENERIC
    config = dict(do_lower_case=not lower) if is_generic else dict(do_lower_case=lower, strip_accents=strip_accents)
    changed(golden, tmp_path, BERT, change, tokenizer_class, **config)
    if with_vocabulary:
        shutil.copy(golden / "wordpiece/vocab.txt", tmp_path)
    if strip_accents and not lower:
        with pytest.raises(ValueError, match="strip_accents"):
            vocabulary_in(str(tmp_path))
        return
    read = vocabulary_in(str(tmp_path)) if with_vocabulary else vocabulary_of_tokenizer_json(str(tmp_path))
    by_default = not lower if is_generic else None
    assert (read.do_lower_case, read.keep_accents) == (
        lower, by_default if strip_accents is None else not strip_accents)


def test_berts_class_lower_cases_unless_its_config_says_otherwise(golden, tmp_path):
    """transformers 5.24 ignores the normalizer of tokenizer.json there."""
    changed(golden, tmp_path, BERT, lambda content: content["normalizer"].update(lowercase=False), OTHER)
    assert vocabulary_of_tokenizer_json(str(tmp_path)).tokenizer().do_lower_case


def with_gap(vocab):
    vocab.update({piece: piece_id + 3 for piece, piece_id in vocab.items() if piece_id > 20})


def with_line_break(vocab):
    del vocab[next(piece for piece, piece_id in vocab.items() if piece_id == 20)]
    vocab["a\nb"] = 20


def with_white_space(vocab):
    """The piece never occurs, and a line of it is the line of another piece."""
    last = max(vocab, key=vocab.get)
    vocab["boat "] = vocab.pop(last)


@pytest.mark.parametrize("change", [with_gap, with_line_break, with_white_space])
def test_each_id_of_tokenizer_json_stays_its_pieces_also_after_a_conversion(golden, tmp_path, change):
    vocab = changed(golden, tmp_path, BERT, lambda content: change(content["model"]["vocab"]))["model"]["vocab"]
    read = vocabulary_of_tokenizer_json(str(tmp_path))
    words = [piece for piece in vocab if piece.isalpha() and piece.islower() and piece.isascii()]
    size = max(vocab.values()) + 1
    write_tokenizer(read, str(tmp_path / "written"), AlbertConfig(vocab_size=size), None, needs_tokenizer_json=True)
    copy_vocabulary(read, str(tmp_path / "copied"))
    folders = [vocabulary_in(str(tmp_path / name)) for name in ("written", "copied")]
    for tokenizer in (each.tokenizer() for each in (
            read, *folders, vocabulary_of_tokenizer_json(str(tmp_path / "written")))):
        assert len(words) > 20 and tokenizer.encode(" ".join(words)) == [vocab[word] for word in words]
        assert tokenizer.vocab_size == size and len(tokenizer.convert_ids_to_tokens(range(size))) == size
        assert tokenizer_key(tokenizer) == tokenizer_key(read.tokenizer())


@pytest.mark.parametrize("piece_id, message", [
    (-1, "Received: -1"), ("20", "Received: '20'"), (20.0, "Received: 20.0"), (True, "Received: True"),
    (10**9, "Received: 1000000000"), (7, "two pieces have the same id")])
def test_ids_that_cannot_be_are_refused(golden, tmp_path, piece_id, message):
    changed(golden, tmp_path, BERT, lambda content: content["model"]["vocab"].update(boat=piece_id))
    with pytest.raises(ValueError, match=f"tokenizer.json: model: .*{message}$"):
        vocabulary_of_tokenizer_json(str(tmp_path))


def sequence(*normalizers):
    return dict(type="Sequence", normalizers=list(normalizers))


REPLACE = dict(type="Replace", pattern=dict(String="boat"), content="\u8239")
# The golden file, the step, its new values (or the step itself), and a part of the message.
STEPS = {
    "characters of China": (BERT, "normalizer", dict(handle_chinese_chars=False), "handle_chinese_chars False"),
    "control characters": (BERT, "normalizer", dict(clean_text=False), "clean_text False"),
    "a value that is not known": (BERT, "normalizer", dict(other=1), "other 1"),
    "accents of capitals": (BERT, "normalizer", dict(lowercase=False, strip_accents=True), "accents can be removed"),
    "no normalizer": (BERT, "normalizer", None, "null is"),
    "only NFD": (BERT, "normalizer", sequence(dict(type="NFD")), "'NFD'"),
    "only lower case": (BERT, "normalizer", sequence(dict(type="Lowercase")), "'Lowercase'"),
    "replaces words": (BERT, "normalizer", sequence(REPLACE, dict(type="BertNormalizer")), "'Replace'"),
    "white space": (BERT, "pre_tokenizer", dict(type="WhitespaceSplit"), "'WhitespaceSplit'"),
    "no pre_tokenizer": (BERT, "pre_tokenizer", None, "null is"),
    "unknown": (BERT, "model", dict(unk_token="[PAD]"), r"unk_token '\[PAD\]'"),
    "longer words": (BERT, "model", dict(max_input_chars_per_word=200), "max_input_chars_per_word 200"),
    "prefix": (BERT, "model", dict(continuing_subword_prefix="@@"), "continuing_subword_prefix '@@'"),
    "no post_processor": (BERT, "post_processor", None, "'null'"),
    "another [CLS]": (BERT, "post_processor", dict(type="BertProcessing", sep=["[SEP]", 3], cls=["[PAD]", 0]),
                      "PAD"),
    "id of [CLS]": (BERT, "post_processor", dict(type="BertProcessing", sep=["[SEP]", 3], cls=["[CLS]", 4]),
                    r"\[CLS\] must have its id in the vocabulary, 2. Received: 4"),
    "of ALBERT: replaces words": (ALBERT, "normalizer", sequence(REPLACE), "'Replace'"),
    "of ALBERT: no accents, no NFKD": (ALBERT, "normalizer", sequence(dict(type="StripAccents")), "go together"),
    "of ALBERT: another order": (ALBERT, "normalizer", sequence(dict(type="Lowercase"), dict(type="NFKD")), "NFKD"),
    "of ALBERT: another mark": (ALBERT, "pre_tokenizer", dict(type="Metaspace", replacement="_"), "replacement '_'"),
    "of ALBERT: no marks": (ALBERT, "pre_tokenizer", dict(type="WhitespaceSplit"), "'WhitespaceSplit'"),
    "of ALBERT: no post_processor": (ALBERT, "post_processor", None, "'null'"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_is_not_computed_is_refused_by_its_name(golden, tmp_path, name):
    file, step, values, message = STEPS[name]

    def change(content):
        content[step] = {**content[step], **values} if values and "type" not in values else values

    changed(golden, tmp_path, file, lambda content: None)
    vocabulary_of_tokenizer_json(str(tmp_path))
    changed(golden, tmp_path, file, change)
    with pytest.raises(ValueError, match=f"tokenizer.json: {step}.*{message}"):
        vocabulary_of_tokenizer_json(str(tmp_path))


def test_albert_needs_a_step_that_makes_one_space_of_several(golden, tmp_path):
    def change(content):
        content["pre_tokenizer"] = dict(type="Metaspace", replacement="\u2581", prepend_scheme="always")

    changed(golden, tmp_path, ALBERT, change)
    with pytest.raises(ValueError, match="tokenizer.json: normalizer .* several spaces must count as one"):
        vocabulary_of_tokenizer_json(str(tmp_path))


def test_accepted_steps_can_be_written_in_other_ways(golden, tmp_path):
    def change(content):
        content["normalizer"] = sequence(content["normalizer"])
        content["post_processor"] = dict(type="BertProcessing", sep=["[SEP]", 3], cls=["[CLS]", 2])

    changed(golden, tmp_path, BERT, change)
    expected = FullTokenizer(str(golden / "wordpiece/vocab.txt")).encode("The boat")
    assert vocabulary_of_tokenizer_json(str(tmp_path)).tokenizer().encode("The boat") == expected


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_a_sentencepiece_model_can_have_berts_names_of_padding_and_unknown_pieces(tmp_path, file):
    """transformers 5.24 gives these ids, if the names are in one of the two files."""
    trained(tmp_path, pad_piece="[PAD]", unk_piece="[UNK]")
    named = dict(pad_token="[PAD]", unk_token=dict(content="[UNK]"), cls_token="[CLS]", sep_token="[SEP]")
    (tmp_path / file).write_text(json.dumps(named))
    read = vocabulary_in(str(tmp_path))
    write_tokenizer(read, str(tmp_path / "written"), AlbertConfig(vocab_size=80), None)
    written = json.loads((tmp_path / "written/tokenizer_config.json").read_text())
    assert (written["pad_token"], written["unk_token"]) == ("[PAD]", "[UNK]")
    for tokenizer in (read.tokenizer(), vocabulary_of_tokenizer_json(str(tmp_path / "written")).tokenizer()):
        rows = tokenizer(["the \u8239 sold", "a"])["input_ids"].tolist()
        assert rows == [[2, 5, 7, 11, 10, 5, 1, 22, 13, 16, 9, 3], [2, 5, 6, 3, *[0] * 8]]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("keep_accents", [True, False])
def test_what_we_write_is_read_as_the_same_tokenizer(golden, tmp_path, lower, keep_accents):
    original = FullTokenizer(None, lower, str(golden / "tiny_spm/tiny.model"), keep_accents)
    content = tokenizer_json(original)
    assert not any(token["single_word"] or token["rstrip"] for token in content["added_tokens"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    made = vocabulary_of_tokenizer_json(str(tmp_path)).tokenizer()
    assert (made.do_lower_case, made.keep_accents) == (lower, keep_accents)
    for text in ("She said \"no\" (to him) - 1000 caf\u00e9s.", "", "a..b--c"):
        assert made.encode(text) == original.encode(text)
    assert tokenizer_key(made) == tokenizer_key(original)


@pytest.mark.parametrize("name", ADDED)
def test_texts_are_cut_at_added_tokens_as_by_transformers_also_after_a_conversion(tmp_path, name):
    case, folder = ADDED[name], tmp_path / "theirs"
    folder.mkdir()
    for file, content in case["files"].items():
        (folder / file).write_text(json.dumps(content))
    is_sentencepiece = case["vocabulary"].endswith(".model")
    shutil.copy(GOLDEN / case["vocabulary"], folder / ("spiece.model" if is_sentencepiece else "vocab.txt"))
    if "added" in case:
        content = tokenizer_json(FullTokenizer(spm_model_file=str(GOLDEN / case["vocabulary"])))
        content["added_tokens"] += case["added"]
        (folder / "tokenizer.json").write_text(json.dumps(content))
    # The reader of such a folder sets the rules, which the files alone do not tell.
    vocabulary = dataclasses.replace(vocabulary_in(str(folder)), transformers_rules=not is_sentencepiece or None)
    write_tokenizer(vocabulary, str(tmp_path / "converted"), AlbertConfig(vocab_size=9000), None)
    copy_vocabulary(vocabulary, str(tmp_path / "run"))
    shutil.copytree(tmp_path / "converted", tmp_path / "without_model")
    (tmp_path / "without_model/spiece.model").unlink(missing_ok=True)
    read = [vocabulary, vocabulary_in(str(tmp_path / "converted")), vocabulary_in(str(tmp_path / "run"))]
    if is_sentencepiece:
        read.append(vocabulary_of_tokenizer_json(str(tmp_path / "without_model")))
    for tokenizer in (each.tokenizer() for each in read):
        assert [tokenizer(text)["input_ids"][0].tolist() for text in case["texts"]] == case["ids"]
        assert tokenizer_key(tokenizer) == tokenizer_key(vocabulary.tokenizer())
        for text, batch in ((text, tokenizer(text, return_offsets=True)) for text in case["texts"]):
            assert batch["input_ids"][0].tolist() == tokenizer(text)["input_ids"][0].tolist()
            for token_id, (start, end) in zip(batch["input_ids"][0], batch["offsets"][0]):
                if token_id >= tokenizer.vocab_size - 3:
                    assert text[start:end].strip().lower() in "[e1] [/e1] covid19 f\u00f3o foo new boat the"


def trained(path, **options):
    """The tokenizer of a SentencePiece model with these options of its trainer."""
    sentences = [f"the boat {i} was sold in 19{i}, (it) had a new sail" for i in range(40)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_prefix=str(path / "m"), minloglevel=2, hard_vocab_limit=False,
        **{**dict(
            pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, vocab_size=70, control_symbols=["[CLS]", "[SEP]", "[MASK]"]),
            **options})
    return FullTokenizer(spm_model_file=str(path / "m.model"))


# Options, a text, and one of its pieces. transformers 5.24 gives the same ids with the tokenizer.json that is written.
OPTIONS = {
    "byte_fallback": (dict(byte_fallback=True, vocab_size=330), "the \u8239 sold", "<0xE8>"),
    "add_dummy_prefix": (dict(add_dummy_prefix=False), "the sold", "t"),
    "split_by_whitespace": (dict(split_by_whitespace=False, user_defined_symbols=["\u2581in\u258119"]),
                            "was sold in 19", "\u2581in\u258119"),
    "user_defined_symbols": (dict(user_defined_symbols=["old", "1,"]), "sold", "old"),
    "control_symbols": (dict(control_symbols=["[CLS]", "[SEP]", "[MASK]", "[E1]"]), "the [E1]", "<unk>")}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_the_trainer_are_in_tokenizer_json_and_read_from_it(tmp_path, name):
    options, text, piece = OPTIONS[name]
    original = trained(tmp_path, **options)
    content = tokenizer_json(original)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    made = vocabulary_of_tokenizer_json(str(tmp_path)).tokenizer()
    assert tokenizer_key(made) == tokenizer_key(original)
    assert made.encode(text) == original.encode(text)
    assert piece in original.convert_ids_to_tokens(original.encode(text))
    assert content["model"]["byte_fallback"] is (name == "byte_fallback")
    assert content["pre_tokenizer"]["split"] is (name != "split_by_whitespace")
    assert ("[E1]" in [token["content"] for token in content["added_tokens"]]) is (name == "control_symbols")


@pytest.mark.parametrize("options, message", [
    (dict(treat_whitespace_as_suffix=True), "marks the ends of words"),
    (dict(model_type="bpe"), "is no unigram model")])
def test_options_that_are_not_supported_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=f"m.model {message}"):
        tokenizer_json(trained(tmp_path, **options))


def test_a_vocabulary_of_xlm_roberta_is_refused_by_its_name(tmp_path):
    with pytest.raises(ValueError, match="m.model has no .CLS.: XLM-RoBERTa's vocabularies, with <s> and <"):
        trained(tmp_path, bos_id=2, eos_id=3, control_symbols=["[MASK]"])


def test_the_white_space_of_the_normalizer_is_that_of_all_of_unicode():
    characters = WHITE_SPACE["pattern"]["Regex"][1:-2]
    assert [*characters] == [*filter(str.isspace, map(chr, range(sys.maxunicode + 1)))]
