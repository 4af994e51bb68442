"""keras-hub reads the Hugging Face folders that we write, and we read its presets; outputs are equal.

Tests that run keras-hub want its environment of peers.py.
"""

import json
import shutil

import numpy as np
import pytest
from in_process import loaded
from peers import run_client

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.weights.heads import encoder_of, head_named
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.settings import VocabularyFiles
from albert_tf.weights.stored_model import open_source

TINY = AlbertConfig(vocab_size=2000, embedding_size=4, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=8, initializer_range=0.5)


def difference(folder, kind, config, backbone, activation=(), vocabulary=VocabularyFiles()):
    """The largest difference between the outputs of keras-hub and ours."""
    keras.utils.set_random_seed(1)
    model = head_named(kind).model(config)
    save_hugging_face(model, str(folder / "hf"), vocabulary)
    random = np.random.default_rng(1)
    mask = np.ones([3, 8], np.int32)
    mask[1, 5:] = 0
    ids, segments = random.integers(0, 2000, [3, 8], np.int32), random.integers(0, 2, [3, 8], np.int32)
    np.savez(folder / "in.npz", token_ids=ids, padding_mask=mask, segment_ids=segments)
    run_client("keras-hub", "keras_hub_client.py", folder / "hf", backbone, folder / "in.npz", folder / "out.npz",
               *activation)
    ours = encoder_of(model)(dict(input_ids=ids, input_mask=mask, segment_ids=segments))
    theirs = np.load(folder / "out.npz")
    if vocabulary:
        tokenizer = vocabulary.tokenizer()
        assert theirs["ids"].tolist() == tokenizer.convert_tokens_to_ids(tokenizer.tokenize("the name of the file"))
    return max(np.abs(theirs[name] - ours[name]).max() for name in ("sequence_output", "pooled_output"))


@pytest.mark.long
@pytest.mark.parametrize("kind, changes", [
    ("encoder", {}), ("pretrainer", {}), ("encoder", dict(num_hidden_groups=2, inner_group_num=2)),
    ("encoder", dict(embedding_size=8)), ("encoder", dict(cross_layer_sharing="none"))], ids=str)
def test_an_albert_is_read_with_its_vocabulary_with_and_without_a_head(tmp_path, golden, kind, changes):
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"))
    assert difference(tmp_path, kind, TINY.replace(**changes), "AlbertBackbone", vocabulary=vocabulary) < 2e-5


def bert(hidden_act):
    values = TINY.replace(embedding_size=8, cross_layer_sharing="none", hidden_act=hidden_act).to_bert_dict()
    return AlbertConfig.from_dict(values, is_bert=True)


@pytest.mark.long
def test_a_bert_is_the_same_with_the_activation_of_its_config(tmp_path):
    """keras-hub has the tanh approximation of gelu whatever the config says."""
    assert difference(tmp_path, "encoder", bert("gelu"), "BertBackbone") < 1e-5
    (tmp_path / "exact").mkdir()
    assert difference(tmp_path / "exact", "encoder", bert("gelu_exact"), "BertBackbone") > 1e-4
    (tmp_path / "set").mkdir()
    assert difference(tmp_path / "set", "encoder", bert("gelu_exact"), "BertBackbone", ["gelu"]) < 1e-5


def our_outputs(model, kind, inputs):
    """The outputs of our model by keras-hub's names."""
    outputs = model(dict(input_ids=inputs["token_ids"], input_mask=inputs["padding_mask"],
                         segment_ids=inputs["segment_ids"], masked_lm_positions=inputs["mask_positions"]))
    if kind == "encoder":
        return {name: outputs[name] for name in ("sequence_output", "pooled_output")}
    return dict(outputs=outputs["logits" if kind == "classifier" else "mlm_logits"])


def check_outputs(theirs, ours):
    """The epsilon of keras-hub's masked-LM head is 1e-5; with that of the release (1e-12), outputs are the same."""
    assert {*theirs.files} - {"own"} == {*ours, "ids"}
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=1e-5)
    if "own" in theirs.files:
        np.testing.assert_allclose(ours["outputs"], theirs["own"], atol=1e-2)


@pytest.fixture
def preset(request, golden, tmp_path):
    """A preset as keras-hub writes it, with its vocabulary."""
    folder = tmp_path / "preset"
    shutil.copytree(golden / "keras_hub" / getattr(request, "param", "encoder"), folder)
    (folder / "assets/tokenizer").mkdir(parents=True)
    shutil.copy(golden / "tiny_spm/tiny.model", folder / "assets/tokenizer/vocabulary.spm")
    return folder


@pytest.mark.both_stacks
@pytest.mark.parametrize("preset, kind", [
    ("encoder", "encoder"), ("equal_sizes", "encoder"), ("classifier", "classifier"), ("pretrainer", "pretrainer")],
    indirect=["preset"])
def test_a_preset_computes_the_same_here(preset, golden, kind):
    assert open_source(str(preset)).settings.head == kind
    model = albert_tf.from_pretrained(str(preset), model=kind)
    theirs = np.load(preset / "outputs.npz")
    check_outputs(theirs, our_outputs(model, kind, np.load(golden / "keras_hub/inputs.npz")))
    tokenizer = albert_tf.tokenizer_from_pretrained(str(preset))
    assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize("the name of the file")) == theirs["ids"].tolist()
    assert tokenizer.max_seq_length == 16


def changed(preset, name, **changes):
    values = json.loads((preset / name).read_text())
    (preset / name).write_text(json.dumps({**values, **changes}))


def test_a_preset_of_another_model_is_refused(preset):
    changed(preset, "config.json", class_name="GemmaBackbone")
    with pytest.raises(ValueError, match=r"config.json is a preset of keras-hub, of which only .*Received: 'GemmaBac"):
        open_source(str(preset))


def test_a_preset_of_another_task_is_refused(preset):
    (preset / "task.json").write_text('{"class_name": "AlbertTagger"}')
    with pytest.raises(ValueError, match="task.json: only AlbertTextClassifier, .*Received: 'AlbertTagger'"):
        open_source(str(preset))


def test_a_preset_without_a_value_is_refused(preset):
    changed(preset, "config.json", config={})
    with pytest.raises(ValueError, match="config.json: config has no embedding_dim, hidden_dim"):
        open_source(str(preset))


@pytest.mark.parametrize("damage, reason", [
    (lambda path: path.write_bytes(path.read_bytes()[:-500]), "cannot be read: "),
    (lambda path: path.write_bytes(b"nothing"), "cannot be read: "),
    (lambda path: replaced(path, lambda h5py, file, place: None), "has no layers/dense/vars/0: it is damaged"),
    (lambda path: replaced(path, lambda h5py, file, place: h5py.ExternalLink("x.h5", "/a")), "vars/0 is a link"),
    (lambda path: replaced(path, lambda h5py, file, place: h5py.SoftLink("/layers/dense_1")), "vars/0 is a link"),
    (lambda path: replaced(path, lambda h5py, file, place: "text"), "vars/0 has no floating-point numbers"),
    (lambda path: replaced(path, lambda h5py, file, place: file.create_dataset(
        place, [100_000, 100_000], "f4", chunks=True)), "would have 40,000,000,000 bytes, more than the file")])
def test_weights_that_are_damaged_or_not_in_the_file_are_refused(preset, damage, reason):
    damage(preset / "model.weights.h5")
    with pytest.raises(ValueError, match=f"^{preset}/model.weights.h5.*{reason}"):
        open_source(str(preset))


def replaced(path, make):
    """Replaces a value by what `make` makes; None for nothing."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "a") as file:
        del file["layers/dense/vars/0"]
        value = make(h5py, file, "layers/dense/vars/0")
        if value is not None and not isinstance(value, h5py.Dataset):
            file["layers/dense/vars/0"] = value


def test_a_command_converts_a_preset(preset, tmp_path):
    with loaded("convert_checkpoint") as run:
        assert run(init_checkpoint=str(preset), to="hugging_face", output_dir=str(tmp_path / "hf")) == 0
    source = open_source(str(preset))
    converted = open_source(str(tmp_path / "hf"))
    assert source.config.differences(converted.config) == {}
    for name in source.shapes:
        np.testing.assert_array_equal(source.value(name), converted.value(name))
