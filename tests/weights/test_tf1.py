"""The release's checkpoints: names, values, variables that are ignored, errors."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY

from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.from_pretrained import build, load_into
from albert_tf.weights.heads import head_named
from albert_tf.weights.stored_model import open_source
from albert_tf.weights.tf1 import save_tf1_checkpoint

pytestmark = pytest.mark.both_stacks


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


def test_what_is_not_restored_or_not_used_is_reported_and_keeps_its_values(tmp_path):
    save_tf1_checkpoint(AlbertModel(TINY), str(tmp_path / "encoder"))
    save_tf1_checkpoint(AlbertModel(TINY), str(tmp_path / "encoder"))
    model = AlbertPretrainer(TINY)
    before = values_of(model)["cls/predictions/transform/dense/kernel"]
    report = load_into(model, open_source(str(tmp_path / "encoder")))
    assert set(report.not_restored) == {name for name in values_of(model) if name.startswith("cls/")}
    assert "new, random: cls/predictions/output_bias, " in str(report)
    np.testing.assert_array_equal(values_of(model)["cls/predictions/transform/dense/kernel"], before)
    save_tf1_checkpoint(model, str(tmp_path / "pretrainer"))
    report = load_into(AlbertModel(TINY), open_source(str(tmp_path / "pretrainer")))
    assert len(report.not_used) == 7 and "not used: cls/predictions/output_bias" in str(report)
    mnli, rte = (head_named("classifier").model(TINY, num_labels=labels) for labels in (3, 2))
    save_tf1_checkpoint(mnli, str(tmp_path / "mnli"))
    report = load_into(rte, open_source(str(tmp_path / "mnli")))
    assert report.not_restored == {"output_weights": "shape [3, 8], not [2, 8]", "output_bias": "shape [3], not [2]"}
    np.testing.assert_array_equal(rte.albert.pooler.kernel, mnli.albert.pooler.kernel)


def test_weights_of_another_model_are_refused_and_change_nothing(tmp_path):
    save_tf1_checkpoint(AlbertModel(TINY.replace(vocab_size=21)), str(tmp_path / "model.ckpt"))
    model = AlbertModel(TINY)
    before = values_of(model)
    with pytest.raises(ValueError, match=r"word_embeddings .*\[21, 4\].* \[20, 4\]"):
        load_into(model, open_source(str(tmp_path / "model.ckpt")))
    with pytest.raises(ValueError, match="nothing was restored"):
        load_into(model, open_source(tf.train.Checkpoint(weights=tf.Variable([1.0])).write(str(tmp_path / "other"))))
    assert all(np.array_equal(before[name], value) for name, value in values_of(model).items())


def test_every_group_can_start_from_group_0(tmp_path):
    save_tf1_checkpoint(AlbertModel(TINY), str(tmp_path / "model.ckpt"))
    source, config = open_source(str(tmp_path / "model.ckpt")), TINY.replace(num_hidden_layers=3, num_hidden_groups=3)
    with pytest.raises(ValueError, match="the config asks for group 2, inner group 1: use the config that belongs"):
        build(source, lambda: AlbertModel(config))
    grouped, report = build(source, lambda: AlbertModel(config), init_from_group0=True)
    assert not report.not_restored and not report.not_used
    values = values_of(grouped)
    for name in values:
        np.testing.assert_array_equal(values[name], values[name.replace("group_2/inner", "group_0/inner")])
