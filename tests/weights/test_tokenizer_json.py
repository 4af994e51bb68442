"""The vocabulary of a folder that transformers 5 has saved, which has tokenizer.json and no vocabulary file."""

import json
import shutil

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.from_pretrained import tokenizer_from_pretrained
from albert_tf.weights.hugging_face.tokenizer_json import tokenizer_json, vocabulary_of_tokenizer_json

pytestmark = pytest.mark.both_stacks


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


@pytest.mark.parametrize("in_an_archive", [False, True])
def test_a_vocabulary_without_special_tokens_is_named_as_tokenizer_json(tmp_path, in_an_archive):
    folder = tmp_path / "model"
    save(AlbertModel(AlbertConfig(vocab_size=2, embedding_size=4, hidden_size=8, num_hidden_layers=1,
                                  num_attention_heads=2, intermediate_size=8, max_position_embeddings=4)),
         str(folder), "hugging_face")
    model = dict(type="Unigram", unk_id=0, vocab=[["<unk>", 0.0], ["a", -1.0]])
    (folder / "tokenizer.json").write_text(json.dumps(dict(model=model, added_tokens=[], normalizer=None)))
    path = shutil.make_archive(str(folder), "gztar", tmp_path, "model") if in_an_archive else str(folder)
    with pytest.raises(ValueError) as error:
        tokenizer_from_pretrained(path)
    inside = f"{path}/model" if in_an_archive else path
    assert str(error.value).startswith((f"{path}/tokenizer.json has no [", f"{inside}/tokenizer.json has no ["))


@pytest.mark.parametrize("normalizer, lower", [
    (dict(type="BertNormalizer", lowercase=False), False), (None, False), (dict(type="Lowercase"), True),
    (dict(type="Sequence", normalizers=[dict(type="NFKD"), dict(type="Lowercase")]), True)])
def test_the_normalization_has_the_casing_if_tokenizer_config_has_none(tmp_path, normalizer, lower):
    content = dict(model=dict(type="WordPiece", vocab={"b": 1, "a": 0}), added_tokens=[], normalizer=normalizer)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert vocabulary_of_tokenizer_json(str(tmp_path)).do_lower_case is lower
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(do_lower_case=not lower)))
    assert vocabulary_of_tokenizer_json(str(tmp_path)).do_lower_case is not lower


@pytest.mark.parametrize("normalizer, keep_accents", [
    (dict(type="BertNormalizer", lowercase=True, strip_accents=None), False),
    (dict(type="BertNormalizer", lowercase=True, strip_accents=False), True),
    (dict(type="BertNormalizer", lowercase=False, strip_accents=None), True), (None, True),
    (dict(type="Lowercase"), True), (dict(type="Sequence", normalizers=[dict(type="StripAccents")]), False)])
def test_the_normalization_says_whether_accents_are_kept(tmp_path, normalizer, keep_accents):
    content = dict(model=dict(type="WordPiece", vocab={"b": 1, "a": 0}), added_tokens=[], normalizer=normalizer)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert vocabulary_of_tokenizer_json(str(tmp_path)).keep_accents is keep_accents


@pytest.mark.parametrize("content, message", [
    (dict(model=dict(type="BPE"), added_tokens=[]), r"must be Unigram \(SentencePiece\) or WordPiece. Received: 'BPE'"),
    (dict(model=dict(type="Unigram", unk_id=0, vocab=[["a"]]), added_tokens=[]), "is not a tokenizer.json of transf"),
    (dict(model=dict(type="WordPiece"), added_tokens=[]), "is not a tokenizer.json of transformers: KeyError"),
    ({}, "its model must be .* Received: None"), (dict(model=[]), "its model must be .* Received: None")])
def test_a_damaged_file_is_named(tmp_path, content, message):
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"^{tmp_path}/tokenizer.json.*{message}"):
        vocabulary_of_tokenizer_json(str(tmp_path))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("keep_accents", [True, False])
def test_what_we_write_is_read_as_the_same_tokenizer(golden, tmp_path, lower, keep_accents):
    original = FullTokenizer(None, lower, str(golden / "tiny_spm/tiny.model"), keep_accents)
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_json(original)))
    made = vocabulary_of_tokenizer_json(str(tmp_path)).tokenizer()
    assert (made.do_lower_case, made.keep_accents) == (lower, keep_accents)
    for text in ("She said \"no\" (to him) - 1000 caf\u00e9s.", "", "a..b--c"):
        assert made.encode(text) == original.encode(text)
