"""keras-hub reads the Hugging Face folders that we write, and we read its presets; outputs are equal.

Tests that run keras-hub want its environment of peers.py.
"""

import shutil

import numpy as np
import pytest
from peers import run_client
from tiny import TINY_TEXT

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.weights.heads import encoder_of, head_named
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.vocabulary import VocabularyFiles

TINY = TINY_TEXT.replace(embedding_size=4, hidden_size=8, num_hidden_layers=4, max_position_embeddings=8,
                         initializer_range=0.5)


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
    assert open_model(str(preset)).settings.head == kind
    model, theirs = albert_tf.from_pretrained(str(preset), model=kind), np.load(preset / "outputs.npz")
    names = dict(token_ids="input_ids", padding_mask="input_mask", segment_ids="segment_ids",
                 mask_positions="masked_lm_positions")
    outputs = model({names[name]: value for name, value in np.load(golden / "keras_hub/inputs.npz").items()})
    if kind == "encoder":
        ours = {name: outputs[name] for name in ("sequence_output", "pooled_output")}
    else:
        ours = dict(outputs=outputs["logits" if kind == "classifier" else "mlm_logits"])
    assert {*theirs.files} - {"own"} == {*ours, "ids"}
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=1e-5)
    if "own" in theirs.files:  # the epsilon of keras-hub's masked-LM head is 1e-5, that of the release 1e-12
        np.testing.assert_allclose(ours["outputs"], theirs["own"], atol=1e-2)
    tokenizer = albert_tf.tokenizer_from_pretrained(str(preset))
    assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize("the name of the file")) == theirs["ids"].tolist()
    assert tokenizer.max_seq_length == 16
