"""Numbers of variables and operations equal those measured on the release, to the digit."""

import pytest

from albert_tf.config import AlbertConfig
from studies import sizes

pytestmark = pytest.mark.both_stacks

WITH_HEADS = {
    "albert_base_v2": (11_683_584, 11_813_810),
    "albert_large_v2": (17_683_968, 17_847_474),
    "albert_xlarge_v2": (58_724_864, 59_021_490),
    "albert_xxlarge_v2": (222_595_584, 223_158_450),
}
BASE_BY_SHARING_AND_E = {
    ("all", 64): 9_681_408, ("all", 128): 11_683_584, ("all", 256): 15_687_936, ("all", 768): 31_114_752,
    ("none", 64): 87_648_000, ("none", 128): 89_650_176, ("none", 256): 93_654_528, ("none", 768): 109_081_344,
    ("attention", 128): 63_647_232, ("attention", 768): 83_078_400,
    ("ffn", 128): 37_686_528, ("ffn", 768): 57_117_696,
}


@pytest.mark.parametrize("name", WITH_HEADS)
def test_named_sizes_count_as_the_release_does(name):
    config = AlbertConfig.preset(name)
    assert (sizes.variable_count(config), sizes.variable_count(config, with_heads=True)) == WITH_HEADS[name]


@pytest.mark.parametrize("name, count", [("bert_base", 109_081_344), ("bert_large", 334_607_360)])
def test_bert_baselines_count_as_the_release_does(name, count):
    assert sizes.variable_count(AlbertConfig.preset(name)) == count


@pytest.mark.parametrize("sharing, embedding_size", BASE_BY_SHARING_AND_E)
def test_base_counts_for_every_sharing_and_embedding_size(sharing, embedding_size):
    config = AlbertConfig.preset("albert_base_v2").replace(cross_layer_sharing=sharing, embedding_size=embedding_size)
    assert sizes.variable_count(config) == BASE_BY_SHARING_AND_E[sharing, embedding_size]


@pytest.mark.parametrize("name, millions, run", [
    ("albert_base_v2", 89.5, "2.3e+19"), ("albert_large_v2", 307.0, "8.0e+19"),
    ("albert_xlarge_v2", 1216.3, "3.2e+20"), ("albert_xxlarge_v2", 2437.1, "6.4e+20"),
])
def test_compute_parameters_and_the_cost_of_a_run(name, millions, run):
    compute = sizes.compute_parameters(AlbertConfig.preset(name))
    assert round(compute / 1e6, 1) == millions
    assert f"{compute * sizes.PRETRAINING_TOKENS:.1e}" == run


def test_the_table_has_our_row_and_the_papers():
    table = sizes.table(sizes.published(sizes.NAMED_SIZES))
    assert "11,683,584   11,813,810    12M     89.5M   2.3e+19" in table
