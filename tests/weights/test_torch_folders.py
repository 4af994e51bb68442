"""Weights in files of torch.save: folders of transformers, PL-BERT and Kokoro, and what is written for StyleTTS2."""

import json
import shutil
import tarfile

import numpy as np
import pytest
import yaml
from new_head import model_with_settings
from safetensors.numpy import load_file
from tiny import TINY, values_of
from torch_files import View, save

import albert_tf
from albert_tf.export.conversion import convert
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.torch_file import read_torch
from albert_tf.weights.torch_writer import write_torch

pytestmark = pytest.mark.both_stacks
NOT_WEIGHTS = b"\x80\x02cos\nsystem\n."


def assert_same(path, model, kind):
    read = values_of(albert_tf.from_pretrained(str(path), model=kind))
    for name, value in values_of(model).items():
        np.testing.assert_array_equal(read[name], value, err_msg=name)


@pytest.fixture(params=[False, True], ids=["zip", "older"])
def torch_folder(request, copied):
    """A function that replaces safetensors by a file of torch.save; the model and the folder."""
    model, folder = copied("classifier")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    (folder / ".hugging_face.manifest.json").unlink()

    def write(name="pytorch_model.bin", wrap=lambda tensors: tensors):
        save(wrap(tensors), folder / name, older=request.param)
        return folder / name

    write.tensors = tensors
    return write, model, folder


def test_a_folder_with_pytorch_model_bin_is_read(torch_folder, tmp_path):
    write, model, folder = torch_folder
    path = write()
    for each in (folder, path):
        assert_same(each, model, "classifier")
        assert open_model(str(each)).settings.label_names == model.settings.label_names
        assert open_model(str(each)).vocabulary
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(folder, "model")
    assert_same(tmp_path / "model.tar.gz", model, "classifier")


def test_weights_in_several_files_are_read_by_their_index(torch_folder):
    write, model, folder = torch_folder
    keys = sorted(write.tensors)
    shards = {f"pytorch_model-0000{number}-of-00002.bin": keys[number - 1 :: 2] for number in (1, 2)}
    for name, shard in shards.items():
        write(name, lambda tensors, shard=shard: {key: tensors[key] for key in shard})
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps(dict(weight_map={key: name for name, shard in shards.items() for key in shard})))
    assert_same(folder, model, "classifier")
    for name in ("../pytorch_model.bin", "model.safetensors", 1):
        index.write_text(json.dumps(dict(weight_map=dict(a=name))))
        with pytest.raises(ValueError, match="index.json names .* in its own folder"):
            open_model(str(folder))


def test_safetensors_come_before_pickles(copied):
    model, folder = copied("classifier")
    (folder / "pytorch_model.bin").write_bytes(NOT_WEIGHTS)
    assert_same(folder, model, "classifier")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="^.*/pytorch_model.bin cannot be read as weights .*'os system'"):
        open_model(str(folder))


def test_half_precision_and_tied_views_are_read(torch_folder):
    write, model, folder = torch_folder
    words = "albert.embeddings.word_embeddings.weight"

    def changed(tensors):
        flat = np.concatenate([np.zeros(5, np.float32), tensors[words].reshape(-1)])
        views = {words: View(flat, 5, tensors[words].shape, (tensors[words].shape[1], 1))}
        return {**{key: value.astype(np.float16) for key, value in tensors.items()}, **views}

    write(wrap=changed)
    read, expected = (values_of(each) for each in (albert_tf.from_pretrained(str(folder), "classifier"), model))
    for name, value in expected.items():
        is_words = name == "bert/embeddings/word_embeddings"
        np.testing.assert_array_equal(read[name], value if is_words else value.astype(np.float16), err_msg=name)


def test_checkpoints_of_trainings_and_of_kokoro_are_read(torch_folder):
    """{"net": ..., "optimizer": ...} with the prefix of a parallel model, and a dict per part of a model."""
    write, model, folder = torch_folder
    write(wrap=lambda tensors: dict(step=1, net={f"module.{key}": value for key, value in tensors.items()},
                                    optimizer=dict(state={0: dict(step=np.array(1, np.float32))}, param_groups=[])))
    assert_same(folder, model, "classifier")
    encoder = {key.replace("albert.", "module."): value for key, value in write.tensors.items() if "albert." in key}
    path = write("kokoro-v1_0.pth", lambda tensors: dict(bert=encoder, decoder={"module.a": np.zeros(3, np.float32)}))
    (folder / "pytorch_model.bin").unlink()
    config = json.loads((folder / "config.json").read_text())
    config = dict(istftnet={}, n_token=config.pop("vocab_size"), plbert=dict(config, dropout=0.1), vocab={"a": 43})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "albert_tf.json").unlink()
    for each in (folder, path):
        assert_same(each, model.albert, "encoder")
    write("other.pth")
    with pytest.raises(ValueError, match="has no model.safetensors: choose one of kokoro-v1_0.pth, other.pth"):
        open_model(str(folder))


def test_the_highest_step_of_pl_bert_is_read(torch_folder):
    write, model, folder = torch_folder
    for step, factor in ((900_000, 0), (1_000_000, 1), (99, 0)):
        write(f"step_{step}.t7", lambda tensors, factor=factor: dict(
            net={f"module.encoder.{key.removeprefix('albert.')}": value * factor for key, value in tensors.items()}))
    config = json.loads((folder / "config.json").read_text())
    names = "vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers"
    more = dict(embedding_size=config["embedding_size"], max_position_embeddings=config["max_position_embeddings"],
                hidden_act=config["hidden_act"], dropout=0.1, type_vocab_size=config["type_vocab_size"])
    (folder / "config.yml").write_text(yaml.safe_dump(dict(model_params=dict({
        name: config[name] for name in names}, **more))))
    for name in ("config.json", "albert_tf.json"):
        (folder / name).unlink()
    assert_same(folder, model.albert, "encoder")


@pytest.mark.parametrize("value, named", [
    ([], "no weights of an ALBERT"), ({}, "no weights"), (dict(a=1, b=[2]), "no weights"), (7, "no weights"),
    ({"albert.embeddings.word_embeddings.weight": np.zeros((2000, 8), np.int64)}, "int64"),
    ({"albert.embeddings.word_embeddings.weight": np.zeros((2, 2), np.float32)}, "word_embeddings")])
def test_files_without_an_albert_are_named(torch_folder, value, named):
    write, _, folder = torch_folder
    write(wrap=lambda _: value)
    with pytest.raises(ValueError, match=named) as error:
        albert_tf.from_pretrained(str(folder))
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["tf_model.h5", "flax_model.msgpack", "rust_model.ot"])
def test_weights_of_other_libraries_are_named(torch_folder, name):
    _, _, folder = torch_folder
    (folder / name).write_bytes(b"x")
    with pytest.raises(ValueError, match=f"has no model.safetensors, but {name}, weights of .*: save them as safe"):
        open_model(str(folder))


@pytest.mark.parametrize("name", ["encoder", "phoneme_pretrainer"])
def test_a_pl_bert_comes_back_and_has_the_names_that_style_tts_2_reads(tmp_path, name):
    model = model_with_settings(name, TINY)
    albert_tf.save_pretrained(model, str(tmp_path / "pl_bert"), to="pl_bert")
    source = open_model(str(tmp_path / "pl_bert"))
    assert source.config == model.config and source.head == name 
    assert source.settings == model.settings.replaced(max_seq_length=None)
    read = values_of(albert_tf.from_pretrained(str(tmp_path / "pl_bert"), model=name))
    for key, value in values_of(model).items():
        if name == "encoder" or "pooler" not in key:
            np.testing.assert_array_equal(read[key], value, err_msg=key)
    net = read_torch(str(tmp_path / "pl_bert/step_1000000.t7"))["net"]
    positions = net["module.encoder.embeddings.position_ids"].read()
    np.testing.assert_array_equal(positions, np.arange(TINY.max_position_embeddings)[None])
    assert positions.dtype == np.int64
    assert ("module.mask_predictor.weight" in net) == (name == "phoneme_pretrainer")
    parameters = yaml.safe_load((tmp_path / "pl_bert/config.yml").read_text())["model_params"]
    assert parameters["hidden_act"] == "gelu_new" and type(parameters["layer_norm_eps"]) is float
    convert(source, str(tmp_path / "ours"), "ours")
    assert open_model(str(tmp_path / "ours")).head == name
    path = tmp_path / "pl_bert/step_1000000.t7"
    content = path.read_bytes()
    path.write_bytes(content[:2_000] + bytes([content[2_000] ^ 1]) + content[2_001:])
    with pytest.raises(ValueError, match="step_1000000.t7.*checksum"):
        open_model(str(tmp_path / "pl_bert"))


def test_a_bert_is_no_pl_bert(tmp_path):
    config = TINY.replace(embedding_size=TINY.hidden_size, cross_layer_sharing="none")
    albert_tf.save_pretrained(albert_tf.AlbertModel(config), str(tmp_path / "bert"), to="tf1_bert")
    with pytest.raises(ValueError, match="PL-BERT is an ALBERT"):
        convert(open_model(str(tmp_path / "bert")), str(tmp_path / "pl_bert"), "pl_bert")


def test_parts_of_a_file_are_replaced(torch_folder, tmp_path):
    """As docs/phonemes.md does for Kokoro."""
    write, _, folder = torch_folder
    write("a.pth", lambda tensors: dict(bert=tensors, decoder=dict(a=np.arange(6).reshape(2, 3).T), text="a", n=2**40))
    saved = read_torch(str(folder / "a.pth"))
    saved["bert"] = dict(weight=np.ones((2, 2), np.float16))
    write_torch(saved, str(tmp_path / "b.pth"))
    read = read_torch(str(tmp_path / "b.pth"))
    assert (read["text"], read["n"]) == ("a", 2**40)
    np.testing.assert_array_equal(read["decoder"]["a"].read(), [[0, 3], [1, 4], [2, 5]])
    np.testing.assert_array_equal(read["bert"]["weight"].read(), np.ones((2, 2), np.float16))


def test_other_files_beside_the_weights_are_not_read(torch_folder):
    write, model, folder = torch_folder
    write()
    for name in ("training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (folder / name).write_bytes(NOT_WEIGHTS)
    assert_same(folder, model, "classifier")
    shutil.move(folder / "pytorch_model.bin", folder / "model.ckpt")  # a name of no format: its first bytes tell
    assert_same(folder / "model.ckpt", model, "classifier")
