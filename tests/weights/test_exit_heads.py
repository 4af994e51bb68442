"""Exit heads in files: each format keeps them, a model without them reads the rest, others refuse early exit."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.export import tflite
from albert_tf.export.conversion import convert, save
from albert_tf.export.outputs import exported_outputs
from albert_tf.export.precision import with_precision
from albert_tf.weights.from_pretrained import build, load_checkpoint
from albert_tf.weights.heads import head_of_source
from albert_tf.weights.open_source import open_source
from albert_tf.weights.resolved_model import _check_members
from albert_tf.weights.settings import SETTINGS, Settings
from albert_tf.weights.source import Source
from albert_tf.weights.tf_hub.encoder import use_module

BERT = AlbertConfig(vocab_size=20, embedding_size=8, hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=16, initializer_range=0.5,
                    cross_layer_sharing="none")
ALBERT = BERT.replace(embedding_size=4, cross_layer_sharing="all")
HEADS = {
    "classifier": lambda config: albert_tf.AlbertClassifier(config, 3, exit_heads=True),
    "token_classifier": lambda config: albert_tf.AlbertTokenClassifier(config, 3, exit_heads=True),
    "multiple_choice": lambda config: albert_tf.AlbertMultipleChoice(config, exit_heads=True),
}


@pytest.fixture(scope="module")
def inputs():
    ids = np.random.default_rng(0).integers(1, 20, [8, 8], np.int32)
    return dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids))


@pytest.mark.parametrize("to", ["tf1", "hugging_face", "ours"])
def test_a_converted_model_keeps_what_its_exits_read(tmp_path, inputs, to):
    model = albert_tf.AlbertClassifier(ALBERT, 3, exit_heads=True, exit_pooling="mean")
    save(model, str(tmp_path / "first"), "ours")
    convert(open_source(str(tmp_path / "first")), str(tmp_path / to), to, "classifier")
    read = albert_tf.from_pretrained(str(tmp_path / to), "classifier")
    for ours, theirs in zip(model(inputs)["exit_logits"], read(inputs)["exit_logits"]):
        np.testing.assert_array_equal(theirs, ours)


@pytest.mark.parametrize("head, config, to", [
    ("classifier", ALBERT, "tf1"), ("classifier", ALBERT, "hugging_face"), ("classifier", BERT, "tf1_bert"),
    ("token_classifier", BERT, "hugging_face"), ("multiple_choice", ALBERT, "ours")])
def test_a_converted_model_exits_as_the_original(tmp_path, inputs, head, config, to):
    model = HEADS[head](config)
    save(model, str(tmp_path / "first"), "ours")
    convert(open_source(str(tmp_path / "first")), str(tmp_path / to), to, head)
    assert json.loads((tmp_path / to / SETTINGS).read_text())["exit_heads"] is True
    read = albert_tf.from_pretrained(str(tmp_path / to), head, exit_patience=1)
    for name, value in model(inputs, exit_patience=1).items():
        np.testing.assert_array_equal(read(inputs)[name], value)


def test_a_model_without_exit_heads_reads_the_weights_and_gives_the_last_output(tmp_path, inputs):
    model = HEADS["classifier"](ALBERT)
    save(model, str(tmp_path), "ours")
    source = open_source(str(tmp_path))
    assert head_of_source(source) == "classifier"
    plain, report = build(source, "classifier", exit_heads=False)
    assert "exit_logits" not in plain(inputs) and not report.not_restored
    assert report.not_used == [f"exit_heads/layer_{layer}/output_{part}" for layer in (1, 2)
                               for part in ("bias", "weights")]
    np.testing.assert_array_equal(plain(inputs)["logits"], model(inputs)["logits"])


def test_a_tagger_starts_from_a_classifier_whose_exits_read_the_mean(tmp_path):
    save(albert_tf.AlbertClassifier(ALBERT, 3, exit_heads=True, exit_pooling="mean"), str(tmp_path), "ours")
    tagger = albert_tf.from_pretrained(str(tmp_path), "token_classifier", num_labels=2)
    assert (tagger.exit_heads, tagger.exit_pooling) == (True, "pooler")


def test_members_of_an_ensemble_have_exits_that_read_the_same():
    cls, mean, plain = (Source(name, {}, lambda name: None, lambda: ALBERT, settings=Settings(**settings))
                        for name, settings in (("cls", dict(exit_heads=True, exit_pooling="cls")),
                                               ("mean", dict(exit_heads=True, exit_pooling="mean")), ("plain", {})))
    _check_members([plain, mean])
    with pytest.raises(ValueError, match="of mean and cls cannot be averaged: exit_pooling is mean in the"):
        _check_members([mean, cls])


def test_the_tensors_of_hugging_face_are_those_of_the_model_without_exits_and_the_heads(tmp_path):
    for name, exit_heads in (("plain", False), ("exits", True)):
        save(albert_tf.AlbertClassifier(BERT, 3, exit_heads=exit_heads), str(tmp_path / name), "hugging_face")
    plain, exits = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "exits"))
    assert set(exits) - set(plain) == {f"exit_heads.{layer}.{part}" for layer in (1, 2) for part in ("weight", "bias")}
    assert set(plain) < set(exits) and exits["exit_heads.1.weight"].shape == (3, 8)


def test_heads_for_other_labels_start_anew(tmp_path):
    save(HEADS["classifier"](ALBERT), str(tmp_path), "ours")
    report = load_checkpoint(albert_tf.AlbertClassifier(ALBERT, 2, exit_heads=True), str(tmp_path))
    assert report.not_restored["exit_heads/layer_1/output_weights"] == "shape [3, 8], not [2, 8]"


def test_another_precision_keeps_the_patience(inputs):
    model = albert_tf.AlbertClassifier(ALBERT, 3, exit_heads=True, exit_patience=1)
    copy = with_precision(model, "mixed_bfloat16")
    assert (copy.exit_heads, copy.early_exit) == (True, model.early_exit)
    assert set(copy(inputs)) == {"logits", "num_layers_used"}


def test_exports_of_all_layers_have_the_last_output_alone(inputs):
    model = HEADS["classifier"](ALBERT)
    assert set(exported_outputs(model, inputs)) == {"logits", "pooled_output", "sequence_output"}
    model = albert_tf.AlbertClassifier(ALBERT, 3, exit_heads=True, num_layers=2)
    with pytest.raises(ValueError, match="a model in TensorFlow Lite uses all layers: load it without exit_patience"):
        tflite.convert(model, "float32", 8)


def test_a_module_that_runs_its_own_graph_has_no_exit_heads():
    with pytest.raises(ValueError, match="module runs its own graph, .* it cannot have exit heads"):
        use_module(HEADS["classifier"](ALBERT), "module")


@pytest.mark.parametrize("value, message", [(1, "'exit_heads' must be of type bool"), ("yes", "must be of type bool")])
def test_a_damaged_setting_is_named(tmp_path, value, message):
    save(HEADS["classifier"](ALBERT), str(tmp_path), "ours")
    (tmp_path / SETTINGS).write_text(json.dumps(dict(exit_heads=value)))
    with pytest.raises(ValueError, match=message):
        albert_tf.from_pretrained(str(tmp_path), "classifier")
