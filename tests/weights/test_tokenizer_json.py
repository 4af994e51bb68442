"""The vocabulary of a folder that transformers 5 has saved, which has tokenizer.json and no vocabulary file."""

import json
import pathlib
import shutil

import pytest
import sentencepiece

from albert_tf.config import AlbertConfig
from albert_tf.text.tokenization import FullTokenizer, tokenizer_key
from albert_tf.weights.hugging_face.tokenizer_json import (
    tokenizer_json,
    vocabulary_of_tokenizer_json,
    write_tokenizer,
)
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


@pytest.mark.parametrize("normalizer, lower, keep_accents", [
    (dict(type="BertNormalizer", lowercase=True, strip_accents=None), True, False),
    (dict(type="BertNormalizer", lowercase=True, strip_accents=False), True, True),
    (dict(type="BertNormalizer", lowercase=False, strip_accents=None), False, True), (None, False, True),
    (dict(type="Lowercase"), True, True),
    (dict(type="Sequence", normalizers=[dict(type="StripAccents")]), False, False),
    (dict(type="Sequence", normalizers=[dict(type="NFKD"), dict(type="Lowercase")]), True, True)])
def test_the_normalization_has_casing_and_accents_if_tokenizer_config_has_none(
        tmp_path, normalizer, lower, keep_accents):
    content = dict(model=dict(type="WordPiece", vocab={"b": 1, "a": 0}), added_tokens=[], normalizer=normalizer)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    read = vocabulary_of_tokenizer_json(str(tmp_path))
    assert (read.do_lower_case, read.keep_accents) == (lower, keep_accents)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(do_lower_case=not lower)))
    assert vocabulary_of_tokenizer_json(str(tmp_path)).do_lower_case is not lower


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
    vocabulary = vocabulary_in(str(folder))
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
