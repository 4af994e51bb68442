"""from_pretrained: which checkpoint a path means, and which model is built."""

import contextlib
import logging
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.modeling.albert_model import AlbertModel
from albert_tf.modeling.classifier import AlbertClassifier
from albert_tf.modeling.layers import release_name
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.modeling.span import AlbertSpan
from albert_tf.pretraining.objective import PretrainingObjective
from albert_tf.weights.from_pretrained import build, load_into
from albert_tf.weights.heads import HEAD_NAMES
from albert_tf.weights.hugging_face.writing import save_hugging_face
from albert_tf.weights.stored_model import open_source
from albert_tf.weights.tf1 import checkpoint_prefix, save_tf1_checkpoint

TINY = AlbertConfig(vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=6)


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
    np.testing.assert_array_equal(pooler(albert_tf.from_pretrained(str(folder / "model.ckpt-1000"))), latest)


def test_a_folder_of_several_checkpoints_without_an_order_is_refused(folder):
    saved(folder, "first"), saved(folder, "second")
    with pytest.raises(ValueError, match="several checkpoints in .*, choose one: first, second"):
        albert_tf.from_pretrained(str(folder))


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001", ".meta"])
def test_a_file_of_a_checkpoint_stands_for_the_checkpoint(tmp_path, ending):
    save_tf1_checkpoint(AlbertModel(TINY), str(tmp_path / "model.ckpt-5"))
    assert checkpoint_prefix(str(tmp_path / f"model.ckpt-5{ending}")) == str(tmp_path / "model.ckpt-5")


def test_a_file_of_keras_is_not_called_a_pickle(tmp_path):
    (tmp_path / "m.keras").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="m.keras is a file that Keras reads: use keras.models.load_model"):
        albert_tf.from_pretrained(str(tmp_path / "m.keras"))


def test_the_names_of_labels_are_their_number(folder):
    save_tf1_checkpoint(AlbertPretrainer(TINY), str(folder / "model.ckpt-best"))
    model = albert_tf.from_pretrained(str(folder), model="classifier", label_names=("bad", "fair", "good"))
    assert model.num_labels == 3 and model.label_names == ("bad", "fair", "good")


def test_a_head_for_another_number_of_labels_is_said_to_have_another_shape(tmp_path, caplog):
    albert_tf.save_pretrained(AlbertClassifier(TINY, 2), str(tmp_path / "two"))
    albert_tf.from_pretrained(str(tmp_path / "two"), model="classifier", num_labels=3)
    assert "two has weights of other shapes for them" in caplog.text


def test_an_argument_of_another_kind_of_model_is_named_with_the_kinds_that_have_it():
    with pytest.raises(ValueError, match='model="encoder" has no argument num_labels: set model="classifier" or '
                                         'model="token_classifier"$'):
        albert_tf.from_pretrained("no such folder", num_labels=3)
    with pytest.raises(ValueError, match='model="span" has no argument labels$'):
        albert_tf.from_pretrained("no such folder", model="span", name="mine", labels=3)


@pytest.mark.parametrize("kind", ["encoder", "pretrainer", "span", "conditional_span", "multiple_choice"])
def test_every_kind_of_model_takes_a_pretrained_encoder(folder, kind):
    kernel = saved(folder, "model.ckpt-best")
    np.testing.assert_array_equal(pooler(albert_tf.from_pretrained(str(folder), model=kind)), kernel)


def test_our_own_checkpoints_are_read_by_any_kind_of_model(folder):
    model = AlbertPretrainer(TINY)
    optimizer = keras.optimizers.legacy.Adam()
    optimizer.apply_gradients([(variable * 0, variable) for variable in model.trainable_variables])
    tf.train.Checkpoint(model=model, optimizer=optimizer, step=optimizer.iterations).write(str(folder / "model.ckpt-7"))
    again = albert_tf.from_pretrained(str(folder), model="pretrainer")
    assert all(np.array_equal(a, b) for a, b in zip(model.weights, again.weights))
    classifier = AlbertClassifier(TINY, num_labels=2)
    report = load_into(classifier, open_source(str(folder)))
    assert set(report.not_restored) == {"output_weights", "output_bias"}
    assert len(report.restored) == len(classifier.weights) - 2
    assert all(name.startswith("cls/") for name in report.not_used)


def test_a_classifier_has_the_labels_of_its_checkpoint(folder):
    save_tf1_checkpoint(AlbertClassifier(TINY, num_labels=5), str(folder / "model.ckpt-best"))
    assert albert_tf.from_pretrained(str(folder), model="classifier").classifier.kernel.shape == [5, 8]
    assert albert_tf.from_pretrained(str(folder), model="classifier", num_labels=2).classifier.kernel.shape == [2, 8]


def test_a_classifier_of_a_pretrained_model_needs_num_labels(folder):
    saved(folder, "model.ckpt-best")
    with pytest.raises(ValueError, match="model.ckpt-best has no classifier: set num_labels"):
        albert_tf.from_pretrained(str(folder), model="classifier")


def test_the_weights_that_training_starts_from_give_its_first_losses(golden):
    model = albert_tf.from_pretrained(str(golden / "training_init"), model="pretrainer")
    numbers = np.load(golden / "training_lamb.npz")
    batch = {key[6:]: numbers[key][0] for key in numbers.files if key.startswith("batch_")}
    labels = batch["next_sentence_labels"][:, 0]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(batch)["sop_logits"])
    np.testing.assert_allclose(tf.reduce_mean(losses), numbers["sentence_order_loss_onehot"][0], atol=5e-5)


def test_the_restored_variables_are_logged(folder, caplog):
    saved(folder, "model.ckpt-best")
    with caplog.at_level(logging.INFO, logger="absl"):
        albert_tf.from_pretrained(str(folder), model="span")
    assert "25 variables restored; new, random: cls/squad/output_weights, cls/squad/output_bias; " in caplog.text


@pytest.mark.parametrize("model, arguments, parts", [
    ("classifier", dict(num_labels=2), "classifier head"), ("conditional_span", {}, "conditional span head"),
    ("pretrainer", {}, "masked-LM head and the sentence-order head")])
def test_a_head_without_weights_is_warned_of_in_one_line(folder, caplog, model, arguments, parts):
    save_tf1_checkpoint(AlbertModel(TINY), str(folder / "model.ckpt-best"))
    albert_tf.from_pretrained(str(folder), model=model, **arguments)
    warning, = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.getMessage() == (
        f"the variables of the {parts} start with random values, since {folder} has no weights for them")


def test_a_head_with_other_labels_is_warned_of_and_a_restored_one_is_not(folder, caplog):
    save_tf1_checkpoint(AlbertClassifier(TINY, 3), str(folder / "model.ckpt-best"))
    for num_labels, warnings in ((3, 0), (2, 1)):
        caplog.clear()
        albert_tf.from_pretrained(str(folder), model="classifier", num_labels=num_labels)
        assert caplog.text.count("the variables of the classifier head start with random values") == warnings


def test_a_missing_pooler_is_warned_of_if_the_model_uses_it(tmp_path, caplog):
    save_hugging_face(AlbertSpan(TINY), str(tmp_path))
    for model, warnings in (("span", 0), ("encoder", 1)):
        caplog.clear()
        albert_tf.from_pretrained(str(tmp_path), model=model)
        assert caplog.text.count("the variables of the pooler start with random values") == warnings


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_task_starts_from_weights_and_its_heads_from_the_seed(folder, caplog, mirrored, replicas):
    encoder = AlbertModel(TINY)
    save_tf1_checkpoint(encoder, str(folder / "model.ckpt"))

    def values(variable):
        of_replicas = [value.numpy() for value in mirrored.experimental_local_results(variable)]
        assert len(of_replicas) == replicas and np.array_equal(of_replicas[0], of_replicas[-1])
        return of_replicas[0]

    def head(seed):
        keras.utils.set_random_seed(seed)
        with mirrored.scope() if replicas == 2 else contextlib.nullcontext():
            objective, _ = build(open_source(str(folder)), lambda: PretrainingObjective(AlbertPretrainer(TINY)))
        np.testing.assert_array_equal(values(objective.model.albert.pooler.kernel), encoder.pooler.kernel)
        return values(objective.model.sentence_order.kernel)

    with caplog.at_level(logging.INFO, logger="absl"):
        np.testing.assert_array_equal(head(seed=1), head(seed=1))
    logged = [line for line in caplog.text.splitlines() if "25 variables restored; new, random: cls/predi" in line]
    assert [line.count("cls/") for line in logged] == [7, 7]  # both heads, and no metric
    assert not np.array_equal(head(seed=1), head(seed=2))


@pytest.mark.parametrize("make, arguments, message", [
    (lambda folder: saved(folder, "model.ckpt-best"), dict(model="tagger"),
     rf"^model must be one of {', '.join(HEAD_NAMES)}\. Received: 'tagger'$"),
    (lambda folder: None, {}, "no checkpoint at "),
    (lambda folder: (saved(folder, "model.ckpt-best"), (folder / "albert_config.json").unlink()), {},
     "no such config file: "),
    (lambda folder: (saved(folder, "model.ckpt-best"),
                     (folder / "albert_config.json").write_text(TINY.replace(hidden_size=16).to_json_string())), {},
     r"embedding_hidden_mapping_in/kernel has shape \[4, 8\], expected \[4, 16\]"),
])
def test_the_error_of_a_model_that_cannot_be_loaded_says_why(folder, make, arguments, message):
    make(folder)
    with pytest.raises(ValueError, match=message):
        albert_tf.from_pretrained(str(folder), **arguments)


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


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="no checkpoint at .*nowhere"):
        albert_tf.from_pretrained(str(tmp_path / "nowhere"))


def test_hugging_faces_names_for_files_do_not_hide_a_checkpoint(folder):
    kernel = saved(folder, "model.ckpt-best")
    shutil.copy(folder / "albert_config.json", folder / "config.json")
    np.testing.assert_array_equal(pooler(albert_tf.from_pretrained(str(folder))), kernel)


def as_tf1(model, folder):
    save_tf1_checkpoint(model, str(folder / "model.ckpt-best"))


def as_ours(model, folder):
    tf.train.Checkpoint(model=model).write(str(folder / "model.ckpt-best"))


def as_hugging_face(model, folder):
    save_hugging_face(model, str(folder))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("save", [as_tf1, as_ours, as_hugging_face], ids=lambda save: save.__name__)
def test_weights_that_are_not_finite_are_refused_by_file_and_variable(folder, save, value):
    model = AlbertModel(TINY)
    kernel = next(variable for variable in model.weights if release_name(variable) == "bert/pooler/dense/kernel")
    kernel.assign(tf.tensor_scatter_nd_update(kernel, [[0, 1], [7, 3]], [value, value]))
    save(model, folder)
    message = re.escape(f"{folder}") + ".* cannot be used: 2 of the 64 values of bert/pooler/dense/kernel are NaN or "
    with pytest.raises(ValueError, match=message):
        albert_tf.from_pretrained(str(folder))
    with pytest.raises(ValueError, match=message):
        load_into(AlbertModel(TINY), open_source(str(folder)))
