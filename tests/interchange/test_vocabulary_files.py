"""The vocabulary in a folder of weights: found by its usual names, copied with its casing."""

import pytest

from albert_tf.interchange.vocabulary_files import VocabularyFiles, copy_vocabulary, vocabulary_in


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


@pytest.mark.parametrize("lower", [True, False, None])
def test_a_copied_vocabulary_keeps_its_casing(tmp_path, lower):
    (tmp_path / "vocab.txt").write_text("[CLS]\n")
    copy_vocabulary(VocabularyFiles(None, str(tmp_path / "vocab.txt"), lower), str(tmp_path / "new/run"))
    assert vocabulary_in(str(tmp_path / "new/run")) == VocabularyFiles(None, str(tmp_path / "new/run/vocab.txt"), lower)


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
    (VocabularyFiles(vocab_file="vocab.txt"), VocabularyFiles(None, "vocab.txt", True)),
    (VocabularyFiles(vocab_file="vocab.txt", do_lower_case=False), VocabularyFiles(None, "vocab.txt", False))])
def test_a_user_sets_the_file_or_the_casing_or_both(user, expected):
    assert VocabularyFiles("a.model", None, True).replaced_by(user) == expected


def test_another_vocabulary_than_that_of_the_weights_is_warned_of(tmp_path, caplog):
    contents = {"own.txt": "a\nb\n", "same.txt": "a\nb\n", "other.txt": "a\nc\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    stored, same, other = (VocabularyFiles(vocab_file=str(tmp_path / name)) for name in contents)
    assert stored.replaced_by(same) == same and not caplog.text
    assert stored.replaced_by(other) == other
    assert "other.txt is not the vocabulary that comes with the weights" in caplog.text
