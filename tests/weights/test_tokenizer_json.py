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
from albert_tf.weights.hugging_face.tokenizer_json import tokenizer_json
from albert_tf.weights.hugging_face.tokenizer_options import WHITE_SPACE
from albert_tf.weights.hugging_face.writing import write_tokenizer
from albert_tf.weights.vocabulary import copy_vocabulary, vocabulary_in, vocabulary_of_tokenizer_json

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
    read = vocabulary_in(str(tmp_path)) if with_vocabulary else vocabulary_of_tokenizer_json(str(tmp_path))
    if strip_accents and not lower:  # which FullTokenizer does not do
        assert read.tokenizer_json
        return
    by_default = not lower if is_generic else None
    assert (read.do_lower_case, read.keep_accents) == (
        lower, by_default if strip_accents is None else not strip_accents)


def test_berts_class_lower_cases_unless_its_config_says_otherwise(golden, tmp_path):
    """transformers 5.24 ignores the normalizer of tokenizer.json there."""
    changed(golden, tmp_path, BERT, lambda content: content["normalizer"].update(lowercase=False), OTHER)
    assert vocabulary_of_tokenizer_json(str(tmp_path)).tokenizer().do_lower_case


def sequence(*normalizers):
    return dict(type="Sequence", normalizers=list(normalizers))


REPLACE = dict(type="Replace", pattern=dict(String="boat"), content="\u8239")
# The golden file, the step, and its new values (or the step itself).
STEPS = [
    (BERT, "normalizer", dict(handle_chinese_chars=False)), (BERT, "normalizer", dict(clean_text=False)),
    (BERT, "normalizer", dict(other=1)), (BERT, "normalizer", dict(lowercase=False, strip_accents=True)),
    (BERT, "normalizer", None), (BERT, "normalizer", sequence(dict(type="NFD"))),
    (BERT, "normalizer", sequence(REPLACE, dict(type="BertNormalizer"))),
    (BERT, "pre_tokenizer", dict(type="WhitespaceSplit")), (BERT, "pre_tokenizer", None),
    (BERT, "model", dict(unk_token="[PAD]")), (BERT, "model", dict(max_input_chars_per_word=200)),
    (BERT, "model", dict(continuing_subword_prefix="@@")), (BERT, "model", dict(vocab={"[CLS]": 2, "[SEP]": 3})),
    (BERT, "post_processor", None),
    (BERT, "post_processor", dict(type="BertProcessing", sep=["[SEP]", 3], cls=["[PAD]", 0])),
    (BERT, "post_processor", dict(type="BertProcessing", sep=["[SEP]", 3], cls=["[CLS]", 4])),
    (ALBERT, "normalizer", sequence(REPLACE)), (ALBERT, "normalizer", sequence(dict(type="StripAccents"))),
    (ALBERT, "normalizer", sequence(dict(type="Lowercase"), dict(type="NFKD"))),
    (ALBERT, "pre_tokenizer", dict(type="Metaspace", replacement="_")),
    (ALBERT, "pre_tokenizer", dict(type="Metaspace", replacement="\u2581", prepend_scheme="always")),  # several spaces
    (ALBERT, "pre_tokenizer", dict(type="WhitespaceSplit")), (ALBERT, "post_processor", None)]


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_step_that_is_not_computed_here_is_left_to_the_library(golden, tmp_path, number):
    file, step, values = STEPS[number]

    def change(content):
        content[step] = {**content[step], **values} if values and "type" not in values else values

    changed(golden, tmp_path, file, lambda content: None)
    assert not vocabulary_in(str(tmp_path)).tokenizer_json
    changed(golden, tmp_path, file, change)
    assert vocabulary_in(str(tmp_path)).tokenizer_json == str(tmp_path / "tokenizer.json")


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
    pytest.importorskip("tokenizers")
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
    for each in (vocabulary, vocabulary_in(str(tmp_path / "converted")), vocabulary_in(str(tmp_path / "run"))):
        tokenizer = each.tokenizer()
        batch = tokenizer(case["texts"], return_offsets=True)
        assert [ids[mask > 0].tolist() for ids, mask in zip(batch["input_ids"], batch["input_mask"])] == case["ids"]
        assert tokenizer_key(tokenizer) == tokenizer_key(vocabulary.tokenizer())
        for text, row, offsets in zip(case["texts"], batch["input_ids"], batch["offsets"]):
            for token_id, (start, end) in zip(row, offsets):
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


def test_a_vocabulary_of_xlm_roberta_without_tokenizer_json_is_refused_by_its_name(tmp_path):
    with pytest.raises(ValueError, match="m.model has no .CLS.: vocabularies of XLM-RoBERTa need their tokenizer.json"):
        trained(tmp_path, bos_id=2, eos_id=3, control_symbols=["[MASK]"])


def test_the_white_space_of_the_normalizer_is_that_of_all_of_unicode():
    characters = WHITE_SPACE["pattern"]["Regex"][1:-2]
    assert [*characters] == [*filter(str.isspace, map(chr, range(sys.maxunicode + 1)))]
