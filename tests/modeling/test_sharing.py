"""Cross-layer sharing: which layers have separate blocks."""

import numpy as np
import pytest

from albert_tf.modeling.albert_model import AlbertModel

ATTENTION = 4 * (16 * 16 + 16) + 2 * 16  # query, key, value, output; LayerNorm
FFN = 16 * 32 + 32 + 32 * 16 + 16 + 2 * 16
REST = (50 + 2 + 16) * 8 + 2 * 8 + 8 * 16 + 16 + 16 * 16 + 16  # embeddings, LayerNorm; mapping; pooler


@pytest.mark.parametrize("changes, attentions, ffns", [
    (dict(cross_layer_sharing="all"), 1, 1),
    (dict(cross_layer_sharing="attention"), 1, 4),
    (dict(cross_layer_sharing="ffn"), 4, 1),
    (dict(cross_layer_sharing="none"), 4, 4),
    (dict(num_hidden_groups=2), 2, 2),
    (dict(inner_group_num=3), 3, 3),
    (dict(num_hidden_groups=2, inner_group_num=2), 4, 4),
], ids=str)
def test_each_strategy_has_its_parameters(tiny_config, changes, attentions, ffns):
    model = AlbertModel(tiny_config.replace(**changes))
    assert model.count_params() == REST + attentions * ATTENTION + ffns * FFN
    names = [variable.name for variable in model.weights]
    assert len(set(names)) == len(names)
    assert sum("/attention_1/self/query/kernel" in name for name in names) == attentions
    assert sum("/ffn_1/intermediate/dense/kernel" in name for name in names) == ffns


def test_groups_name_their_layers_in_order(tiny_config):
    model = AlbertModel(tiny_config.replace(num_hidden_groups=2, inner_group_num=2))
    kernels = [variable.name for variable in model.weights if variable.name.endswith("self/value/kernel:0")]
    assert kernels == [f"bert/encoder/transformer/group_{group}/inner_group_{inner}/attention_1/self/value/kernel:0"
                       for group in range(2) for inner in range(2)]


@pytest.mark.parametrize("sharing", ["attention", "ffn", "none"])
def test_blocks_of_equal_weights_compute_what_one_shared_block_does(tiny_config, tiny_batch, sharing):
    shared, separate = AlbertModel(tiny_config), AlbertModel(tiny_config.replace(cross_layer_sharing=sharing))
    values = {variable.name: variable for variable in shared.weights}
    for variable in separate.weights:
        first = variable.name
        for group in range(4):
            first = first.replace(f"group_{group}/inner", "group_0/inner")
        variable.assign(values[first])
    np.testing.assert_allclose(separate(tiny_batch)["sequence_output"], shared(tiny_batch)["sequence_output"],
                               atol=1e-6)
    own = next(variable for variable in separate.weights
               if "group_3/" in variable.name and "output/dense/kernel" in variable.name)
    own.assign(own * 10)
    outputs, before = separate(tiny_batch)["encoder_outputs"], shared(tiny_batch)["encoder_outputs"]
    assert [np.allclose(a, b, atol=1e-5) for a, b in zip(outputs, before)] == [True, True, True, False]


def test_an_embedding_as_wide_as_the_encoder_is_not_mapped(tiny_config):
    names = [variable.name for variable in AlbertModel(tiny_config.replace(embedding_size=16)).weights]
    assert not any("embedding_hidden_mapping_in" in name for name in names)
