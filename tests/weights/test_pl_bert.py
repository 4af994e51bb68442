"""Checkpoints of PL-BERT: read as they are written, and losses equal to PyTorch's."""

import numpy as np
import pytest
from peers import python_of, run_client

import albert_tf
from albert_tf.export.conversion import convert
from albert_tf.pretraining.phoneme_objective import PhonemeFormat, PhonemeObjective, masked_batch
from albert_tf.weights.stored_model import open_model


def batch_of_phonemes(words=50, rows=8, seq=48):
    chance = np.random.default_rng(0)
    ids = chance.integers(43, 178, [rows, seq])
    ids[chance.random([rows, seq]) < 0.2] = 16
    ids[:, [0, -1]], lengths = 50, chance.integers(5, seq + 1, [rows, 1])
    mask = (np.arange(seq) < lengths).astype(np.int32)
    ids = np.where(np.arange(seq) == lengths - 1, 51, ids) * mask
    two_separators = (ids[:, 1:] == 16) & (ids[:, :-1] == 16)
    ids[:, 1:][two_separators] = 60  # each word has a phoneme
    count = (ids == 16).sum(1).max() + 1
    batch = masked_batch(ids.astype(np.int32), mask, chance.integers(0, words, [rows, count]).astype(np.int32),
                         chance.random([rows, 3, seq]).astype(np.float32),
                         PhonemeFormat(seq, count, words, "", 178, separator_id=16, mask_id=29))
    return {name: values.numpy() if hasattr(values, "numpy") else values for name, values in batch.items()}


def test_weights_outputs_and_losses_are_those_of_transformers(tmp_path):
    python_of("transformers")
    batch, folder = batch_of_phonemes(), tmp_path / "pl_bert"
    folder.mkdir()
    np.savez(tmp_path / "batch.npz", **batch)
    run_client("transformers", "pl_bert_client.py", "write", folder, tmp_path / "batch.npz", tmp_path / "results.npz")
    model = albert_tf.from_pretrained(str(folder), model="phoneme_pretrainer")
    expected = np.load(tmp_path / "results.npz")
    assert model.num_words == 50
    outputs = model(batch)
    real = batch["input_mask"][..., None]
    np.testing.assert_allclose(outputs["sequence_output"] * real, expected["vectors"] * real, atol=1e-4)
    for predictions in ("all", "once"):
        objective = PhonemeObjective(model, predictions)
        _, parts = objective.loss(outputs, batch, objective.loss_denominators(batch))
        assert float(parts["masked_lm_loss"]) == pytest.approx(float(expected["masked_lm"]), rel=1e-5)
        assert float(parts["word_loss"]) == pytest.approx(float(expected[predictions]), rel=1e-5)
    convert(open_model(str(folder)), str(tmp_path / "written"), "pl_bert")
    run_client("transformers", "pl_bert_client.py", "read", tmp_path / "written", tmp_path / "batch.npz",
               tmp_path / "read.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "read.npz")["vectors"], expected["vectors"])


@pytest.mark.parametrize("text, named", [
    ("log_dir: x", "config.yml has no model_params"), ("model_params: {1: 2}", "config.yml has no model_params"),
    ("model_params: " + "[" * 3_000, "config.yml: .* nested too deeply"),
    ("a: 1\n" * 600_000, "config.yml has 3,000,000 bytes"),
    ("model_params: {vocab_size: [x]}", "config.yml: vocab_size must be")])
def test_a_config_that_cannot_be_read_is_named(tmp_path, text, named):
    (tmp_path / "config.yml").write_text(text)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=named):
        albert_tf.from_pretrained(str(tmp_path))
