"""What is stored next to weights besides the config: settings and vocabularies, in every format."""

import dataclasses
import json

import pytest
from new_head import head_of_name, model_with_settings
from tiny import TINY

import albert_tf
from albert_tf.export.conversion import convert
from albert_tf.modeling.settings import ClassifierSettings
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.weights.choice import choose
from albert_tf.weights.hugging_face.tokenizer_options import options_in
from albert_tf.weights.settings import SETTINGS
from albert_tf.weights.source import Source
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.vocabulary import VocabularyFiles, copy_vocabulary, vocabulary_in


@pytest.mark.parametrize("to", ["ours", "tf1"])
@pytest.mark.parametrize("earlier", ["sentence_encoder", "multiple_choice", "classifier"])
def test_a_model_in_the_folder_of_a_removed_one_has_none_of_its_settings(tmp_path, earlier, to):
    albert_tf.save_pretrained(model_with_settings(earlier, TINY), str(tmp_path), to=to)
    (tmp_path / "model.ckpt-best.index").unlink()  # as the error for a folder with a model says
    albert_tf.save_pretrained(albert_tf.AlbertClassifier(TINY, 2), str(tmp_path), to=to)
    source = open_model(str(tmp_path))
    assert source.head == "classifier" and source.settings == ClassifierSettings()
    assert albert_tf.from_pretrained(str(tmp_path), model="classifier").settings.label_names is None


@pytest.mark.parametrize("is_run, name, requested, expected", [
    (True, "doc_stride", None, 24), (False, "doc_stride", None, 24), (True, "doc_stride", 9, 24),
    (False, "doc_stride", 9, 9), (True, "max_query_length", 7, 7)])
def test_a_run_keeps_its_settings_and_other_weights_give_those_that_are_not_requested(
        tmp_path, is_run, name, requested, expected):
    path = str(tmp_path / "model")
    albert_tf.save_pretrained(albert_tf.AlbertSpan(TINY, doc_stride=24), path)
    model = choose(Source(), output_dir=path) if is_run else choose(Source(init_checkpoint=path))
    assert model.effective_value(name, requested) == expected


@pytest.mark.parametrize("name", ["token_classifier", "multiple_choice"])
def test_a_conversion_beside_a_checkpoint_leaves_its_settings_and_without_them_defaults_are_read(tmp_path, name):
    model = model_with_settings(name, TINY)
    albert_tf.save_pretrained(model, str(tmp_path))
    convert(open_model(str(tmp_path)), str(tmp_path), "hugging_face")
    assert open_model(str(tmp_path)).settings.content() == model.settings.content()
    (tmp_path / SETTINGS).unlink()
    (tmp_path / "config.json").unlink()
    read = albert_tf.from_pretrained(str(tmp_path), model=head_of_name(name))
    assert name != "multiple_choice" or read.settings.num_choices == 4


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


@pytest.mark.parametrize("name, found, options", [
    ("tokens_zh.txt", "vocab.txt", (True, None)), ("my_vocab.txt", "my_vocab.txt", (False, True)),
    ("spm.30k", "spiece.model", (None, None)), ("my.model", "my.model", (None, False))])
def test_a_copied_vocabulary_is_found_again_with_its_options_whatever_its_name(tmp_path, name, found, options):
    (tmp_path / name).write_text("[CLS]\n")
    (tmp_path / name).chmod(0o444)
    field = "vocab_file" if name.endswith(".txt") else "spm_model_file"
    vocabulary = VocabularyFiles(**{field: str(tmp_path / name)}, do_lower_case=options[0], keep_accents=options[1])
    for _ in range(2):  # the second one replaces the first one, which nobody may write
        copy_vocabulary(vocabulary, str(tmp_path / "new/run"))
    copied = dataclasses.replace(vocabulary, **{field: str(tmp_path / "new/run" / found)})
    assert vocabulary_in(str(tmp_path / "new/run")) == copied
    copy_vocabulary(copied, str(tmp_path / "new/run"))
    assert (tmp_path / "new/run" / found).read_text() == "[CLS]\n"


@pytest.mark.parametrize("there, copied", [
    (["spiece.model"], "vocab.txt"), (["30k-clean.model"], "spiece.model"), (["a.model"], "b.model")])
def test_a_vocabulary_beside_which_a_copy_would_not_be_found_is_named(tmp_path, there, copied):
    files = VocabularyFiles(**{"vocab_file" if copied == "vocab.txt" else "spm_model_file": str(tmp_path / copied)})
    (tmp_path / copied).write_text("[CLS]\n")
    (tmp_path / "run").mkdir()
    for name in there:
        (tmp_path / "run" / name).write_text("[CLS]\nthe\n")
    with pytest.raises(ValueError, match=f"run .*{copied}, {there[0]}"):
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
    assert options_in(str(tmp_path))[:2] == options


def test_a_user_sets_the_file_or_an_option_and_the_rest_is_that_beside_the_file(tmp_path, caplog):
    stored = VocabularyFiles("a.model", None, True)
    for user, expected in (((), stored), ((None, None, False), VocabularyFiles("a.model", None, False)),
                           ((None, None, None, True), VocabularyFiles("a.model", None, True, True)),
                           ((None, "vocab.txt"), VocabularyFiles(None, "vocab.txt", True)),
                           ((None, "vocab.txt", False), VocabularyFiles(None, "vocab.txt", False))):
        assert stored.with_overrides(VocabularyFiles(*user)) == expected
    (tmp_path / "text.txt").write_text("Über Äpfel\n" * 50)
    path = str(tmp_path / "mine.model")
    train_vocabulary([str(tmp_path / "text.txt")], str(tmp_path / "mine"), 22, do_lower_case=False, keep_accents=True)
    given = VocabularyFiles(path)
    assert VocabularyFiles().with_overrides(given) == VocabularyFiles(path, None, False, True)
    stored = VocabularyFiles(None, "vocab.txt", do_lower_case=True)
    assert stored.with_overrides(given) == VocabularyFiles(path, None, True, True)
    assert VocabularyFiles().with_overrides(VocabularyFiles(path, None, True, False)).keep_accents is False
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(keep_accents=False)))
    assert VocabularyFiles().with_overrides(given) == VocabularyFiles(path, None, False, False)
    (tmp_path / "mine.model.manifest.json").write_text("")  # as a power cut leaves it
    with pytest.raises(ValueError, match="mine.model.manifest.json says that its files are not complete"):
        VocabularyFiles().with_overrides(given)
    caplog.clear()
    (tmp_path / "tokenizer_config.json").unlink()
    contents = {"own.txt": "a\nb\n", "same.txt": "a\nb\n", "other.txt": "a\nc\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    stored, same, other = (VocabularyFiles(vocab_file=str(tmp_path / name)) for name in contents)
    assert stored.with_overrides(same) == same and not caplog.text
    assert stored.with_overrides(other) == other
    assert "other.txt is not the vocabulary that comes with the weights" in caplog.text
