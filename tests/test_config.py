"""AlbertConfig: reading, errors, and the block of each layer."""

import dataclasses
import json
import math

import pytest

from albert_tf.config import PRESETS, AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel


def tiny(**changes):
    values = dict(vocab_size=60, hidden_size=16, num_attention_heads=2, num_hidden_layers=4)
    return AlbertConfig(**dict(values, **changes))


def test_defaults_are_the_releases():
    config = AlbertConfig(vocab_size=30000)
    assert dataclasses.asdict(config) == dict(
        vocab_size=30000, embedding_size=128, hidden_size=4096, num_hidden_layers=12, num_hidden_groups=1,
        num_attention_heads=64, intermediate_size=16384, inner_group_num=1, hidden_act="gelu", hidden_dropout_prob=0,
        attention_probs_dropout_prob=0, max_position_embeddings=512, type_vocab_size=2, initializer_range=0.02,
        layer_norm_eps=1e-12, cross_layer_sharing="all")
    assert "layer_norm_eps" not in config.to_json_string()  # the release's files have none
    assert AlbertConfig.from_dict(config.replace(layer_norm_eps=1e-5).to_dict()).layer_norm_eps == 1e-5
    assert config.differences(config.replace(layer_norm_eps=1e-5)) == dict(layer_norm_eps=(1e-12, 1e-5))


@pytest.mark.parametrize("model, groups, inner", [
    ("model_a", 1, 1), ("model_b", 2, 1), ("model_c", 3, 1), ("model_d", 1, 2)])
def test_reads_the_releases_files(golden, model, groups, inner):
    config = AlbertConfig.from_json_file(str(golden / model / "albert_config.json"))
    assert (config.num_hidden_groups, config.inner_group_num, config.vocab_size) == (groups, inner, 60)


def test_reads_hugging_faces_file_and_its_name_for_the_tanh_gelu(golden):
    config = AlbertConfig.from_json_file(str(golden / "hf/pretraining_2groups/config.json"))
    assert (config.num_hidden_groups, config.embedding_size, config.hidden_act) == (2, 10, "gelu")


@pytest.mark.parametrize("key", ["model_type", "architectures", "transformers_version"])
def test_the_names_of_activations_are_those_of_the_library(key):
    theirs = dict(gelu="gelu_exact", gelu_python="gelu_exact", gelu_new="gelu", gelu_fast="gelu", relu="relu")
    for name, ours in theirs.items():
        values = {key: "albert", "vocab_size": 60, "hidden_act": name}
        assert AlbertConfig.from_dict(values).hidden_act == ours
    assert AlbertConfig.from_dict(dict(vocab_size=60, hidden_act="gelu")).hidden_act == "gelu"


def test_what_a_config_of_bert_does_not_say_is_berts_default():
    config = AlbertConfig.from_dict(dict(vocab_size=60, model_type="bert", num_hidden_groups=2, inner_group_num=3))
    assert config == AlbertConfig.preset("bert_base").replace(vocab_size=60, hidden_act="gelu_exact",
                                                              max_position_embeddings=512)


def test_keys_that_nobody_reads_are_ignored():
    values = dict(vocab_size=60, net_structure_type=0, gap_size=0, num_memory_blocks=0, down_scale_factor=1,
                  layers_to_keep=[])
    assert AlbertConfig.from_dict(values) == AlbertConfig(vocab_size=60)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_follow_the_rule_of_the_paper_and_are_read_back(name):
    """64 units per head, and an intermediate_size of 4 times hidden_size (Lan et al., 2020, section 3.1)."""
    config = AlbertConfig.preset(name)
    assert config.hidden_size == 64 * config.num_attention_heads and config.intermediate_size == 4 * config.hidden_size
    assert (config.vocab_size, config.max_position_embeddings) == (
        (8000, 256) if name == "albert_tiny_en" else (30000, 512))
    assert AlbertConfig.from_dict(json.loads(config.to_json_string())) == config


def test_the_sizes_of_the_presets():
    sizes = {name: (config.num_hidden_layers, config.hidden_size, config.embedding_size)
             for name, config in ((name, AlbertConfig.preset(name)) for name in PRESETS)}
    versions = dict(base=(12, 768, 128), large=(24, 1024, 128), xlarge=(24, 2048, 128), xxlarge=(12, 4096, 128))
    assert sizes == {**{f"albert_{size}_v{version}": shape for size, shape in versions.items() for version in (1, 2)},
                     "albert_tiny_en": (4, 256, 224), "bert_base": (12, 768, 768), "bert_large": (24, 1024, 1024)}


def test_version_1_has_dropout_but_for_xxlarge():
    dropouts = {name: AlbertConfig.preset(name).hidden_dropout_prob for name in PRESETS if name.startswith("albert")}
    assert [name for name, p in dropouts.items() if p] == ["albert_base_v1", "albert_large_v1", "albert_xlarge_v1"]


@pytest.mark.parametrize("changes, attention, ffn", [
    (dict(), [0, 0, 0, 0], [0, 0, 0, 0]),
    (dict(num_hidden_groups=2), [0, 0, 1, 1], [0, 0, 1, 1]),
    (dict(num_hidden_groups=3), [0, 0, 1, 2], [0, 0, 1, 2]),
    (dict(cross_layer_sharing="attention"), [0, 0, 0, 0], [0, 1, 2, 3]),
    (dict(cross_layer_sharing="ffn"), [0, 1, 2, 3], [0, 0, 0, 0]),
    (dict(cross_layer_sharing="none"), [0, 1, 2, 3], [0, 1, 2, 3]),
])
def test_which_block_each_layer_uses(changes, attention, ffn):
    config = tiny(**changes)
    assert [block for block, in config.attention_blocks] == attention
    assert [block for block, in config.ffn_blocks] == ffn
    assert (config.num_attention_blocks, config.num_ffn_blocks) == (max(attention) + 1, max(ffn) + 1)


def test_inner_blocks_of_a_group_follow_one_another():
    assert tiny(num_hidden_groups=2, inner_group_num=2).ffn_blocks == ((0, 1), (0, 1), (2, 3), (2, 3))


def test_layers_are_assigned_to_groups_with_floating_point_numbers_as_in_the_release():
    config = tiny(num_hidden_layers=22, num_hidden_groups=22)
    assert config.ffn_blocks[15] == (14,)
    assert len(AlbertModel(config).weights) > 0  # though no layer uses group 15
    assert tiny(num_hidden_layers=22, cross_layer_sharing="none").ffn_blocks[15] == (15,)


@pytest.mark.parametrize("values, named", [
    (dict(hiden_size=16), "hiden_size"), (dict(vocab_size=None), "vocab_size"),
    (dict(hidden_size=30), "num_attention_heads .* 30"), (dict(hidden_act="swish"), "hidden_act"),
    (dict(cross_layer_sharing="some"), "cross_layer_sharing"),
    (dict(cross_layer_sharing="ffn", num_hidden_groups=2), "num_hidden_groups must be 1"),
    (dict(num_hidden_groups=13), "num_hidden_layers 12"), (dict(vocab_size="60"), "vocab_size='60'"),
    (dict(hidden_dropout_prob=1.0), "hidden_dropout_prob"), (dict(initializer_range=math.inf), "initializer_range=inf"),
    (dict(attention_probs_dropout_prob=math.nan), "attention_probs_dropout_prob=nan"),
    (dict(model_type="roberta"), "albert and bert"), (dict(layer_norm_eps=0), "layer_norm_eps=0"),
    (dict(layer_norm_eps="1e-5"), "layer_norm_eps='1e-5'"),
    (dict(num_hidden_layers=1000, num_hidden_groups=1000, inner_group_num=1000), "inner_group_num .* 1,000")])
def test_what_does_not_fit_is_refused_by_name(values, named):
    with pytest.raises(ValueError, match=named):
        AlbertConfig.from_dict({**dict(vocab_size=60), **values})
    AlbertConfig(vocab_size=10, num_hidden_layers=500, inner_group_num=2)


@pytest.mark.parametrize("key", ["vocab_size", "embedding_size", "hidden_size", "num_hidden_layers",
                                 "num_attention_heads", "intermediate_size"])
def test_a_config_file_without_a_size_is_refused_unless_its_library_has_a_default(tmp_path, key):
    path, values = tmp_path / "albert_config.json", tiny().to_dict()
    values.pop(key)
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=f"{path}: .* no {key}"):
        AlbertConfig.from_json_file(str(path))
    if key == "embedding_size":  # BERT's files have none
        bert = {name: value for name, value in values.items() if name not in (
            "num_hidden_groups", "inner_group_num", "cross_layer_sharing")}
        path.write_text(json.dumps(bert))
        assert AlbertConfig.from_json_file(str(path), is_bert=True).embedding_size == values["hidden_size"]
    elif key == "intermediate_size":  # transformers leaves out its default
        path.write_text(json.dumps(dict(values, model_type="albert")))
        assert AlbertConfig.from_json_file(str(path)).intermediate_size == 16384


def test_files_and_published_sizes_are_named(tmp_path):
    path = tmp_path / "albert_config.json"
    for text in ("{", "[]", "{}"):
        path.write_text(text)
        with pytest.raises(ValueError, match="albert_config.json"):
            AlbertConfig.from_json_file(str(path))
    path.write_text(tiny().to_json_string())
    assert AlbertConfig.from_file_or_preset(str(path)) == tiny()
    assert AlbertConfig.from_file_or_preset("albert_large_v2") == AlbertConfig.preset("albert_large_v2")
    for read in (AlbertConfig.from_json_file, AlbertConfig.from_file_or_preset):
        with pytest.raises(ValueError, match="no such config file: albert_huge"):
            read("albert_huge")
    with pytest.raises(ValueError, match="albert_base_v2"):
        AlbertConfig.preset("albert_tiny")
