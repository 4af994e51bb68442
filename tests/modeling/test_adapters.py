"""Low-rank adapters: what they compute, and that they are merged when weights are read."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY, rows

from albert_tf import keras
from albert_tf.export.conversion import save_pretrained
from albert_tf.export.onnx.writing import to_onnx
from albert_tf.modeling.adapters import LoraOptions, add_adapters, merge_adapters
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.settings import Settings
from albert_tf.weights.from_pretrained import build, from_pretrained
from albert_tf.weights.stored_model import StoredModel, StoredTensor
from albert_tf.weights.transforms import merged

CONFIG = TINY.replace(num_hidden_layers=3, initializer_range=0.5)
SHARINGS = [dict(), dict(cross_layer_sharing="attention"), dict(num_hidden_layers=4, num_hidden_groups=2),
            dict(inner_group_num=2), dict(cross_layer_sharing="none")]
BATCH = rows(4)


def adapted(options, **changes):
    """A model, its outputs before, and its adapters with random values."""
    keras.utils.set_random_seed(1)
    model = AlbertClassifier(CONFIG.replace(**changes), 2)
    before = model(BATCH)["logits"].numpy()
    adapters = add_adapters(model.albert, options)
    np.testing.assert_array_equal(model(BATCH)["logits"], before)
    random = np.random.default_rng(2)
    for adapter in adapters:
        adapter.b.assign(random.normal(size=adapter.b.shape))
    assert np.abs(model(BATCH)["logits"] - before).max() > 0.01
    return model, adapters


def source_of(model, alpha):
    """The model as a checkpoint of a run has it."""
    values = {release_name(variable): tf.constant(variable) for variable in model.weights}
    tensors = {name: StoredTensor(value.shape, lambda value=value: value) for name, value in values.items()}
    return StoredModel("run", tensors, model.config, settings=Settings(lora_alpha=alpha))


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("sharing", SHARINGS, ids=str)
def test_merged_weights_compute_the_same_without_adapters(sharing, per_layer):
    model, _ = adapted(LoraOptions(2, 3.0, per_layer), **sharing)
    source = merged(source_of(model, 3.0))
    assert not any("lora" in name for name in source.tensors) and source.settings.lora_alpha is None
    plain, report = build(source, "classifier")
    assert not report.not_restored and not report.not_used
    np.testing.assert_allclose(plain(BATCH)["logits"], model(BATCH)["logits"], atol=1e-5)
    is_shared = plain.config.num_attention_blocks < plain.config.num_hidden_layers * plain.config.inner_group_num
    assert is_shared == (not per_layer and sharing.get("cross_layer_sharing") != "none")


@pytest.mark.both_stacks
def test_a_model_is_saved_after_its_adapters_were_merged(tmp_path):
    model, _ = adapted(LoraOptions(2, 3.0))
    expected = model(BATCH)["logits"].numpy()
    for save in (lambda: model.save(tmp_path / "model.keras"), lambda: save_pretrained(model, str(tmp_path / "saved")),
                 lambda: to_onnx(model)):
        with pytest.raises(ValueError, match="low-rank adapters cannot be saved or cloned: first .* merge_adapters"):
            save()
    merge_adapters(model.albert)
    model.save(tmp_path / "model.keras")
    save_pretrained(model, str(tmp_path / "saved"))
    for saved in (model, keras.models.load_model(tmp_path / "model.keras"), from_pretrained(
            str(tmp_path / "saved"), "classifier")):
        np.testing.assert_allclose(saved(BATCH)["logits"], expected, atol=1e-5)


def test_the_update_is_alpha_by_rank_times_the_product():
    model, adapters = adapted(LoraOptions(2, 3.0))
    first = adapters[0]
    assert [release_name(variable) for variable in first.weights] == [
        f"bert/encoder/transformer/group_0/inner_group_0/attention_1/self/query/lora_{matrix}" for matrix in "ab"]
    np.testing.assert_allclose(first.update(), 1.5 * first.a.numpy() @ first.b.numpy(), atol=1e-6)
    assert len(adapters) == 6  # query, key, value, output; intermediate, output
    assert np.abs(first.a).max() <= 8**-0.5  # as in peft


def test_each_layer_has_its_own_adapters_and_gradients_reach_all_of_them():
    model, adapters = adapted(LoraOptions(1, per_layer=True))
    assert len(adapters) == 3 * 6
    for recompute in (False, True):
        model.albert.gradient_checkpointing = recompute
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(dict(BATCH, dropout_seed=[1, 2]), training=True)["logits"] ** 2)
        gradients = tape.gradient(loss, [adapter.b for adapter in adapters])
        assert all(np.abs(gradient).max() > 0 for gradient in gradients)


def test_what_cannot_be_merged_is_named():
    model, _ = adapted(LoraOptions(2, per_layer=True))
    with pytest.raises(ValueError, match=r"\(per_layer\) .*: bert/enc"):
        merge_adapters(model.albert)
    with pytest.raises(ValueError, match="^run .*albert_tf.json with lora_alpha"):
        merged(dataclasses.replace(source_of(model, None), settings=Settings()))
