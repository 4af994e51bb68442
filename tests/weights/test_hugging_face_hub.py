"""Models on the Hugging Face Hub: hf://org/name, read from and uploaded to a hub on this machine."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import torch_files
from huggingface_hub import constants, hf_api
from in_process import loaded
from model_hub import TOKEN, forget, running_hub, set_offline, use_hub
from safetensors.numpy import load_file
from tiny import TINY_TEXT, values_of

import albert_tf
from albert_tf.export.conversion import save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.sentence_encoder import AlbertSentenceEncoder
from albert_tf.text.tokenization import tokenizer_key
from albert_tf.weights.hugging_face import hub
from albert_tf.weights.model_card import write_model_card
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.vocabulary import VocabularyFiles

CONFIG = TINY_TEXT.replace(max_position_embeddings=16)
PATH = "hf://org/tiny"
GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


@pytest.fixture
def model_hub(tmp_path, monkeypatch):
    with running_hub() as running:
        use_hub(monkeypatch, running, tmp_path / "cache")
        yield running
        set_offline(monkeypatch, False)


@pytest.fixture
def folder(tmp_path, golden):
    """A Hugging Face folder of a classifier with two labels."""
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"), None, True)
    save(AlbertClassifier(CONFIG, 2, label_names=("no", "yes")), str(tmp_path / "hf"), "hugging_face", vocabulary)
    return tmp_path / "hf"


def files_in(cache):
    return {path.name for path in cache.rglob("snapshots/*/**/*") if not path.is_dir()}


def assert_same_weights(path, folder):
    ours, theirs = (values_of(albert_tf.from_pretrained(str(place), model="classifier")) for place in (path, folder))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value)


@pytest.mark.both_stacks
def test_only_files_that_are_read_are_downloaded_once_and_the_weights_last(model_hub, folder, tmp_path):
    model_hub.add("org/tiny", folder, pytorch_model__bin=b"\x80\x02", tf_model__h5=b"x", model__onnx=b"x")
    assert_same_weights(PATH, folder)
    tokens, expected = (albert_tf.tokenizer_from_pretrained(str(path)) for path in (PATH, folder))
    assert tokens.tokenize("a b") == expected.tokenize("a b")
    assert tokens.max_seq_length == expected.max_seq_length
    assert files_in(tmp_path / "cache") == {"config.json", "model.safetensors", "spiece.model", "tokenizer.json",
                                            "tokenizer_config.json", "albert_tf.json"} & {
                                                path.name for path in folder.iterdir()}
    order = [os.path.basename(request) for request in model_hub.requests_for_files() if request.startswith("GET")]
    assert order[-1] == "model.safetensors" and len(order) > 3
    forget()
    model_hub.requests.clear()
    assert open_model(PATH).settings.label_names == ("no", "yes")
    assert model_hub.requests and not model_hub.requests_for_files()


def test_without_a_network_the_cache_is_used_and_nothing_is_requested(model_hub, folder, monkeypatch):
    model_hub.add("org/tiny", folder)
    open_model(PATH)
    forget()
    model_hub.requests.clear()
    set_offline(monkeypatch, True)
    assert_same_weights(PATH, folder)
    assert not model_hub.requests
    with pytest.raises(ValueError, match="hf://org/other cannot be downloaded: it is not in the cache, and the hub"):
        open_model("hf://org/other")


def test_a_revision_a_subfolder_and_a_preset_of_keras_hub_are_read(model_hub, folder, tmp_path, golden):
    old, new = model_hub.add("org/tiny", folder, "v1.0"), model_hub.commit("org/tiny", {"README.md": b"moved"})
    model_hub.commit("org/tiny", {f"a/b/{path.name}": path.read_bytes() for path in folder.iterdir()}, "refs/pr/1")
    assert_same_weights("hf://org/tiny@v1.0", folder)
    assert model_hub.requests.count("GET /api/models/org/tiny/revision/v1.0") == 1  # the tag may move meanwhile
    assert_same_weights(f"hf://org/tiny@{old}", folder)
    assert_same_weights("hf://org/tiny@refs/pr/1/a/b", folder)
    assert hub.revision_of("hf://org/tiny@v1.0") == old != new
    preset = shutil.copytree(golden / "keras_hub/classifier", tmp_path / "preset")
    (preset / "assets/tokenizer").mkdir(parents=True)
    shutil.copy(golden / "tiny_spm/tiny.model", preset / "assets/tokenizer/vocabulary.spm")
    model_hub.add("org/preset", preset)
    assert_same_weights("hf://org/preset", preset)
    assert albert_tf.tokenizer_from_pretrained("hf://org/preset").tokenize("the name")


@pytest.mark.parametrize("path, message", [
    *((path, r"hf://org/name\[@revision\]\[/subfolder\].*Received: " + path) for path in (
        "hf://", "hf://name", "hf://org/name@", "hf://org/name/../x", "hf://org/name//x")),
    ("hf://org/tiny@v2", "^hf://org/tiny@v2: .*no such revision$"),
    ("hf://org/tiny@v1.0/nowhere", "^hf://org/tiny@v1.0/nowhere .*model.safetensors .*no file"),
    ("hf://org/tensorflow", r"^hf://org/tensorflow .*, tf_model.h5 \(transformers 4 on TensorFlow\)"),
    ("hf://org/pickle", r"^hf://org/pickle/pytorch_model.bin cannot be read as weights of torch.save: .*'os system'"),
    ("hf://org/unreachable", "^hf://org/unreachable cannot be downloaded: .*not in the cache, and the hub")])
def test_what_cannot_be_read_is_named(model_hub, folder, monkeypatch, tmp_path, path, message):
    model_hub.add("org/tiny", folder, "v1.0")
    (folder / "model.safetensors").unlink()
    model_hub.add("org/tensorflow", folder, tf_model__h5=b"x")
    model_hub.add("org/pickle", folder, pytorch_model__bin=b"\x80\x02cos\nsystem\n.")
    if path.endswith("unreachable"):
        monkeypatch.setattr(hf_api.api, "endpoint", "http://127.0.0.1:9")
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=message):
        open_model(path)
    assert ("pytorch_model.bin" in files_in(tmp_path / "cache")) == (path == "hf://org/pickle")


def renamed_vocabulary(folder):
    (folder / "spiece.model").rename(folder / "my.model")


def added_token(folder):
    """In the files of transformers before version 5."""
    pytest.importorskip("tokenizers")
    vocabulary = VocabularyFiles(str(GOLDEN / "tiny_spm/tiny.model"), None, True)
    shutil.rmtree(folder)
    save(AlbertModel(CONFIG.replace(vocab_size=CONFIG.vocab_size + 8)), str(folder), "hugging_face", vocabulary)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    (folder / "added_tokens.json").write_text(json.dumps({"<name of>": CONFIG.vocab_size}))
    (folder / "special_tokens_map.json").write_text(json.dumps(dict(cls_token="[CLS]")))


def pl_bert(folder):
    save(AlbertModel(CONFIG), str(folder.parent / "pl_bert"), "pl_bert")
    shutil.rmtree(folder)
    (folder.parent / "pl_bert").rename(folder)


def golden_folder(name):
    def change(folder):
        shutil.rmtree(folder)
        shutil.copytree(GOLDEN / name, folder)

    return change


def in_a_subfolder(folder):
    """As sentence-transformers once saved a model, with its tokenizer."""
    golden_folder("sentence_transformers/cls")(folder)
    (folder / "0_Transformer").mkdir()
    for path in folder.glob("*"):
        if path.is_file() and path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(folder / "0_Transformer" / path.name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize("change", [
    lambda folder: None, renamed_vocabulary, added_token, pl_bert, in_a_subfolder,
    *(golden_folder(f"sentence_transformers/{name}") for name in ("mean_normalized", "max", "cross_encoder")),
    *(golden_folder(f"hf/{name}") for name in ("pretraining", "token_classification", "masked_lm")),
    golden_folder("bert/encoder"), golden_folder("keras_hub/classifier")])
def test_a_repository_is_read_as_the_same_folder_on_the_disk(model_hub, folder, change):
    change(folder)
    model_hub.add("org/any", folder)
    theirs, ours = open_model(str(folder)), open_model("hf://org/any")
    assert (ours.config, ours.settings, ours.heads) == (theirs.config, theirs.settings, theirs.heads)
    assert ours.tensors.keys() == theirs.tensors.keys() and bool(ours.vocabulary) == bool(theirs.vocabulary)
    for name in theirs.tensors:
        np.testing.assert_array_equal(ours.value(name), theirs.value(name))
    if theirs.vocabulary:
        tokenizers = [each.vocabulary.tokenizer() for each in (theirs, ours)]
        assert tokenizer_key(tokenizers[0]) == tokenizer_key(tokenizers[1])
        text = "The <name of> a file"
        assert tokenizers[0].tokenize(text) == tokenizers[1].tokenize(text)
        assert change is not added_token or CONFIG.vocab_size in tokenizers[1].encode(text)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "step_1000000.t7", "kokoro-v1_0.pth"])
def test_pickles_are_downloaded_where_there_are_no_safetensors(model_hub, folder, name):
    save(AlbertClassifier(CONFIG, 2), str(folder.parent / "pl_bert"), "pl_bert")
    model_hub.add("org/pl_bert", folder.parent / "pl_bert")
    assert_same_weights("hf://org/pl_bert", folder.parent / "pl_bert")
    torch_files.save(load_file(folder / "model.safetensors"), folder / name)
    (folder / "model.safetensors").unlink()
    (folder / ".hugging_face.manifest.json").unlink()
    model_hub.add("org/torch", folder)
    assert_same_weights("hf://org/torch", folder)
    assert open_model("hf://org/torch").settings.label_names == ("no", "yes")


def test_a_pooling_and_weights_in_several_files_are_read(model_hub, tmp_path):
    encoder = AlbertSentenceEncoder(CONFIG, "max", True, max_seq_length=12, prompts=dict(query="find: "))
    save(encoder, str(tmp_path / "st"), "hugging_face")
    shard = "model-00001-of-00001.safetensors"
    names = load_file((tmp_path / "st/model.safetensors").rename(tmp_path / "st" / shard))
    (tmp_path / "st/model.safetensors.index.json").write_text(json.dumps(dict(weight_map=dict.fromkeys(names, shard))))
    model_hub.add("org/st", tmp_path / "st")
    read = albert_tf.from_pretrained("hf://org/st", model="sentence_encoder")
    assert read.settings == encoder.settings
    np.testing.assert_array_equal(read.albert.pooler.kernel, encoder.albert.pooler.kernel)


def test_a_download_that_was_cut_is_not_taken_for_whole(model_hub, folder, monkeypatch):
    model_hub.add("org/tiny", folder)
    model_hub.cut_after = 1000  # more than config.json, less than the weights
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(ValueError, match="^hf://org/tiny cannot be downloaded: "):
        open_model(PATH)
    set_offline(monkeypatch, True)
    with pytest.raises(ValueError, match="^hf://org/tiny.* not in the cache, and the hub cannot be reached"):
        open_model(PATH)
    set_offline(monkeypatch, False)
    model_hub.cut_after = None
    assert_same_weights(PATH, folder)


def test_a_card_has_the_revision_also_when_the_weights_are_not_opened_again(model_hub, folder, tmp_path):
    commit = model_hub.add("org/tiny", folder)
    model = AlbertModel(CONFIG)
    open_model(PATH)
    for _ in range(2):
        write_model_card(str(tmp_path), model, PATH)
        card = (tmp_path / "README.md").read_text()
        assert "base_model: org/tiny\n" in card and f"| revision of the weights | {commit} |" in card
        forget()


def test_scripts_start_from_a_repository(model_hub, folder, tmp_path, capsys):
    commit = model_hub.add("org/tiny", folder)
    with loaded("convert_checkpoint") as run:
        assert run(init_checkpoint=PATH, to="tf1", output_dir=str(tmp_path / "tf1")) == 0
    assert_same_weights(tmp_path / "tf1", folder)
    assert commit in (tmp_path / "tf1/README.md").read_text()
    with loaded("fill_mask") as run:
        assert run(init_checkpoint="hf://org/none", text="a") == 1
    assert "error: hf://org/none: there is no such repository" in capsys.readouterr().err


def test_a_conversion_is_uploaded_with_its_card_and_is_private(model_hub, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    flags = dict(init_checkpoint=str(folder), to="hugging_face", upload="org/mine")
    with loaded("convert_checkpoint") as run:
        assert run(output_dir=str(tmp_path / "out"), **flags) == 0
        assert "org/mine" in model_hub.private
        files = model_hub.files("org/mine")
        assert files == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("[!.]*")}  # no manifest
        assert b"library_name: transformers" in files["README.md"]
        assert_same_weights("hf://org/mine", folder)
        model_hub.private.clear()
        assert run(output_dir=str(tmp_path / "again"), **flags) == 1
        assert "hf://org/mine is public, and nothing was uploaded: set --nohub_private_repo" in capsys.readouterr().err
        assert run(output_dir=str(tmp_path / "public"), hub_private_repo=False, **dict(flags, upload="org/open")) == 0
        assert "org/open" in model_hub.commits and "org/open" not in model_hub.private


@pytest.mark.parametrize("flags, error", [
    (dict(to="tf1", upload="org/mine"), "--upload=org/mine has no effect without --to=hugging_face"),
    (dict(upload="mine"), "a model on the hub is hf://org/name"),
    (dict(upload="org/mine@v1"), "is org/name, without revision and subfolder. Received: org/mine@v1"),
    (dict(upload="org/mine"), "hf://org/mine cannot be uploaded (")])
def test_an_upload_that_is_not_possible_is_one_clear_error(model_hub, folder, tmp_path, capsys, flags, error):
    with loaded("convert_checkpoint") as run:
        assert run(**{**dict(init_checkpoint=str(folder), to="hugging_face", output_dir=str(tmp_path / "out")), **flags}
                   ) == 1
    printed = capsys.readouterr().err
    assert error in printed
    is_written = error.endswith("uploaded (")
    assert (tmp_path / "out").exists() == is_written == (f"{tmp_path / 'out'} is written, and stays): " in printed)
