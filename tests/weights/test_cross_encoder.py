"""CrossEncoder folders of sentence-transformers: their scores, round trips, errors."""

import json
import shutil

import numpy as np
import pytest
from sentence_transformers_client import PASSAGES, QUERIES

import albert_tf
from albert_tf.tasks.classification.answers import RelevanceScorer
from albert_tf.weights.stored_model import head_of_source, open_source

pytestmark = pytest.mark.both_stacks
CONFIG = "config_sentence_transformers.json"


@pytest.fixture
def folder(golden, tmp_path):
    return shutil.copytree(golden / "sentence_transformers/cross_encoder", tmp_path / "cross_encoder")


@pytest.fixture(scope="module")
def scores(golden):
    return json.loads((golden / "sentence_transformers/numbers.json").read_text())["scores"]


def scores_of(path):
    model = albert_tf.from_pretrained(str(path), model="classifier")
    return model, RelevanceScorer(model, albert_tf.tokenizer_from_pretrained(str(path)), 2)(QUERIES, PASSAGES)


def test_scores_are_those_of_sentence_transformers(folder, scores):
    assert head_of_source(open_source(str(folder))) == "classifier"
    model, found = scores_of(folder)
    assert (model.activation_fn, model.num_labels, model.max_seq_length) == ("sigmoid", 1, 17)
    np.testing.assert_allclose(found, scores, atol=1e-5)


def test_the_function_of_the_score_may_be_the_identity(folder, scores):
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(dict(values, activation_fn="torch.nn.modules.linear.Identity")))
    _, found = scores_of(folder)
    np.testing.assert_allclose(1 / (1 + np.exp(-found)), scores, atol=1e-5)


@pytest.mark.parametrize("entry", [
    dict(sentence_transformers=dict(activation_fn="torch.nn.modules.linear.Identity", version="4.1.0")),
    dict(sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")])
def test_folders_of_earlier_versions_are_read(folder, entry):
    for name in (CONFIG, "modules.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **entry}))
    assert albert_tf.from_pretrained(str(folder), model="classifier").activation_fn == "identity"


def test_with_several_labels_it_is_a_classifier(folder):
    model = albert_tf.from_pretrained(str(folder), model="classifier", num_labels=3)
    assert (model.num_labels, model.activation_fn) == (3, None)


@pytest.mark.parametrize("form", ["ours", "tf1", "hugging_face"])
def test_every_form_keeps_the_scores(folder, tmp_path, scores, form):
    model, _ = scores_of(folder)
    albert_tf.save_pretrained(model, str(tmp_path / form), albert_tf.tokenizer_from_pretrained(str(folder)), form)
    again, found = scores_of(tmp_path / form)
    assert again.activation_fn == "sigmoid"
    np.testing.assert_allclose(found, scores, atol=1e-5)


def test_another_function_is_refused(folder):
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(dict(values, activation_fn="torch.nn.modules.activation.Tanh")))
    with pytest.raises(ValueError, match=f"{CONFIG}: the activation of a CrossEncoder must be one of torch.nn.modules"
                                         ".*Sigmoid, .*Identity. Received: '.*Tanh'"):
        open_source(str(folder))
