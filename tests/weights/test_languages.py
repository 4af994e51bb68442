"""Models of other languages: folders with the files of their repositories, and what casing options remove."""

import json
import shutil
from collections import OrderedDict

import numpy as np
import pytest
from language_folders import write_tokenizer
from safetensors.numpy import load_file, save_file
from tiny import TINY_TEXT, values_of
from torch_files import save

import albert_tf
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.weights.heads import head_named
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.vocabulary import VocabularyFiles

pytestmark = pytest.mark.both_stacks


@pytest.mark.parametrize("name, lower, keep_accents, lost", [
    ("accents/spiece.model", True, False, "ü é è ä ö"),
    ("accents/spiece.model", False, False, "ü é è ä ö"),
    ("accents/spiece.model", True, True, None),
    ("accents/vocab.txt", True, False, "schön ##é é über ##ँ"),
    ("accents/vocab.txt", False, False, None),  # WordPiece removes accents only with the case
    ("wordpiece/vocab.txt", True, True, "Printer Hollow In Borrowed Or"),
    ("wordpiece/vocab.txt", False, False, None),
    ("tiny_spm/tiny.model", True, False, None),
])
def test_options_that_remove_what_pieces_have_are_warned_of_once(
    golden, tmp_path, caplog, name, lower, keep_accents, lost
):
    path = shutil.copy(golden / name, tmp_path)
    kind = "spm_model_file" if name.endswith(".model") else "vocab_file"
    files = VocabularyFiles(**{kind: path}, do_lower_case=lower, keep_accents=keep_accents)
    for _ in range(2):
        files.tokenizer()
    messages = [each for each in caplog.messages if "that texts lose" in each]
    assert len(messages) == (lost is not None)
    for message in messages:
        assert path in message and f"such as {lost}: " in message and "--keep_accents" in message


@pytest.fixture(scope="module")
def cases(golden):
    return json.loads((golden / "languages/cases.json").read_text("utf-8"))


@pytest.fixture
def folder_of(cases, tmp_path):
    """A function from a repository and the kind of a model to the model, and a folder as in the repository."""
    def get(name, kind="pretrainer", config=None, older=True):
        folder = tmp_path / "folder"
        size = write_tokenizer(cases[name], folder)
        arguments = dict(num_labels=2) if kind == "token_classifier" else {}
        model = head_named(kind).model(TINY_TEXT.replace(vocab_size=size), **arguments)
        save_hugging_face(model, str(tmp_path / "saved"), VocabularyFiles())
        stored = json.loads((tmp_path / "saved/config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**stored, **(config or {})}))
        tensors = load_file(tmp_path / "saved/model.safetensors")
        if older is None:
            save_file(tensors, folder / "model.safetensors")
        else:
            save(OrderedDict(tensors), folder / "pytorch_model.bin", older)
        return model, folder

    return get


@pytest.mark.parametrize("name", [
    "ai4bharat/indic-bert", "ckiplab/albert-base-chinese-ner", "voidful/albert_chinese_base",
    "asafaya/albert-base-arabic", "m3hrdadfi/albert-fa-base-v2", "dccuchile/albert-base-spanish",
    "cservan/fralbert-base-cased", "ALINEAR/albert-japanese-v2", "kykim/albert-kor-base",
    "KB/albert-base-swedish-cased-alpha", "loodos/albert-base-turkish-uncased", "Rostlab/prot_albert"])
def test_folders_of_other_languages_give_the_ids_of_transformers(cases, folder_of, name):
    case, (_, folder) = cases[name], folder_of(name)
    source = open_model(str(folder))
    tokenizer = source.vocabulary.with_overrides(VocabularyFiles(**case["arguments"])).tokenizer(source.config)
    ids = [tokenizer.encode(text) for text in case["texts"]]
    if name == "ai4bharat/indic-bert":  # trained with the release's rule, which transformers has in no setting
        assert ids != case["ids"] != case["ids_with_keep_accents"] != ids
        kept = FullTokenizer(spm_model_file=str(folder / "spiece.model"), keep_accents=True)
        assert [kept.encode(text) for text in case["texts"]] == case["ids_with_keep_accents"]
    else:
        assert ids == case["ids"]
    assert albert_tf.from_pretrained(str(folder), model="pretrainer").config.vocab_size == tokenizer.vocab_size


@pytest.mark.parametrize("name", ["ckiplab/albert-base-chinese-ner", "kykim/albert-kor-base"])
def test_without_a_class_in_tokenizer_config_vocab_txt_has_the_rules_of_bert_tokenizer(folder_of, name):
    _, folder = folder_of(name)
    tokenizer = albert_tf.tokenizer_from_pretrained(str(folder))
    assert tokenizer.encode("好" + "C" * 101)[-1] == tokenizer.unk_id  # a word of over 100 characters


def test_hindi_keeps_vowel_signs_and_loses_virama_and_nukta_by_the_releases_rule(folder_of, cases):
    _, folder = folder_of("ai4bharat/indic-bert")
    tokenizer = albert_tf.tokenizer_from_pretrained(str(folder))
    text = cases["ai4bharat/indic-bert"]["texts"][0]
    assert text == "यहाँ ठंडी हवा में लड़का हिन्दी पढ़ता है।"
    assert tokenizer.preprocess(text) == "यहाँ ठंडी हवा में लडका हिनदी पढता है।"
    assert tokenizer.decode(tokenizer.encode(text)) == "यहाँ ठंडी हवा में लडका हिनदी पढता है।"


@pytest.mark.parametrize("name, kind, config, older", [
    ("ai4bharat/indic-bert", "encoder", dict(architectures=None, hidden_act="gelu"), True),
    ("ckiplab/albert-base-chinese-ner", "token_classifier",
     dict(architectures=["AlbertForTokenClassification"], hidden_act="relu", tokenizer_class="BertTokenizerFast",
          id2label={"0": "B", "1": "I"}, label2id={"B": 0, "I": 1}), False),
    ("asafaya/albert-base-arabic", "pretrainer", dict(architectures=["AlbertForMaskedLM"]), None),
    ("m3hrdadfi/albert-fa-base-v2", "pretrainer", dict(hidden_act="gelu_new"), False),
    ("Rostlab/prot_albert", "encoder", dict(model_type=None, architectures=None, hidden_act="gelu"), True),
])
def test_weights_of_each_kind_are_read(folder_of, name, kind, config, older):
    model, folder = folder_of(name, kind, config, older)
    read = albert_tf.from_pretrained(str(folder), model=kind)
    assert read.config.hidden_act == dict(gelu="gelu_exact", gelu_new="gelu").get(
        config.get("hidden_act"), config.get("hidden_act", read.config.hidden_act))
    values = values_of(read)
    for name, value in values_of(model).items():
        if kind != "token_classifier" or "pooler" not in name:  # transformers' taggers have no pooler
            np.testing.assert_array_equal(values[name], value, err_msg=name)
    if kind == "token_classifier":
        assert open_model(str(folder)).settings.label_names == ("B", "I")
