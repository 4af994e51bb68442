"""Checkpoints of PL-BERT: read as they are written, and losses equal to PyTorch's."""

import shlex
import subprocess

import numpy as np
import pytest
from peers import python_of, run_client

import albert_tf
from albert_tf.pretraining.phoneme_objective import PhonemeFormat, PhonemeObjective, masked_batch


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
    run_client("transformers", "pl_bert_client.py", folder, tmp_path / "batch.npz", tmp_path / "results.npz")
    with pytest.raises(ValueError, match="step_1.t7 is a pickle") as error:
        albert_tf.from_pretrained(str(folder))
    program = shlex.split(str(error.value).partition("PL-BERT: ")[2])
    subprocess.run([python_of("transformers"), *program[1:]], check=True)
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


def test_the_program_for_a_checkpoint_quotes_its_name(tmp_path):
    path = tmp_path / "it's $(touch x) `y` \"z\"" / "step 1.t7"
    path.parent.mkdir()
    path.write_bytes(b"\x80\x02")
    with pytest.raises(ValueError, match="is a pickle") as error:
        albert_tf.from_pretrained(str(path))
    program = str(error.value).partition("PL-BERT: ")[2]
    # A shell that gives the arguments instead of running Python.
    printed = subprocess.run(["sh", "-c", 'python() { printf "%s\\n" "$@"; }\n' + program], stdout=subprocess.PIPE,
                             text=True, check=True, cwd=tmp_path).stdout.splitlines()
    assert printed[0] == "-c" and printed[2:] == [str(path), str(path.parent / "model.safetensors")]
    compile(printed[1], "program", "exec")
    assert not (tmp_path / "x").exists()
