"""Layers that shared weights have separate copies, and the outputs are the same before training."""

import numpy as np
import pytest
from in_process import loaded

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.weights.from_pretrained import build, from_pretrained, load_into
from albert_tf.weights.resolved_model import ModelRequest, ResolvedModel
from albert_tf.weights.stored_model import open_source, unshared, unshared_config

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=6, initializer_range=0.3)
BATCH = dict(input_ids=np.arange(12, dtype=np.int32).reshape(2, 6), input_mask=np.ones([2, 6], np.int32),
             segment_ids=np.zeros([2, 6], np.int32))
SHARINGS = [dict(), dict(num_hidden_groups=2), dict(num_hidden_groups=2, inner_group_num=2),
            dict(cross_layer_sharing="attention"), dict(cross_layer_sharing="ffn", inner_group_num=2)]


def saved(folder, **changes):
    keras.utils.set_random_seed(1)
    model = AlbertModel(TINY.replace(**changes))
    for variable in model.weights:  # biases start at 0, where an exchange would not be seen
        variable.assign_add(keras.initializers.RandomNormal(stddev=0.1)(variable.shape))
    save(model, str(folder), "ours")
    return model


@pytest.mark.parametrize("changes", SHARINGS, ids=str)
def test_every_sharing_is_undone_with_equal_outputs(tmp_path, changes):
    model = saved(tmp_path, **changes)
    source = unshared(open_source(str(tmp_path)))
    assert source.config == unshared_config(model.config)
    again, report = build(source, "encoder")
    assert not report.not_restored and not report.not_used
    config = again.config
    assert config.num_attention_blocks == config.num_ffn_blocks == 4 * config.inner_group_num
    expected, found = model(BATCH), again(BATCH)
    for old, new in zip(expected["encoder_outputs"], found["encoder_outputs"]):
        np.testing.assert_array_equal(old, new)
    again.encoder.ffn_blocks[-1].layer_norm.gamma.assign_add([1.0] * 8)
    np.testing.assert_array_equal(model(BATCH)["encoder_outputs"][0], again(BATCH)["encoder_outputs"][0])


def test_a_model_without_sharing_stays_as_it_is(tmp_path):
    saved(tmp_path, cross_layer_sharing="none")
    source = open_source(str(tmp_path))
    assert unshared(source) is source


def test_a_conversion_unshares_too(tmp_path):
    model = saved(tmp_path / "shared")
    with loaded("convert_checkpoint") as run:
        assert run(init_checkpoint=tmp_path / "shared", to="tf1", unshare_layers=True,
                   output_dir=tmp_path / "apart") == 0
    apart = from_pretrained(str(tmp_path / "apart"))
    assert apart.config.num_ffn_blocks == 4
    np.testing.assert_array_equal(apart(BATCH)["pooled_output"], model(BATCH)["pooled_output"])


def test_a_task_starts_from_the_copies_and_its_own_checkpoints_are_read_as_they_are(tmp_path):
    model = saved(tmp_path / "shared")
    config = unshared_config(model.config)
    resolved = ResolvedModel(ModelRequest(init_checkpoint=str(tmp_path / "shared"), unshare_layers=True))

    def task():
        return ClassificationTask(AlbertClassifier(config, 2))

    made, _ = resolved.build(task, str(tmp_path / "shared"))
    np.testing.assert_array_equal(made.model(BATCH)["pooled_output"], model(BATCH)["pooled_output"])
    made.model.albert.encoder.ffn_blocks[2].layer_norm.gamma.assign_add([1.0] * 8)
    save(made.model, str(tmp_path / "trained"), "ours")
    again = task().model
    load_into(again, resolved.open(str(tmp_path / "trained")))
    np.testing.assert_array_equal(again(BATCH)["logits"], made.model(BATCH)["logits"])
