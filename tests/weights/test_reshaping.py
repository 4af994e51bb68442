"""Models with other layers, groups or positions than their weights."""

import re

import numpy as np
import pytest
import tensorflow as tf
import tiny
from in_process import loaded
from tiny import rows, values_of

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling import encoder
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.from_pretrained import build, from_pretrained, load_into
from albert_tf.weights.stored_model import StoredModel, open_model
from albert_tf.weights.transforms import factorized, reshaped, unshared, unshared_config, widened

pytestmark = pytest.mark.both_stacks


CONFIG = AlbertConfig(vocab_size=50, embedding_size=32, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=64, max_position_embeddings=8, initializer_range=0.1)


@pytest.fixture
def narrow(tmp_path):
    keras.utils.set_random_seed(1)
    model = AlbertPretrainer(CONFIG)
    save(model, str(tmp_path / "narrow"), "ours")
    return model, str(tmp_path / "narrow")


def batch():
    rng = np.random.default_rng(0)
    return dict(input_ids=rng.integers(0, 50, [4, 8]), input_mask=np.ones([4, 8], int),
                segment_ids=np.zeros([4, 8], int), masked_lm_positions=np.array([[1, 2]] * 4))


def test_the_encoder_of_a_widened_model_computes_nearly_the_same(narrow):
    model, path = narrow
    wide, report = build(widened(open_model(path), 48), "pretrainer")
    assert wide.config == CONFIG.replace(embedding_size=48)
    assert not report.not_restored and not report.not_used
    expected, found = (m(batch())["sequence_output"].numpy().ravel() for m in (model, wide))
    assert np.corrcoef(expected, found)[0, 1] > 0.98
    assert 0.9 < np.std(found) / np.std(expected) < 1.1
    names = ["bert/embeddings/word_embeddings", "bert/embeddings/position_embeddings"]
    source, again = (widened(open_model(path), 48) for _ in range(2))
    words, positions = (source.value(name).numpy() for name in names)  # the order of reading does not matter
    np.testing.assert_array_equal(positions, again.value(names[1]))
    np.testing.assert_array_equal(words, again.value(names[0]))
    np.testing.assert_array_equal(words[:, :32], open_model(path).value(names[0]))
    assert 0 < np.abs(words[:, 32:]).max() <= 0.04
    mapping = source.value("bert/encoder/embedding_hidden_mapping_in/kernel").numpy()
    assert mapping.shape == (48, 64) and not mapping[32:].any() and mapping[:32].any()


@pytest.mark.parametrize("flags", [dict(to="hugging_face", embedding_size=48), dict(to="tf1", unshare_layers=True)])
def test_a_conversion_widens_and_unshares(narrow, tmp_path, flags):
    model, path = narrow
    with loaded("convert_checkpoint") as run:
        assert run(init_checkpoint=path, output_dir=tmp_path / "new", **flags) == 0
    new = from_pretrained(str(tmp_path / "new"), model="pretrainer")
    if "embedding_size" in flags:
        assert new.config.embedding_size == 48
    else:
        assert new.config.num_ffn_blocks == 2
        np.testing.assert_array_equal(new(batch())["pooled_output"], model(batch())["pooled_output"])


TINY = tiny.TINY.replace(num_hidden_layers=4, max_position_embeddings=6, initializer_range=0.3)
BATCH = rows(6, 6)
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
    source = unshared(open_model(str(tmp_path)))
    assert source.config == unshared_config(model.config) and unshared(source) is source
    again, report = build(source, "encoder")
    assert not report.not_restored and not report.not_used
    config = again.config
    assert config.num_attention_blocks == config.num_ffn_blocks == 4 * config.inner_group_num
    expected, found = model(BATCH), again(BATCH)
    for old, new in zip(expected["encoder_outputs"], found["encoder_outputs"]):
        np.testing.assert_array_equal(old, new)
    again.encoder.ffn_blocks[-1].layer_norm.gamma.assign_add([1.0] * 8)
    np.testing.assert_array_equal(model(BATCH)["encoder_outputs"][0], again(BATCH)["encoder_outputs"][0])


def test_kept_layers_have_the_weights_that_they_had(tmp_path):
    before = values_of(saved(tmp_path, cross_layer_sharing="none"))
    cut, report = build(reshaped(open_model(str(tmp_path)), None, None, (2, 4)), "encoder")
    assert cut.config.num_hidden_layers == 2 and not report.not_restored and not report.not_used
    numbers = {"group_0/": "group_1/", "group_1/": "group_3/"}
    for name, value in values_of(cut).items():
        old = re.sub("group_[01]/(?=inner)", lambda match: numbers[match[0]], name)
        np.testing.assert_array_equal(value, before[old])
    for layers in ((4, 2), (2, 2), (2, 5)):
        with pytest.raises(ValueError, match="--kept_layers must have rising numbers from 1 to 4"):
            reshaped(open_model(str(tmp_path)), None, None, layers)


@pytest.mark.parametrize("changes, message", [
    (dict(num_hidden_layers=900, num_hidden_groups=900), "asks for group 2, inner group 1"),
    (dict(num_hidden_layers=2, inner_group_num=400), "asks for group 1, inner group 2"),
    (dict(cross_layer_sharing="none"), "asks for group 2, inner group 1")], ids=str)
def test_more_groups_than_the_weights_have_are_refused_before_they_are_built(tmp_path, monkeypatch, changes, message):
    save(AlbertModel(tiny.TINY), str(tmp_path), "ours")
    (tmp_path / "albert_config.json").write_text(tiny.TINY.replace(**changes).to_json_string())
    built, attention_block = [], encoder.AttentionBlock
    monkeypatch.setattr(encoder, "AttentionBlock", lambda *options: built.append(1) or attention_block(*options))
    with pytest.raises(ValueError, match=f"its groups and inner groups of layers are 1 and 1.*{message}"):
        albert_tf.from_pretrained(str(tmp_path))
    assert len(built) == 2


def test_missing_positions_repeat_those_of_the_checkpoint_and_can_be_trained(tmp_path, caplog):
    longer_config = TINY.replace(max_position_embeddings=15)
    model = saved(tmp_path)
    source, table = open_model(str(tmp_path)), model.embeddings.position_embeddings.numpy()
    restored = AlbertModel(longer_config)
    load_into(restored, source)
    for longer in (restored, build(source, lambda: AlbertModel(longer_config))[0]):
        np.testing.assert_array_equal(longer.embeddings.position_embeddings, np.concatenate([table, table, table[:3]]))
        np.testing.assert_array_equal(longer(BATCH)["sequence_output"], model(BATCH)["sequence_output"])
    assert caplog.text.count("has 6 positions, the model 15") == 2
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(restored(rows(15, 15))["pooled_output"])
    gradient = tf.convert_to_tensor(tape.gradient(loss, restored.embeddings.position_embeddings))
    assert gradient.shape == [15, 4] and np.all(np.abs(gradient).max(axis=1) > 0)
    for config in (TINY.replace(max_position_embeddings=5), longer_config.replace(embedding_size=8)):
        with pytest.raises(ValueError, match="another model: bert/embeddings/.*_embeddings has shape"):
            load_into(AlbertModel(config), source)


BERT = CONFIG.replace(embedding_size=64, num_hidden_layers=4, cross_layer_sharing="none")


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> StoredModel:
    """A BERT whose layers, biases and LayerNorms all differ."""
    keras.utils.set_random_seed(2)
    model = AlbertPretrainer(BERT)
    rng = np.random.default_rng(2)
    for variable in model.weights:
        variable.assign_add(0.1 * rng.standard_normal(variable.shape))
    folder = str(tmp_path_factory.mktemp("bert"))
    save(model, folder, "ours")
    return open_model(folder)


@pytest.mark.parametrize("make, parts", [
    (lambda bert, narrow: widened(narrow, 32), "size 32.* Received: 32"),
    (lambda bert, narrow: widened(narrow, 64), r"hidden size \(64\)"),
    (lambda bert, narrow: reshaped(bert, None, 3), "4 layers .* 3 groups"),
    (lambda bert, narrow: reshaped(bert, 64, None), "from 2 to 63"),
    (lambda bert, narrow: reshaped(narrow, None, 1), "share their weights already"),
    (lambda bert, narrow: reshaped(narrow, None, None, (1,)), "share their weights already")])
def test_sizes_that_are_not_possible_are_named(bert, narrow, make, parts):
    with pytest.raises(ValueError, match=parts):
        make(bert, open_model(narrow[1]))


def test_shared_weights_are_the_means_of_those_of_a_group(bert):
    pairs = reshaped(bert, None, 2)
    for name in ("attention_1/self/key/kernel", "attention_1/self/key/bias", "LayerNorm/gamma"):
        values = [bert.value(f"bert/encoder/transformer/group_{layer}/inner_group_0/{name}") for layer in (2, 3)]
        np.testing.assert_allclose(pairs.value(f"bert/encoder/transformer/group_1/inner_group_0/{name}"),
                                   np.mean(values, axis=0), atol=1e-6)
    model, report = build(reshaped(bert, 16, 1), "encoder")
    assert not report.not_restored
    assert model.config == BERT.replace(embedding_size=16, cross_layer_sharing="all")
    np.testing.assert_array_equal(model(batch())["encoder_outputs"][0].shape, [4, 8, 64])


def test_narrow_embeddings_are_near_the_wide_ones_and_nearer_the_wider_they_are(bert):
    expected = build(bert, "encoder")[0](batch())["embedding_output"].numpy().ravel()
    correlations = []
    for size in (8, 32, 63):
        model, _ = build(factorized(bert, size), "encoder")
        projected = model.encoder.embedding_hidden_mapping_in(model(batch())["embedding_output"])
        correlations.append(np.corrcoef(expected, projected.numpy().ravel())[0, 1])
    assert correlations == sorted(correlations) and correlations[0] > 0.5 and correlations[-1] > 0.98
