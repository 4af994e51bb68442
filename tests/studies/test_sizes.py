"""Numbers of variables and operations equal those measured on the release, to the digit."""

import pytest

from albert_tf.config import AlbertConfig
from studies import sizes

pytestmark = pytest.mark.both_stacks
BASE = {("all", 64): 9_681_408, ("all", 256): 15_687_936, ("none", 128): 89_650_176, ("none", 768): 109_081_344,
        ("attention", 768): 83_078_400, ("ffn", 128): 37_686_528}


@pytest.mark.parametrize("name, count, with_heads, operations", [
    ("albert_base_v2", 11_683_584, 11_813_810, "2.3e+19"), ("albert_large_v2", 17_683_968, 17_847_474, "8.0e+19"),
    ("albert_xxlarge_v2", 222_595_584, 223_158_450, "6.4e+20"), ("bert_large", 334_607_360, None, None)])
def test_published_sizes_count_as_the_release_does(name, count, with_heads, operations):
    config = AlbertConfig.preset(name)
    assert sizes.variable_count(config) == count
    if with_heads:
        assert sizes.variable_count(config, with_heads=True) == with_heads
        assert f"{sizes.compute_parameters(config) * sizes.PRETRAINING_TOKENS:.1e}" == operations


@pytest.mark.parametrize("sharing, size", BASE)
def test_base_counts_for_every_sharing_and_embedding_size(sharing, size):
    config = AlbertConfig.preset("albert_base_v2").replace(cross_layer_sharing=sharing, embedding_size=size)
    assert sizes.variable_count(config) == BASE[sharing, size]
