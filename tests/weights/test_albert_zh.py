"""Checkpoints of brightmart/albert_zh: their names, their embedding, their configs."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tiny

import albert_tf
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.stored_model import open_model

TINY = tiny.TINY.replace(embedding_size=8, num_hidden_layers=3, max_position_embeddings=6, initializer_range=0.3)
# Layers of a block: the release's names and albert_zh's (modeling.transformer_model).
LAYERS = {
    "attention_1/self": "attention/self", "attention_1/output/dense": "attention/output/dense",
    "LayerNorm/": "attention/output/LayerNorm/", "ffn_1/intermediate/dense": "intermediate/dense",
    "ffn_1/intermediate/output/dense": "output/dense", "LayerNorm_1/": "output/LayerNorm/"}
BATCH = dict(input_ids=np.arange(12, dtype=np.int32).reshape(2, 6), input_mask=np.ones([2, 6], np.int32),
             segment_ids=np.array([[0, 0, 0, 1, 1, 1]] * 2, np.int32),
             masked_lm_positions=np.array([[1], [2]], np.int32))


def their_name(name):
    block = "bert/encoder/transformer/group_0/inner_group_0/"
    if not name.startswith(block):
        return name
    layer = name[len(block):]
    ours = max((ours for ours in LAYERS if layer.startswith(ours)), key=len)
    return f"bert/encoder/layer_shared/{LAYERS[ours]}{layer[len(ours):]}"


@pytest.fixture
def written(tmp_path):
    """A model whose word embeddings are a product of two factors, and its checkpoint in albert_zh's format."""
    random = np.random.default_rng(1)
    model = AlbertPretrainer(TINY)
    for variable in model.weights:
        variable.assign(random.normal(size=variable.shape))
    words, projection = random.normal(size=[20, 4]), random.normal(size=[4, 8])
    model.albert.embeddings.word_embeddings.assign(words @ projection)
    values = {their_name(release_name(variable)): variable.numpy() for variable in model.weights}
    values["bert/embeddings/word_embeddings"] = words.astype(np.float32)
    values["bert/embeddings/word_embeddings_2"] = projection.astype(np.float32)
    values["bert/embeddings/word_embeddings_2/adam_m"] = projection.astype(np.float32)
    values["global_step"] = np.array(5, np.int64)
    write(tmp_path, values)
    config = dict(TINY.to_dict(), embedding_size=4, ln_type="postln", directionality="bidi", pooler_type="first_token")
    for name in ("cross_layer_sharing", "num_hidden_groups", "inner_group_num"):
        del config[name]
    (tmp_path / "albert_config_tiny.json").write_text(json.dumps(config))
    return model, values, tmp_path


def write(folder, values):
    tf.raw_ops.SaveV2(prefix=str(folder / "albert_model.ckpt"), tensor_names=list(values),
                      shape_and_slices=[""] * len(values), tensors=list(values.values()))


def test_outputs_are_those_of_the_projected_embedding(written):
    model, _, folder = written
    source = open_model(str(folder))
    assert not [name for name in source.tensors if "layer_shared" in name or name.endswith("_2")]
    assert list(source.tensors["bert/embeddings/word_embeddings"].shape) == [20, 8]
    again = albert_tf.from_pretrained(str(folder), model="pretrainer")
    assert again.config == TINY
    expected, found = model(BATCH), again(BATCH)
    for name in ("pooled_output", "mlm_logits", "sop_logits"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-4)


def test_another_layer_norm_a_missing_config_and_a_missing_projection_are_named(written):
    _, values, folder = written
    config = json.loads((folder / "albert_config_tiny.json").read_text())
    (folder / "albert_config_tiny.json").write_text(json.dumps(dict(config, ln_type="preln")))
    with pytest.raises(ValueError, match="Received: ln_type='preln'"):
        albert_tf.from_pretrained(str(folder))
    (folder / "albert_config_tiny.json").unlink()
    with pytest.raises(ValueError, match="has no albert_config.json"):
        albert_tf.from_pretrained(str(folder))
    write(folder, {name: value for name, value in values.items() if "word_embeddings_2" not in name})
    with pytest.raises(ValueError, match=r"must be \[V, E\] and .* Received shapes: \[20, 4\] and \[\]"):
        open_model(str(folder))
