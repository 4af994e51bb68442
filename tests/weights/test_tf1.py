"""The release's checkpoints: names, values, variables that are ignored, errors."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from new_head import new_head

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.from_pretrained import build, load_into
from albert_tf.weights.heads import HEAD_NAMES, head_named
from albert_tf.weights.stored_model import open_source
from albert_tf.weights.tf1 import save_tf1_checkpoint

pytestmark = pytest.mark.both_stacks

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=3, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=6)
KINDS = [name for name in HEAD_NAMES if name != "sentence_encoder"]


def values_of(model):
    return {release_name(variable): variable.numpy() for variable in model.weights}


@pytest.mark.parametrize("head, kind, arguments", [
    ("classifier", "classifier", dict(num_labels=3)), ("regression", "classifier", dict(num_labels=1)),
    ("race", "multiple_choice", {}), ("squad_v1", "span", {}), ("squad_v2", "conditional_span", {})])
def test_our_names_and_shapes_are_the_releases(golden, head, kind, arguments):
    folder = golden / "finetuned_heads" / head
    model = head_named(kind).model(AlbertConfig.from_json_file(str(folder / "albert_config.json")), **arguments)
    ours = {release_name(variable): variable.shape.as_list() for variable in model.weights}
    assert ours == dict(json.loads((folder / "names.json").read_text()))


@pytest.mark.parametrize("name", ["model_a", "model_b", "model_c", "model_d"])
def test_released_checkpoints_survive_a_round_trip(golden, tmp_path, name):
    model = AlbertPretrainer(AlbertConfig.from_json_file(str(golden / name / "albert_config.json")))
    report = load_into(model, open_source(str(golden / name)))
    assert not report.not_restored and not report.not_used
    save_tf1_checkpoint(model, str(tmp_path / "new/model.ckpt-best"))
    paths = (golden / name / "model.ckpt-best", tmp_path / "new/model.ckpt-best")
    old, new = (tf.train.load_checkpoint(str(path)) for path in paths)
    assert new.get_variable_to_shape_map() == old.get_variable_to_shape_map()
    for key in old.get_variable_to_shape_map():
        np.testing.assert_array_equal(new.get_tensor(key), old.get_tensor(key))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changes", [
    {}, dict(cross_layer_sharing="attention"), dict(cross_layer_sharing="none", inner_group_num=2),
    dict(num_hidden_groups=2)], ids=str)
def test_every_model_comes_back_bit_equal(tmp_path, kind, changes):
    first, second = (new_head(kind, TINY.replace(**changes)) for _ in range(2))
    save_tf1_checkpoint(first, str(tmp_path / "model.ckpt"), global_step=7)
    report = load_into(second, open_source(str(tmp_path / "model.ckpt")))
    assert report.optimizer_state == ["global_step"] and not report.not_restored
    first, second = values_of(first), values_of(second)
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert tf.train.load_checkpoint(str(tmp_path / "model.ckpt")).get_tensor("global_step") == 7


def test_slots_and_global_step_are_left_aside(golden):
    model = AlbertPretrainer(AlbertConfig.from_json_file(str(golden / "model_a/albert_config.json")))
    report = load_into(model, open_source(str(golden / "model_a/model.ckpt-training")))
    assert len(report.restored) == len(model.weights)
    assert len(report.optimizer_state) == 2 * len(model.weights) + 1 and not report.not_used
    numbers = np.load(golden / "model_a/inputs_outputs.npz")
    pooled = model({key[3:]: numbers[key] for key in numbers.files if key.startswith("in_")})["pooled_output"]
    np.testing.assert_allclose(pooled, numbers["out_training_pooled_output"], atol=5e-5)


def test_variables_that_a_checkpoint_lacks_are_reported_and_keep_their_values(tmp_path):
    save_tf1_checkpoint(AlbertModel(TINY), str(tmp_path / "model.ckpt"))
    model = AlbertPretrainer(TINY)
    before = values_of(model)["cls/predictions/transform/dense/kernel"]
    report = load_into(model, open_source(str(tmp_path / "model.ckpt")))
    assert set(report.not_restored) == {name for name in values_of(model) if name.startswith("cls/")}
    assert "new, random: cls/predictions/output_bias, " in str(report)
    np.testing.assert_array_equal(values_of(model)["cls/predictions/transform/dense/kernel"], before)


def test_variables_that_the_model_lacks_are_reported(tmp_path):
    save_tf1_checkpoint(AlbertPretrainer(TINY), str(tmp_path / "model.ckpt"))
    report = load_into(AlbertModel(TINY), open_source(str(tmp_path / "model.ckpt")))
    assert len(report.not_used) == 7 and "not used: cls/predictions/output_bias" in str(report)


def test_a_classifier_for_other_labels_gives_its_encoder(tmp_path):
    mnli, rte = (head_named("classifier").model(TINY, num_labels=labels) for labels in (3, 2))
    save_tf1_checkpoint(mnli, str(tmp_path / "model.ckpt"))
    report = load_into(rte, open_source(str(tmp_path / "model.ckpt")))
    assert report.not_restored == {"output_weights": "shape [3, 8], not [2, 8]", "output_bias": "shape [3], not [2]"}
    kernel = "bert/pooler/dense/kernel"
    np.testing.assert_array_equal(values_of(rte)[kernel], values_of(mnli)[kernel])


def test_a_checkpoint_of_another_size_is_refused_and_changes_nothing(tmp_path):
    save_tf1_checkpoint(AlbertModel(TINY.replace(vocab_size=21)), str(tmp_path / "model.ckpt"))
    model = AlbertModel(TINY)
    before = values_of(model)
    with pytest.raises(ValueError, match=r"word_embeddings has shape \[21, 4\], expected \[20, 4\]"):
        load_into(model, open_source(str(tmp_path / "model.ckpt")))
    assert all(np.array_equal(before[name], value) for name, value in values_of(model).items())


def test_a_checkpoint_without_a_matching_name_is_refused(tmp_path):
    prefix = tf.train.Checkpoint(weights=tf.Variable([1.0])).write(str(tmp_path / "model.ckpt"))
    with pytest.raises(ValueError, match="nothing was restored"):
        load_into(AlbertModel(TINY), open_source(prefix))


def test_every_group_can_start_from_group_0(tmp_path):
    save_tf1_checkpoint(AlbertModel(TINY), str(tmp_path / "model.ckpt"))
    source, config = open_source(str(tmp_path / "model.ckpt")), TINY.replace(num_hidden_groups=3)
    with pytest.raises(ValueError, match="the config asks for group 2, inner group 1: use the config that belongs"):
        build(source, lambda: AlbertModel(config))
    grouped, report = build(source, lambda: AlbertModel(config), init_from_group0=True)
    assert not report.not_restored and not report.not_used
    values = values_of(grouped)
    for name in values:
        np.testing.assert_array_equal(values[name], values[name.replace("group_2/inner", "group_0/inner")])


def test_an_index_with_more_values_than_the_data_files_is_refused_at_once(tmp_path):
    prefix = str(tmp_path / "model.ckpt")
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["output_weights", "a text"],
                      tensors=[tf.ones([4, 4]), tf.constant("b")],
                      shape_and_slices=["1000000 1000000 0,4:0,4", ""])
    with pytest.raises(ValueError, match="model.ckpt cannot be read .* describes 4,000,000,000,000 bytes .* have 7"):
        open_source(prefix)


@pytest.mark.parametrize("damage", ["index", "data-00000-of-00001"])
def test_a_cut_checkpoint_is_one_clear_error(golden, tmp_path, damage):
    for path in (golden / "model_a").glob("model.ckpt-best*"):
        shutil.copy(path, tmp_path)
    cut = tmp_path / f"model.ckpt-best.{damage}"
    cut.write_bytes(cut.read_bytes()[:100])
    model = AlbertPretrainer(AlbertConfig.from_json_file(str(golden / "model_a/albert_config.json")))
    with pytest.raises(ValueError, match="model.ckpt-best cannot be read as a checkpoint"):
        load_into(model, open_source(str(tmp_path / "model.ckpt-best")))
