"""CrossEncoder folders of sentence-transformers: their scores, round trips, errors."""

import json
import shutil

import numpy as np
import pytest
from sentence_transformers_client import PASSAGES, QUERIES

import albert_tf
from albert_tf.tasks.classification.answers import RelevanceScorer
from albert_tf.weights.stored_model import open_source

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


def test_scores_are_those_of_sentence_transformers_with_either_function(folder, scores):
    assert open_source(str(folder)).head == "classifier"
    model, found = scores_of(folder)
    assert (model.activation_fn, model.num_labels, model.max_seq_length) == ("sigmoid", 1, 17)
    np.testing.assert_allclose(found, scores, atol=1e-5)
    several = albert_tf.from_pretrained(str(folder), model="classifier", num_labels=3)
    assert (several.num_labels, several.activation_fn) == (3, None)
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(dict(values, activation_fn="torch.nn.modules.linear.Identity")))
    np.testing.assert_allclose(1 / (1 + np.exp(-scores_of(folder)[1])), scores, atol=1e-5)
    (folder / CONFIG).write_text(json.dumps(dict(values, activation_fn="torch.nn.modules.activation.Tanh")))
    with pytest.raises(ValueError, match=f"{CONFIG}: .*Sigmoid, .*Identity. Received: '.*Tanh'"):
        open_source(str(folder))


@pytest.mark.parametrize("entry", [
    dict(sentence_transformers=dict(activation_fn="torch.nn.modules.linear.Identity", version="4.1.0")),
    dict(sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")])
def test_folders_of_earlier_versions_are_read(folder, entry):
    for name in (CONFIG, "modules.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **entry}))
    assert albert_tf.from_pretrained(str(folder), model="classifier").activation_fn == "identity"
