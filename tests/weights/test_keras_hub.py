"""keras-hub reads the Hugging Face folders and the presets that we write, and we read its presets; outputs are equal.

Tests that run keras-hub want its environment of peers.py.
"""

import json

import numpy as np
import pytest
from hub_modules import values_of
from in_process import loaded
from peers import run_client

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.weights.heads import encoder_of, head_named
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.open_source import open_source
from albert_tf.weights.vocabulary_files import VocabularyFiles

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=8, initializer_range=0.5)


def difference(folder, kind, config, backbone, activation=()):
    """The largest difference between the outputs of keras-hub and ours."""
    keras.utils.set_random_seed(1)
    model = head_named(kind).model(config)
    save_hugging_face(model, str(folder / "hf"))
    random = np.random.default_rng(1)
    mask = np.ones([3, 8], np.int32)
    mask[1, 5:] = 0
    ids, segments = random.integers(0, 20, [3, 8], np.int32), random.integers(0, 2, [3, 8], np.int32)
    np.savez(folder / "in.npz", token_ids=ids, padding_mask=mask, segment_ids=segments)
    run_client("keras-hub", "keras_hub_client.py", folder / "hf", backbone, folder / "in.npz", folder / "out.npz",
               *activation)
    ours = encoder_of(model)(dict(input_ids=ids, input_mask=mask, segment_ids=segments))
    theirs = np.load(folder / "out.npz")
    assert {*theirs.files} == {"sequence_output", "pooled_output"}
    return max(np.abs(theirs[name] - ours[name]).max() for name in theirs.files)


@pytest.mark.long
@pytest.mark.parametrize("kind, changes", [
    ("encoder", {}), ("pretrainer", {}), ("encoder", dict(num_hidden_groups=2, inner_group_num=2)),
    ("encoder", dict(embedding_size=8)), ("encoder", dict(cross_layer_sharing="none"))], ids=str)
def test_an_albert_is_read_with_and_without_a_head(tmp_path, kind, changes):
    assert difference(tmp_path, kind, TINY.replace(**changes), "AlbertBackbone") < 2e-5


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


LONGER = TINY.replace(vocab_size=2000, max_position_embeddings=16, num_hidden_groups=2, inner_group_num=2)
KINDS = ("encoder", "classifier", "pretrainer")


def preset_inputs(path):
    random = np.random.default_rng(1)
    mask = np.ones([3, 8], np.int32)
    mask[1, 5:] = 0
    ids, segments = random.integers(0, 2000, [3, 8], np.int32), random.integers(0, 2, [3, 8], np.int32)
    inputs = dict(token_ids=ids, padding_mask=mask, segment_ids=segments,
                  mask_positions=np.array([[1, 2], [0, 4], [7, 3]], np.int32))
    np.savez(path, **inputs)
    return inputs


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


@pytest.mark.long
@pytest.mark.parametrize("kind, embedding_size", [*((kind, 4) for kind in KINDS), ("encoder", 8)])
def test_a_preset_of_keras_hub_computes_the_same_here(tmp_path, golden, kind, embedding_size):
    inputs = preset_inputs(tmp_path / "in.npz")
    run_client("keras-hub", "keras_hub_presets.py", "write", golden / "tiny_spm/tiny.model", tmp_path / "preset",
               tmp_path / "in.npz", kind, embedding_size)
    theirs = np.load(tmp_path / "preset/out.npz")
    check_outputs(theirs, our_outputs(albert_tf.from_pretrained(str(tmp_path / "preset"), model=kind), kind, inputs))
    tokenizer = albert_tf.tokenizer_from_pretrained(str(tmp_path / "preset"))
    assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize("the name of the file")) == theirs["ids"].tolist()
    assert tokenizer.max_seq_length == 16


@pytest.mark.long
@pytest.mark.parametrize("kind, changes", [
    *((kind, {}) for kind in KINDS), ("encoder", dict(embedding_size=8)),
    ("encoder", dict(cross_layer_sharing="none", num_hidden_groups=1))], ids=str)
def test_a_preset_that_we_write_computes_the_same_in_keras_hub(tmp_path, golden, kind, changes):
    keras.utils.set_random_seed(1)
    model = head_named(kind).model(LONGER.replace(**changes), **(dict(num_labels=3) if kind == "classifier" else {}))
    save(model, str(tmp_path / "preset"), "keras_hub", VocabularyFiles(str(golden / "tiny_spm/tiny.model")))
    inputs = preset_inputs(tmp_path / "in.npz")
    run_client("keras-hub", "keras_hub_presets.py", "read", tmp_path / "preset", tmp_path / "in.npz", kind)
    check_outputs(np.load(tmp_path / "preset/out.npz"), our_outputs(model, kind, inputs))


@pytest.mark.both_stacks
@pytest.mark.parametrize("kind, changes", [
    *((kind, {}) for kind in (*KINDS, "sentence_encoder")), ("encoder", dict(embedding_size=8))], ids=str)
def test_a_preset_has_the_weights_of_its_model(tmp_path, golden, kind, changes):
    arguments = dict(classifier=dict(num_labels=2, label_names=("no", "yes")), sentence_encoder=dict(pooling="max"))
    model = head_named(kind).model(LONGER.replace(**changes), **arguments.get(kind, {}))
    vocabulary = VocabularyFiles(str(golden / "tiny_spm/tiny.model"), None, False, True)
    save(model, str(tmp_path / "preset"), "keras_hub", vocabulary)
    source = open_source(str(tmp_path / "preset"))
    assert source.model == kind and source.config.without_training() == model.config.without_training()
    assert source.vocabulary.options == vocabulary.options and source.vocabulary.path.endswith("vocabulary.spm")
    read = values_of(albert_tf.from_pretrained(str(tmp_path / "preset"), model=kind))
    for name, value in values_of(model).items():
        if not name.startswith("cls/seq_relationship/"):
            np.testing.assert_array_equal(read[name], value)
    assert "keras_hub.models.Albert" in (tmp_path / "preset/README.md").read_text()


@pytest.fixture
def preset(tmp_path):
    save(head_named("encoder").model(TINY), str(tmp_path / "preset"), "keras_hub")
    return tmp_path / "preset"


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


@pytest.mark.parametrize("kind, changes, reason", [
    ("span", {}, "keras-hub has no ALBERT with the head of AlbertSpan"),
    ("encoder", dict(cross_layer_sharing="attention"), "equal sizes that share all weights. Received: cross_"),
    ("encoder", dict(num_hidden_groups=3), "Received: .*=all, num_hidden_layers=4, num_hidden_groups=3"),
    ("encoder", dict(hidden_act="relu"), "tanh approximation of gelu .*Received: relu")])
def test_a_model_that_keras_hub_does_not_have_is_refused(tmp_path, kind, changes, reason):
    model = head_named(kind).model(TINY.replace(**changes))
    with pytest.raises(ValueError, match=reason):
        save(model, str(tmp_path / "preset"), "keras_hub")
    assert not (tmp_path / "preset").exists()


def test_a_wordpiece_vocabulary_is_refused(tmp_path, golden):
    model, vocabulary = head_named("encoder").model(LONGER), VocabularyFiles(None, str(golden / "wordpiece/vocab.txt"))
    with pytest.raises(ValueError, match="ALBERT has a SentencePiece model, and .*vocab.txt is a WordPiece"):
        save(model, str(tmp_path / "preset"), "keras_hub", vocabulary)


def test_a_command_converts_a_preset(preset, tmp_path):
    with loaded("convert_checkpoint") as run:
        assert run(init_checkpoint=str(preset), to="hugging_face", output_dir=str(tmp_path / "hf")) == 0
        assert run(init_checkpoint=str(tmp_path / "hf"), to="keras_hub", output_dir=str(tmp_path / "again")) == 0
    assert (tmp_path / "again/config.json").read_text() == (preset / "config.json").read_text()
