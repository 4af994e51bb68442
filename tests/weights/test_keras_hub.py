"""keras-hub reads the Hugging Face folders that we write, and computes the same. Wants its environment of peers.py."""

import numpy as np
import pytest
from peers import run_client

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.weights.heads import encoder_of, head_named
from albert_tf.weights.hugging_face.writing import save_hugging_face

pytestmark = pytest.mark.long
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


@pytest.mark.parametrize("kind, changes", [
    ("encoder", {}), ("pretrainer", {}), ("encoder", dict(num_hidden_groups=2, inner_group_num=2)),
    ("encoder", dict(embedding_size=8)), ("encoder", dict(cross_layer_sharing="none"))], ids=str)
def test_an_albert_is_read_with_and_without_a_head(tmp_path, kind, changes):
    assert difference(tmp_path, kind, TINY.replace(**changes), "AlbertBackbone") < 2e-5


def bert(hidden_act):
    values = TINY.replace(embedding_size=8, cross_layer_sharing="none", hidden_act=hidden_act).to_bert_dict()
    return AlbertConfig.from_dict(values, is_bert=True)


def test_a_bert_is_the_same_with_the_activation_of_its_config(tmp_path):
    """keras-hub has the tanh approximation of gelu whatever the config says."""
    assert difference(tmp_path, "encoder", bert("gelu"), "BertBackbone") < 1e-5
    (tmp_path / "exact").mkdir()
    assert difference(tmp_path / "exact", "encoder", bert("gelu_exact"), "BertBackbone") > 1e-4
    (tmp_path / "set").mkdir()
    assert difference(tmp_path / "set", "encoder", bert("gelu_exact"), "BertBackbone", ["gelu"]) < 1e-5
