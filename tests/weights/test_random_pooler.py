"""Weights without a pooler: exports leave out pooled_output, whose values would be random."""

import pytest
import tensorflow as tf
import tiny

import albert_tf
from albert_tf import keras
from albert_tf.export import tflite
from albert_tf.export.onnx.writing import differences, to_onnx
from albert_tf.export.tf_hub import export_encoder

TINY = tiny.TINY.replace(max_position_embeddings=8)
INPUTS = tiny.rows(3)


@pytest.fixture
def folder(tmp_path):
    """A folder without a pooler: that of a tagger."""
    albert_tf.save_pretrained(albert_tf.AlbertTokenClassifier(TINY, 3), str(tmp_path / "hf"), to="hugging_face")
    return str(tmp_path / "hf")


def read(folder, kind, seed, **arguments):
    keras.utils.set_random_seed(seed)
    return albert_tf.from_pretrained(folder, model=kind, **arguments)


@pytest.mark.parametrize("kind", ["encoder", "token_classifier", "sentence_encoder"])
def test_onnx_and_tensorflow_lite_models_do_not_depend_on_random_values(folder, kind):
    models = [read(folder, kind, seed) for seed in (1, 2)]
    onnx = [to_onnx(model) for model in models]
    assert onnx[0] == onnx[1]
    compared_files = [differences(onnx[0], models[1], 8)]
    if kind == "encoder":  # the names of TensorFlow Lite are numbered, so that two files are not equal
        compared_files.append(tflite.differences(tflite.convert(models[0], "float32", 8), models[1], 8))
    for compared in compared_files:
        assert "pooled_output" not in compared and max(compared.values()) < 1e-5


@pytest.mark.long
def test_saved_models_have_no_pooled_output(folder, tmp_path, sentence_pieces):
    config = TINY.replace(vocab_size=sentence_pieces.vocab_size)
    albert_tf.save_pretrained(albert_tf.AlbertTokenClassifier(config, 3), str(tmp_path / "large"), to="hugging_face")
    model = read(str(tmp_path / "large"), "encoder", 1)
    model.export(str(tmp_path / "keras"))
    served = tf.saved_model.load(str(tmp_path / "keras"))
    assert {*served.serve(INPUTS)} == {"sequence_output"}
    export_encoder(str(tmp_path / "hub"), model, sentence_pieces)
    module = tf.saved_model.load(str(tmp_path / "hub"))
    inputs = dict(zip(("input_word_ids", "input_mask", "input_type_ids"), INPUTS.values()))
    assert {*module(inputs)} == {"sequence_output", "encoder_outputs"}
    assert {*module.signatures["tokens"].structured_outputs} == {"sequence_output"}


def test_a_head_on_a_random_pooler_is_warned_of_and_a_trained_pooler_exported(folder, caplog):
    model = read(folder, "classifier", 1, num_labels=2)
    assert "the variables of the pooler and the classifier head start with random values" in caplog.text
    assert "pooled_output" in differences(to_onnx(model), model, 8)
    caplog.clear()
    read(folder, "token_classifier", 1)
    assert not caplog.text
    read(folder, "encoder", 1)
    assert "the variables of the pooler start with random values" in caplog.text
    trained = read(folder, "encoder", 1)
    trained.pooler.kernel.assign_add(tf.ones_like(trained.pooler.kernel))
    assert "pooled_output" in differences(to_onnx(trained), trained, 8)
