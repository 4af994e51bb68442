"""The vocabulary in a folder of weights: found by its usual names, copied with its options."""

import json

import pytest

from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.weights.settings import VocabularyFiles, copy_vocabulary, options_in, vocabulary_in


@pytest.mark.parametrize("names, found", [
    (["30k-clean.model", "30k-clean.vocab"], ("30k-clean.model", None)), (["spiece.model"], ("spiece.model", None)),
    (["my.model"], ("my.model", None)), (["vocab_chinese.txt"], (None, "vocab_chinese.txt")),
    (["one.model", "two.model"], (None, None)), (["30k-clean.model", "two.model"], ("30k-clean.model", None)),
    (["model.safetensors", "readme.txt"], (None, None))])
def test_a_vocabulary_is_found_by_its_usual_names(tmp_path, names, found):
    for name in names:
        (tmp_path / name).write_bytes(b"")
    paths = (name and str(tmp_path / name) for name in found)
    assert vocabulary_in(str(tmp_path)) == VocabularyFiles(*paths, None)


@pytest.mark.parametrize("lower, keep_accents", [(True, None), (False, True), (None, None), (None, False)])
def test_a_copied_vocabulary_keeps_its_options(tmp_path, lower, keep_accents):
    (tmp_path / "vocab.txt").write_text("[CLS]\n")
    vocabulary = VocabularyFiles(None, str(tmp_path / "vocab.txt"), lower, keep_accents)
    copy_vocabulary(vocabulary, str(tmp_path / "new/run"))
    copied = vocabulary_in(str(tmp_path / "new/run"))
    assert copied == VocabularyFiles(None, str(tmp_path / "new/run/vocab.txt"), lower, keep_accents)


@pytest.mark.parametrize("arguments, found", [
    (dict(vocab_file="tokens_zh.txt"), "vocab.txt"), (dict(spm_model_file="spm.30k"), "spiece.model"),
    (dict(vocab_file="my_vocab.txt"), "my_vocab.txt"), (dict(spm_model_file="my.model"), "my.model")])
def test_a_copied_vocabulary_is_found_again_whatever_its_name(tmp_path, arguments, found):
    (field, name), = arguments.items()
    (tmp_path / name).write_text("[CLS]\n")
    copy_vocabulary(VocabularyFiles(**{field: str(tmp_path / name)}), str(tmp_path / "run"))
    assert vocabulary_in(str(tmp_path / "run")) == VocabularyFiles(**{field: str(tmp_path / "run" / found)})


@pytest.mark.parametrize("there, copied", [
    (["spiece.model"], "vocab.txt"), (["30k-clean.model"], "spiece.model"), (["a.model"], "b.model")])
def test_a_vocabulary_beside_which_a_copy_would_not_be_found_is_named(tmp_path, there, copied):
    files = VocabularyFiles(**{"vocab_file" if copied == "vocab.txt" else "spm_model_file": str(tmp_path / copied)})
    (tmp_path / copied).write_text("[CLS]\n")
    (tmp_path / "run").mkdir()
    for name in there:
        (tmp_path / "run" / name).write_text("[CLS]\nthe\n")
    with pytest.raises(ValueError, match=f"run has another vocabulary than .*{copied}, {there[0]}: choose another"):
        copy_vocabulary(files, str(tmp_path / "run"))
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == there
    for name in there:
        (tmp_path / "run" / name).write_text("[CLS]\n")
    if copied != "b.model":  # of two with such names, neither is found
        copy_vocabulary(files, str(tmp_path / "run"))


@pytest.mark.parametrize("stored, options", [
    (dict(), (None, None)), (dict(do_lower_case=True, keep_accents=True), (True, True)),
    (dict(do_lower_case=True, strip_accents=None), (True, None)), (dict(strip_accents=False), (None, True)),
    (dict(do_lower_case=True, strip_accents=True), (True, False)),
    (dict(keep_accents=False, strip_accents=False), (None, False))])
def test_accents_have_another_name_in_hugging_faces_bert(tmp_path, stored, options):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stored))
    assert options_in(str(tmp_path)) == options


@pytest.mark.parametrize("stored, message", [
    (dict(keep_accents="yes"), "keep_accents must be true or false. Received: 'yes'"),
    (dict(strip_accents=1), "strip_accents must be true or false. Received: 1")])
def test_a_wrong_option_is_named(tmp_path, stored, message):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=f"tokenizer_config.json: {message}"):
        options_in(str(tmp_path))


def test_a_copy_replaces_a_read_only_file_and_itself(tmp_path):
    (tmp_path / "vocab.txt").write_text("[CLS]\n")
    (tmp_path / "vocab.txt").chmod(0o444)
    vocabulary = VocabularyFiles(None, str(tmp_path / "vocab.txt"))
    for folder in ("other", "other", "."):
        copy_vocabulary(vocabulary, str(tmp_path / folder))
        assert (tmp_path / folder / "vocab.txt").read_text() == "[CLS]\n"


@pytest.mark.parametrize("text", ["no JSON", "{"])
def test_a_tokenizer_config_that_is_no_json_is_named(tmp_path, text):
    (tmp_path / "tokenizer_config.json").write_text(text)
    with pytest.raises(ValueError, match="tokenizer_config.json line 1: not JSON"):
        vocabulary_in(str(tmp_path))


@pytest.mark.parametrize("user, expected", [
    (VocabularyFiles(), VocabularyFiles("a.model", None, True)),
    (VocabularyFiles(do_lower_case=False), VocabularyFiles("a.model", None, False)),
    (VocabularyFiles(keep_accents=True), VocabularyFiles("a.model", None, True, True)),
    (VocabularyFiles(vocab_file="vocab.txt"), VocabularyFiles(None, "vocab.txt", True)),
    (VocabularyFiles(vocab_file="vocab.txt", do_lower_case=False), VocabularyFiles(None, "vocab.txt", False))])
def test_a_user_sets_the_file_or_an_option_or_both(user, expected):
    assert VocabularyFiles("a.model", None, True).replaced_by(user) == expected


def test_accents_that_cannot_be_removed_are_warned_of(tmp_path, caplog):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(strip_accents=True, do_lower_case=False)))
    assert options_in(str(tmp_path)).do_lower_case is False
    assert "strip_accents is true, but accents are kept here, since text is not lower-cased" in caplog.text


def test_options_that_nobody_sets_are_those_beside_the_vocabulary(tmp_path):
    (tmp_path / "text.txt").write_text("Über Äpfel\n" * 50)
    path = str(tmp_path / "mine.model")
    train_vocabulary([str(tmp_path / "text.txt")], str(tmp_path / "mine"), 22, do_lower_case=False, keep_accents=True)
    given = VocabularyFiles(path)
    assert VocabularyFiles().replaced_by(given) == VocabularyFiles(path, None, False, True)
    stored = VocabularyFiles(None, "vocab.txt", do_lower_case=True)
    assert stored.replaced_by(given) == VocabularyFiles(path, None, True, True)
    assert VocabularyFiles().replaced_by(VocabularyFiles(path, None, True, False)).keep_accents is False
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(keep_accents=False)))
    assert VocabularyFiles().replaced_by(given) == VocabularyFiles(path, None, False, False)


def test_another_vocabulary_than_that_of_the_weights_is_warned_of(tmp_path, caplog):
    contents = {"own.txt": "a\nb\n", "same.txt": "a\nb\n", "other.txt": "a\nc\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    stored, same, other = (VocabularyFiles(vocab_file=str(tmp_path / name)) for name in contents)
    assert stored.replaced_by(same) == same and not caplog.text
    assert stored.replaced_by(other) == other
    assert "other.txt is not the vocabulary that comes with the weights" in caplog.text
