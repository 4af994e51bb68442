"""Folders of classes that transformers does not have: the head is found by its tensors, and others are named."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny import values_of

import albert_tf
from albert_tf.weights.stored_model import open_model

TRANSITIONS = "crf.end_transitions, crf.start_transitions, crf.transitions"
LABELS = ("O", "B-PER", "I-PER")


@pytest.fixture
def changed(copied, caplog):
    """A function that gives a folder of a head another class and other tensors; the model, and the folder."""
    def change(name, architecture, tensors=lambda values: {}, **config):
        model, folder = copied(name)
        values = load_file(folder / "model.safetensors")
        values.update(tensors(values))
        save_file({key: value for key, value in values.items() if value is not None}, folder / "model.safetensors")
        for file in (".hugging_face.manifest.json", "albert_tf.json"):
            (folder / file).unlink(missing_ok=True)
        content = json.loads((folder / "config.json").read_text())
        content.update(config, architectures=[architecture])
        (folder / "config.json").write_text(json.dumps(content))
        caplog.clear()
        return model, folder

    return change


def crf(values):
    return {"crf.transitions": np.zeros((3, 3), np.float32), "crf.start_transitions": np.zeros(3, np.float32),
            "crf.end_transitions": np.zeros(3, np.float32)}


def pooler(values):
    return {"albert.pooler.weight": np.eye(16, dtype=np.float32), "albert.pooler.bias": np.zeros(16, np.float32)}


def same_head(model, folder, kind):
    read, expected = values_of(albert_tf.from_pretrained(str(folder), model=kind)), values_of(model)
    for name in ("weights", "bias"):
        prefix = "cls/tokens/" if kind == "token_classifier" else "cls/squad/" if kind == "span" else ""
        np.testing.assert_array_equal(read[f"{prefix}output_{name}"], expected[f"{prefix}output_{name}"])


@pytest.mark.parametrize("tensors, labels", [
    (lambda values: {**crf(values), **pooler(values)}, None),  # as Chinese programs of named entities save it
    (lambda values: {}, None),  # no pooler, without which no text is classified
    (pooler, LABELS)], ids=["crf", "no_pooler", "names_of_tags"])
@pytest.mark.parametrize("architecture", ["AlbertCrfForNer", "AlbertModel", ""])
def test_a_classifier_of_tokens_is_found(changed, caplog, tensors, labels, architecture):
    labels = {"id2label": dict(enumerate(labels))} if labels else {"id2label": {}}
    model, folder = changed("token_classifier", architecture, tensors, **labels)
    assert open_model(str(folder)).head == "token_classifier"
    same_head(model, folder, "token_classifier")
    assert "random values" not in caplog.text
    assert ("class AlbertCrfForNer, which transformers does not have: by its tensors, it is read as token_classifier"
            in caplog.text) == (architecture == "AlbertCrfForNer")
    assert (f"nothing here reads {TRANSITIONS}." in caplog.text) == ("crf.transitions" in tensors({}))


@pytest.mark.parametrize("name, kind", [("classifier", "classifier"), ("span", "span"), ("regression", "classifier")])
def test_other_heads_are_found(changed, caplog, name, kind):
    model, folder = changed(name, "AlbertForEverything")
    same_head(model, folder, kind)
    assert f"class AlbertForEverything, which transformers does not have: by its tensors, it is read as {kind}" in (
        caplog.text)
    assert "nothing here reads" not in caplog.text


def test_a_head_on_other_vectors_is_named_and_not_read(changed, caplog):
    """The first token and the pooled output, joined: twice as wide as the encoder."""
    model, folder = changed("classifier", "AlbertForJoinedVectors",
                            lambda values: {"classifier.weight": np.zeros((2, 32), np.float32)})
    assert open_model(str(folder)).head == "encoder"
    albert_tf.from_pretrained(str(folder), model="classifier", num_labels=2)
    assert "nothing here reads classifier.bias, classifier.weight." in caplog.text
    assert "classifier head start with random values" in caplog.text


def test_tensors_without_a_use_are_named_for_each_class(changed, caplog):
    _, folder = changed("classifier", "AlbertForSequenceClassification",
                        lambda values: {f"adapters.{number}": np.zeros(2, np.float32) for number in range(30)})
    open_model(str(folder))
    assert "nothing here reads adapters.0, adapters.1, adapters.10, " in caplog.text and "and 10 more." in caplog.text


@pytest.mark.parametrize("name", ["encoder", "pretrainer", "classifier", "token_classifier", "span", "bert",
                                  "multiple_choice", "sentence_encoder"])
def test_nothing_is_told_of_folders_that_are_read_whole(written, caplog, name):
    _, folder = written(name, "hugging_face")
    caplog.clear()
    open_model(str(folder))
    assert not caplog.text
