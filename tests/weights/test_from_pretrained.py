"""from_pretrained: which checkpoint a path means, and which model is built."""

import contextlib
import json
import logging
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY, values_of

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.weights.from_pretrained import build, load_into
from albert_tf.weights.heads import HEAD_NAMES, head_named
from albert_tf.weights.stored_model import open_model
from albert_tf.weights.tf1 import save_tf1_checkpoint

pytestmark = pytest.mark.both_stacks


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "albert_config.json").write_text(TINY.to_json_string())
    return tmp_path


def pooler(model):
    return next(variable.numpy() for variable in model.weights if release_name(variable) == "bert/pooler/dense/kernel")


def saved(folder, name):
    model = AlbertPretrainer(TINY)
    save_tf1_checkpoint(model, str(folder / name))
    return pooler(model)


def test_a_folder_means_its_best_checkpoint_else_its_latest_else_its_only_one(folder):
    only = saved(folder, "model.ckpt")
    np.testing.assert_array_equal(pooler(albert_tf.from_pretrained(str(folder))), only)
    saved(folder, "model.ckpt-900")
    latest = saved(folder, "model.ckpt-1000")
    np.testing.assert_array_equal(pooler(albert_tf.from_pretrained(str(folder))), latest)
    best = saved(folder, "model.ckpt-best")
    np.testing.assert_array_equal(pooler(albert_tf.from_pretrained(str(folder))), best)
    for ending in ("", ".index", ".data-00000-of-00001", ".meta"):
        path = f"{folder}/model.ckpt-1000{ending}"
        np.testing.assert_array_equal(pooler(albert_tf.from_pretrained(path)), latest)
    shutil.copy(folder / "albert_config.json", folder / "config.json")  # Hugging Face's name for it
    np.testing.assert_array_equal(pooler(albert_tf.from_pretrained(str(folder))), best)


def test_a_checkpoint_of_a_run_is_read_without_its_optimizer_by_every_kind_of_model(folder):
    model = AlbertPretrainer(TINY)
    optimizer = albert_tf.create_optimizer("adamw")
    optimizer.apply_gradients([(variable * 0, variable) for variable in model.trainable_variables])
    tf.train.Checkpoint(model=model, optimizer=optimizer, step=optimizer.iterations).write(str(folder / "model.ckpt-7"))
    again = albert_tf.from_pretrained(str(folder), model="pretrainer")
    assert all(np.array_equal(a, b) for a, b in zip(model.weights, again.weights))
    for kind in set(HEAD_NAMES) - {"pretrainer"}:
        read = albert_tf.from_pretrained(str(folder), model=kind, **dict(num_labels=2) if "classifier" in kind else {})
        np.testing.assert_array_equal(pooler(read), pooler(model))
        report = load_into(read, open_model(str(folder)))
        assert all(name.startswith("cls/") for name in report.not_used)
        assert len(report.restored) + len(report.not_restored) == len(read.weights)


def test_a_classifier_has_the_labels_of_its_checkpoint_or_as_many_as_are_asked_for(tmp_path, caplog):
    albert_tf.save_pretrained(AlbertClassifier(TINY, 5), str(tmp_path / "five"))
    assert albert_tf.from_pretrained(str(tmp_path / "five"), model="classifier").num_labels == 5
    assert not caplog.text
    two = albert_tf.from_pretrained(str(tmp_path / "five"), model="classifier", label_names=("bad", "good"))
    assert two.num_labels == 2 and two.settings.label_names == ("bad", "good")
    assert "the variables of the classifier head start with random values" in caplog.text
    assert "five has weights of other shapes for them" in caplog.text


def test_the_weights_that_training_starts_from_give_its_first_losses(golden):
    model = albert_tf.from_pretrained(str(golden / "training_init"), model="pretrainer")
    numbers = np.load(golden / "training_lamb.npz")
    batch = {key[6:]: numbers[key][0] for key in numbers.files if key.startswith("batch_")}
    labels = batch["next_sentence_labels"][:, 0]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(batch)["sop_logits"])
    np.testing.assert_allclose(tf.reduce_mean(losses), numbers["sentence_order_loss_onehot"][0], atol=5e-5)


@pytest.mark.parametrize("model, arguments, parts", [
    ("classifier", dict(num_labels=2), "classifier head"), ("conditional_span", {}, "conditional span head"),
    ("pretrainer", {}, "masked-LM head and the sentence-order head")])
def test_a_head_without_weights_is_warned_of_in_one_line(folder, caplog, model, arguments, parts):
    save_tf1_checkpoint(AlbertModel(TINY), str(folder / "model.ckpt-best"))
    albert_tf.from_pretrained(str(folder), model=model, **arguments)
    warning, = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.getMessage() == (
        f"the variables of the {parts} start with random values, since {folder} has no weights for them")


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_task_starts_from_weights_and_its_heads_from_the_seed(folder, caplog, mirrored, replicas):
    encoder = AlbertModel(TINY)
    save_tf1_checkpoint(encoder, str(folder / "model.ckpt"))

    def values(variable):
        of_replicas = [value.numpy() for value in mirrored.experimental_local_results(
            keras.tf_variable(variable))]
        assert len(of_replicas) == replicas and np.array_equal(of_replicas[0], of_replicas[-1])
        return of_replicas[0]

    def head(seed):
        keras.utils.set_random_seed(seed)
        with mirrored.scope() if replicas == 2 else contextlib.nullcontext():
            objective, _ = build(open_model(str(folder)), lambda: PretrainingObjective(AlbertPretrainer(TINY)))
        np.testing.assert_array_equal(values(objective.model.albert.pooler.kernel), encoder.pooler.kernel)
        return values(objective.model.sentence_order.kernel)

    with caplog.at_level(logging.INFO, logger="absl"):
        np.testing.assert_array_equal(head(seed=1), head(seed=1))
    logged = [line for line in caplog.text.splitlines() if "25 variables restored; new, random: cls/predi" in line]
    assert [line.count("cls/") for line in logged] == [7, 7]  # both heads, and no metric
    assert not np.array_equal(head(seed=1), head(seed=2))


def without_config(folder):
    saved(folder, "model.ckpt-best")
    (folder / "albert_config.json").unlink()


def with_another_config(folder):
    saved(folder, "model.ckpt-best")
    (folder / "albert_config.json").write_text(TINY.replace(hidden_size=16).to_json_string())


@pytest.mark.parametrize("make, path, arguments, message", [
    (lambda folder: saved(folder, "model.ckpt-best"), "", dict(model="tagger"), f"{', '.join(HEAD_NAMES)}.*'tagger'$"),
    (lambda folder: saved(folder, "model.ckpt-best"), "", dict(model="classifier"), "model.ckpt-best .* num_labels"),
    (lambda folder: None, "", {}, "no checkpoint at "),
    (lambda folder: None, "nowhere", {}, "no checkpoint at .*nowhere"),
    (lambda folder: (saved(folder, "first"), saved(folder, "second")), "", {}, "choose one: first, second"),
    (without_config, "", {}, r"has no albert_config.json \(of a BERT: bert_config.json\): copy it beside the weights"),
    (with_another_config, "", {}, r"embedding_hidden_mapping_in/kernel .*\[4, 8\].*\[4, 16\]"),
    (lambda folder: None, "no such folder", dict(model="span", name="mine", labels=3),
     'model="span" .* labels: the known ones are .*max_seq_length')])
def test_the_error_of_a_model_that_cannot_be_loaded_says_why(folder, make, path, arguments, message):
    make(folder)
    with pytest.raises(ValueError, match=message):
        albert_tf.from_pretrained(str(folder / path), **arguments)


@pytest.mark.parametrize("stored, changes, message", [
    (dict(), dict(num_attention_heads=4), "num_attention_heads=2, but is used with 4"),
    (dict(), dict(hidden_act="relu"), "hidden_act=gelu, but is used with relu"),
    (dict(num_hidden_groups=2), dict(num_hidden_layers=1, num_hidden_groups=1), "num_hidden_layers=2, but is used"),
    (dict(num_hidden_groups=2), dict(num_hidden_groups=1), None),
    (dict(inner_group_num=2), dict(inner_group_num=1), None),
    (dict(cross_layer_sharing="none"), dict(cross_layer_sharing="all"), None)])
def test_another_config_is_warned_of_or_refused_if_layers_have_other_groups(tmp_path, caplog, stored, changes, message):
    albert_tf.save_pretrained(AlbertModel(TINY.replace(**stored)), str(tmp_path))
    config = TINY.replace(**{**stored, **changes})
    with contextlib.nullcontext() if message else pytest.raises(ValueError, match="another model: its layers have"):
        albert_tf.from_pretrained(str(tmp_path), config=config)
        assert message in caplog.text


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
    model = AlbertPretrainer(TINY)
    before = values_of(model)["cls/predictions/transform/dense/kernel"]
    report = load_into(model, open_model(str(tmp_path / "encoder")))
    assert set(report.not_restored) == {name for name in values_of(model) if name.startswith("cls/")}
    assert "new, random: cls/predictions/output_bias, " in str(report)
    np.testing.assert_array_equal(values_of(model)["cls/predictions/transform/dense/kernel"], before)
    save_tf1_checkpoint(model, str(tmp_path / "pretrainer"))
    report = load_into(AlbertModel(TINY), open_model(str(tmp_path / "pretrainer")))
    assert len(report.not_used) == 7 and "not used: cls/predictions/output_bias" in str(report)
    mnli, rte = (head_named("classifier").model(TINY, num_labels=labels) for labels in (3, 2))
    save_tf1_checkpoint(mnli, str(tmp_path / "mnli"))
    report = load_into(rte, open_model(str(tmp_path / "mnli")))
    assert report.not_restored == {"output_weights": "shape [3, 8], not [2, 8]", "output_bias": "shape [3], not [2]"}
    np.testing.assert_array_equal(rte.albert.pooler.kernel, mnli.albert.pooler.kernel)


def test_weights_of_another_model_are_refused_and_change_nothing(tmp_path):
    save_tf1_checkpoint(AlbertModel(TINY.replace(vocab_size=21)), str(tmp_path / "model.ckpt"))
    model = AlbertModel(TINY)
    before = values_of(model)
    with pytest.raises(ValueError, match=r"word_embeddings .*\[21, 4\].* \[20, 4\]"):
        load_into(model, open_model(str(tmp_path / "model.ckpt")))
    with pytest.raises(ValueError, match="nothing was restored"):
        load_into(model, open_model(tf.train.Checkpoint(weights=tf.Variable([1.0])).write(str(tmp_path / "other"))))
    assert all(np.array_equal(before[name], value) for name, value in values_of(model).items())


def test_every_group_can_start_from_group_0(tmp_path):
    save_tf1_checkpoint(AlbertModel(TINY), str(tmp_path / "model.ckpt"))
    source, config = open_model(str(tmp_path / "model.ckpt")), TINY.replace(num_hidden_layers=3, num_hidden_groups=3)
    with pytest.raises(ValueError, match="the config asks for group 2, inner group 1: use the config that belongs"):
        build(source, lambda: AlbertModel(config))
    grouped, report = build(source, lambda: AlbertModel(config), init_from_group0=True)
    assert not report.not_restored and not report.not_used
    values = values_of(grouped)
    for name in values:
        np.testing.assert_array_equal(values[name], values[name.replace("group_2/inner", "group_0/inner")])
