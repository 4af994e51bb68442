"""What is stored next to weights besides the config: settings and vocabularies, in every format."""

import json

import numpy as np
import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import convert, save
from albert_tf.text.vocabulary import train_vocabulary
from albert_tf.weights.settings import (
    SETTINGS,
    Settings,
    VocabularyFiles,
    copy_vocabulary,
    options_in,
    settings_in,
    vocabulary_in,
    write_settings,
)
from albert_tf.weights.stored_model import head_of_source, open_source

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=16, initializer_range=0.5)
ALL = [Settings("classifier", dict(label_names=("bad", "good"), window_pooling="max", max_windows=8, doc_stride=20,
                                   max_seq_length=9, multi_label=True, single_texts=True, temperature=1.5,
                                   thresholds=(0.25, 0.75)), "reviews", 16.0),
       Settings("sentence_encoder", dict(pooling="max", normalize=True, truncate_dim=4, max_seq_length=9)),
       Settings("multiple_choice", dict(num_choices=5, max_qa_length=6)), Settings("token_classifier", dict(
           label_all_pieces=True)), Settings("span", dict(doc_stride=20, max_query_length=7))]
LABELS = ("O", "B-place", "I-place")
HEADS = {
    "classifier": lambda: albert_tf.AlbertClassifier(TINY, 2, label_names=("bad", "good"), max_seq_length=9,
                                                     max_windows=4),
    "token_classifier": lambda: albert_tf.AlbertTokenClassifier(TINY, 3, label_names=LABELS, max_seq_length=9),
    "span": lambda: albert_tf.AlbertSpan(TINY, max_seq_length=9),
    "conditional_span": lambda: albert_tf.AlbertConditionalSpan(TINY, max_seq_length=9),
    "multiple_choice": lambda: albert_tf.AlbertMultipleChoice(TINY, max_seq_length=9),
    "sentence_encoder": lambda: albert_tf.AlbertSentenceEncoder(TINY, max_seq_length=9),
}
# What runs store of how they read texts.
READING = {
    "classifier": dict(single_texts=True, window_pooling="max", max_windows=5, doc_stride=3),
    "span": dict(doc_stride=7, max_query_length=9),
    "conditional_span": dict(doc_stride=7, max_query_length=9),
    "token_classifier": dict(doc_stride=7, label_all_pieces=True),
    "multiple_choice": dict(max_qa_length=9),
}


@pytest.mark.parametrize("settings", ALL)
def test_what_is_written_is_read_and_replaced_by_later_settings(tmp_path, settings):
    assert settings_in(str(tmp_path)) == Settings()
    write_settings(settings, TINY, str(tmp_path / "new"))
    assert settings_in(str(tmp_path / "new")) == settings
    write_settings(Settings(), TINY, str(tmp_path / "new"))
    assert settings_in(str(tmp_path / "new")) == Settings()


def test_settings_leave_the_casing_of_a_vocabulary_that_is_already_there(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 7}')
    write_settings(Settings("classifier", dict(max_seq_length=9)), TINY, str(tmp_path))
    assert options_in(str(tmp_path)).do_lower_case is False and settings_in(str(tmp_path)).max_seq_length == 9


@pytest.mark.parametrize("content, message", [
    (dict(head="classifier", window_pooling="sum"), "window_pooling must be one of mean, max. Received: 'sum'"),
    (dict(head="classifier", max_windows=0), "max_windows must be a whole number from 1 to 10,000"),
    (dict(head="classifier", doc_stride=-1), "doc_stride must be a whole number from 0 to 65,536"),
    (dict(head="multiple_choice", num_choices="5"), "num_choices must be a whole number from 1 to 10,000"),
    (dict(head="token_classifier", label_all_pieces=1), "label_all_pieces must be true or false. Received: 1"),
    (dict(head="classifier", temperature=0.0), "temperature must be a number from 1e-06 to inf. Received: 0.0"),
    (dict(head="classifier", thresholds=[0.5, 2.0]), "a number in {path}: thresholds must be a number from 0 to 1"),
    (dict(head=3), "'head' must be of type str"),
    (dict(head="spam"), "head must be one of encoder, "),
    (dict(max_windows=3), "unknown key 'max_windows'; the known ones are head, task, lora_alpha"),
    (dict(head="span", max_windows=3), "unknown key 'max_windows'"),
    (dict(head="classifier", label_names="good"), "label_names must be a list. Received: 'good'"),
    (dict(head="classifier", label_names=["bad", 3]), "label_names must be a list of names. Received: 3"),
    (dict(head="classifier", label_names=["bad", "go\nod"]), "label_names"),
])
def test_a_damaged_file_is_named(tmp_path, content, message):
    (tmp_path / SETTINGS).write_text(json.dumps(content))
    with pytest.raises(ValueError) as error:
        settings_in(str(tmp_path))
    path = str(tmp_path / SETTINGS)
    assert path in str(error.value) and message.format(path=path) in str(error.value)


@pytest.mark.parametrize("kind, to", [(kind, to) for kind in READING for to in ("ours", "tf1", "hugging_face")
                                      if to != "hugging_face" or kind != "conditional_span"])
def test_a_converted_run_and_a_saved_model_read_texts_as_before(tmp_path, kind, to):
    reading = READING[kind]
    run = str(tmp_path / "run")
    save(HEADS[kind](), run, "ours")
    write_settings(settings_in(run).replaced(**reading), TINY, run)  # as a run's training does
    convert(open_source(run), str(tmp_path / "converted"), to)
    albert_tf.save_pretrained(albert_tf.from_pretrained(run, model=kind), str(tmp_path / "saved"), to=to)
    convert(open_source(str(tmp_path / "converted")), str(tmp_path / "back"), "ours")
    for folder in ("converted", "saved", "back"):
        settings = open_source(str(tmp_path / folder)).settings
        assert {name: getattr(settings, name) for name in reading} == reading, folder
        model = albert_tf.from_pretrained(str(tmp_path / folder), model=kind)
        assert {name: getattr(model, name) for name in reading} == reading, folder


@pytest.mark.parametrize("to", ["ours", "tf1", "hugging_face"])
def test_five_choices_are_five_in_every_format(tmp_path, to):
    model = albert_tf.AlbertMultipleChoice(TINY, num_choices=5)
    save(model, str(tmp_path / "first"), "ours")
    convert(open_source(str(tmp_path / "first")), str(tmp_path / to), to)
    read = albert_tf.from_pretrained(str(tmp_path / to), model="multiple_choice")
    ids = np.random.default_rng(0).integers(1, 20, [3, 20], np.int32)
    inputs = dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids))  # 5 choices of 4 tokens
    expected = model({name: value.reshape(3, 5, 4) for name, value in inputs.items()})["logits"]
    assert read.num_choices == 5 and expected.shape == (3, 5)
    np.testing.assert_array_equal(read(inputs)["logits"], expected)


def test_weights_without_a_number_of_choices_have_four(tmp_path):
    save(albert_tf.AlbertMultipleChoice(TINY, num_choices=5), str(tmp_path), "ours")
    (tmp_path / SETTINGS).unlink()
    assert albert_tf.from_pretrained(str(tmp_path), model="multiple_choice").num_choices == 4


@pytest.mark.parametrize("has_vocabulary", [True, False])
@pytest.mark.parametrize("kind, to", [(kind, to) for kind in HEADS for to in ("ours", "tf1", "hugging_face", "tf_hub")
                                      if (to != "tf_hub" or kind == "sentence_encoder")
                                      and (to != "hugging_face" or kind != "conditional_span")])
def test_a_converted_model_keeps_its_length_of_rows(tmp_path, golden, kind, to, has_vocabulary):
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model") if has_vocabulary or to == "tf_hub" else None)
    save(HEADS[kind](), str(tmp_path / "first"), "ours", vocabulary)
    convert(open_source(str(tmp_path / "first")), str(tmp_path / "second"), to, kind)
    assert open_source(str(tmp_path / "second")).settings.max_seq_length == 9
    assert albert_tf.from_pretrained(str(tmp_path / "second"), model=kind).max_seq_length == 9


@pytest.mark.parametrize("to", ["ours", "tf1"])
@pytest.mark.parametrize("earlier", ["sentence_encoder", "multiple_choice", "classifier"])
def test_a_model_in_the_folder_of_a_removed_one_has_none_of_its_settings(tmp_path, earlier, to):
    albert_tf.save_pretrained(HEADS[earlier](), str(tmp_path), to=to)
    (tmp_path / "model.ckpt-best.index").unlink()  # as the error for a folder with a model says
    albert_tf.save_pretrained(albert_tf.AlbertClassifier(TINY, 2), str(tmp_path), to=to)
    source = open_source(str(tmp_path))
    assert head_of_source(source) == "classifier" and source.settings == Settings("classifier")
    assert albert_tf.from_pretrained(str(tmp_path), model="classifier").label_names is None


def test_a_hugging_face_folder_beside_a_checkpoint_leaves_its_label_names(tmp_path):
    albert_tf.save_pretrained(HEADS["token_classifier"](), str(tmp_path))
    convert(open_source(str(tmp_path)), str(tmp_path), "hugging_face")
    assert open_source(str(tmp_path)).settings.content() == dict(
        head="token_classifier", label_names=LABELS, max_seq_length=9)


def test_a_folder_of_hugging_face_has_the_length_of_its_own_files(tmp_path, golden):
    """As transformers or sentence-transformers changes them, in the same folder or another one."""
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"))
    for length, read in ((None, TINY.max_position_embeddings), (9, 9)):
        save(albert_tf.AlbertClassifier(TINY, 2, max_seq_length=length), str(tmp_path / f"{length}"), "hugging_face",
             vocabulary)
        assert open_source(str(tmp_path / f"{length}")).settings.max_seq_length == read
    path = tmp_path / "9/tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": 12}))
    assert open_source(str(tmp_path / "9")).settings.max_seq_length == 12
    (tmp_path / "9/sentence_bert_config.json").write_text('{"max_seq_length": 7}')
    assert albert_tf.from_pretrained(str(tmp_path / "9"), model="classifier").max_seq_length == 7


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
    assert options_in(str(tmp_path))[:2] == options


@pytest.mark.parametrize("stored, message", [
    (dict(keep_accents="yes"), "keep_accents must be true or false. Received: 'yes'"),
    (dict(strip_accents=1), "strip_accents must be true or false. Received: 1"),
    (dict(strip_accents=True, do_lower_case=False), "strip_accents is true and do_lower_case false")])
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
    assert VocabularyFiles("a.model", None, True).with_overrides(user) == expected


def test_options_that_nobody_sets_are_those_beside_the_vocabulary(tmp_path):
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


def test_another_vocabulary_than_that_of_the_weights_is_warned_of(tmp_path, caplog):
    contents = {"own.txt": "a\nb\n", "same.txt": "a\nb\n", "other.txt": "a\nc\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    stored, same, other = (VocabularyFiles(vocab_file=str(tmp_path / name)) for name in contents)
    assert stored.with_overrides(same) == same and not caplog.text
    assert stored.with_overrides(other) == other
    assert "other.txt is not the vocabulary that comes with the weights" in caplog.text
