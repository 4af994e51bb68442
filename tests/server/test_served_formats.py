"""Served models answer, in ONNX Runtime and in Keras, as a SavedModel of the same model does."""

import functools
import importlib.util
import json
import os
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from in_process import loaded
from new_head import new_head
from saved_models import export, served_saved_model
from server_running import running

from albert_tf import keras
from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.export.onnx.session import OnnxModel, from_onnx
from albert_tf.export.onnx.writing import to_onnx, write_companions
from albert_tf.server import models, server
from albert_tf.server.models import model_of_source, served_model
from albert_tf.weights.heads import head_named
from albert_tf.weights.settings import Settings, VocabularyFiles
from albert_tf.weights.stored_model import open_source

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.both_stacks, pytest.mark.long]

CONTEXT = "The name of the file is known. The number of the line is not. " * 4
# For each head, requests for texts. Those of a list are one batch.
REQUESTS = dict(
    classifier=[dict(text_a="the name"), dict(text_a="the name of the file", text_b="is known"), dict(text_a="")],
    pretrainer=["the [MASK] of the [MASK]", "a name", "[MASK] of\u00a0the line.[MASK]", "of " * 60 + "[MASK]"],
    span=[dict(question="which name?", context=f"ß\U0001F6A2 {CONTEXT}"), dict(question="", context="the file")],
    multiple_choice=[dict(context=CONTEXT, question="what _ known?", options=["the file", "", "of", "a line"]),
                     dict(context="", question="the", options=["name", "file", "line", "number"])],
    token_classifier=["ß name, the_file", "", CONTEXT], sentence_encoder=["the name", CONTEXT])
REQUESTS["conditional_span"] = REQUESTS["span"]
ARGUMENTS = dict(
    pretrainer=dict(), sentence_encoder=dict(max_seq_length=20), multiple_choice=dict(max_seq_length=20),
    token_classifier=dict(label_names=("O", "B-ä b", "I-x"), max_seq_length=12), span=dict(max_seq_length=24),
    conditional_span=dict(max_seq_length=24),
    classifier=dict(label_names=("bad", "good", "other"), max_seq_length=16))


@pytest.fixture(scope="module")
def config(sentence_pieces):
    return AlbertConfig(vocab_size=sentence_pieces.vocab_size + 3, embedding_size=8, hidden_size=16,
                        num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=48,
                        initializer_range=0.5)


@pytest.fixture(scope="module")
def made(config, sentence_pieces, tmp_path_factory):
    """A function from a head and arguments of its model to its SavedModel, its served ONNX model, and the folder."""
    @functools.lru_cache(maxsize=None)
    def make(name, **arguments):
        keras.utils.set_random_seed(1)
        model = head_named(name).model(config, **arguments)
        folder = tmp_path_factory.mktemp(name)
        vocabulary = VocabularyFiles.from_tokenizer(sentence_pieces)
        save(model, str(folder / "weights"), "ours", vocabulary)
        (folder / "onnx").mkdir()
        (folder / "onnx/model.onnx").write_bytes(to_onnx(model))
        write_companions(model, str(folder / "onnx"), vocabulary)
        onnx = from_onnx(str(folder / "onnx"))
        export(str(folder / "served"), model, sentence_pieces, top_k=3)
        return (served_saved_model("saved_model", str(folder / "served")),
                served_model("onnx", onnx, onnx.tokenizer, top_k=3), str(folder / "onnx"))

    return make


def post(server, path, **body):
    request = urllib.request.Request(f"{server.url}v1/models/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def assert_same(actual, expected):
    if isinstance(expected, dict):
        assert set(actual) == set(expected)
        for key in expected:
            assert_same(actual[key], expected[key])
    elif isinstance(expected, list) and expected and not isinstance(expected[0], float):
        assert len(actual) == len(expected)
        for pair in zip(actual, expected):
            assert_same(*pair)
    elif isinstance(expected, (list, float)):
        np.testing.assert_allclose(actual, expected, atol=1e-4)
    else:
        assert actual == expected


def with_arguments(name):
    arguments = dict(ARGUMENTS[name])
    return dict(arguments, num_labels=3) if "label_names" in arguments else arguments


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_head_answers_texts_as_its_saved_model_in_either_runtime(made, monkeypatch, caplog, name):
    saved_model, onnx, folder = made(name, **with_arguments(name))
    weights = of_weights("weights", folder, name)
    with monkeypatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda package: None)
        in_keras = of_weights("keras", folder, name)
    assert "since onnx and onnxruntime is not installed" in caplog.text
    models = [saved_model, onnx, weights, in_keras]
    with running(models) as server:
        expected, *others = (post(server, f"{model.name}:predict", instances=REQUESTS[name]) for model in models)
    for actual in others:
        assert_same(actual, expected)
    for key, signature in onnx.signatures.items():
        for other in (weights, in_keras):
            assert signature.inputs == other.signatures[key].inputs
            assert {name: spec.dtype for name, spec in signature.outputs.items()} == {
                name: spec.dtype for name, spec in other.signatures[key].outputs.items()}


def of_weights(name, folder, head):
    return model_of_source(name, open_source(os.path.join(os.path.dirname(folder), "weights")), head, top_k=3)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_head_has_the_signatures_of_its_saved_model(made, name):
    saved_model, onnx, _ = made(name, **with_arguments(name))
    assert set(onnx.signatures) == {*saved_model.signatures, *(["sentence_order"] if name == "pretrainer" else [])}
    for key in saved_model.signatures:
        signature = onnx.signatures[key]
        expected = saved_model.signatures[key]
        assert dict(signature.inputs) == dict(expected.inputs), key
        assert (signature.view, signature.labels) == (expected.view, expected.labels), key
        assert {output: spec.dtype for output, spec in signature.outputs.items()} == {
            output: spec.dtype for output, spec in expected.outputs.items()}, key


def test_a_classifier_that_was_trained_on_single_texts_takes_no_second_one(made):
    _, onnx, folder = made("classifier", **with_arguments("classifier"), single_texts=True)
    with running([onnx, of_weights("weights", folder, "classifier")]) as server:
        for name in ("onnx", "weights"):
            assert post(server, f"{name}:predict", instances=["the name"])
            with pytest.raises(urllib.error.HTTPError) as refused:
                post(server, f"{name}:predict", instances=[dict(text_a="the name", text_b="is known")])
            assert "text_b" in refused.value.read().decode()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_head_takes_ids_and_serialized_examples(made, name, config):
    saved_model, onnx, _ = made(name, **with_arguments(name))
    inputs = onnx.signatures["ids"].inputs
    length = dict(span=24, conditional_span=24, pretrainer=48, sentence_encoder=20, multiple_choice=80, classifier=16,
                  token_classifier=12)[name]
    random = np.random.default_rng(1)
    columns = {key: np.zeros([2, 20 if key == "masked_lm_positions" else length], np.int32) for key in inputs}
    columns["input_ids"] = random.integers(0, config.vocab_size, [2, length], np.int32)
    columns["input_mask"][:, : length - 2] = 1
    example = [tf.train.Example(features=tf.train.Features(feature={
        key: tf.train.Feature(int64_list=tf.train.Int64List(value=values[row])) for key, values in columns.items()}))
        for row in range(2)]
    serialized = np.array([each.SerializeToString() for each in example], object)
    for key, batch in (("ids", columns), ("examples", dict(examples=serialized))):
        expected, actual = (dict(model.signatures[key].run(batch)) for model in (saved_model, onnx))
        assert set(actual) == set(expected), key
        for output, values in expected.items():
            if values.dtype == np.float32:
                np.testing.assert_allclose(actual[output], values, atol=1e-4)
            else:
                np.testing.assert_array_equal(actual[output], values)


@pytest.mark.parametrize("arguments", [
    dict(num_labels=1), dict(num_labels=2), dict(num_labels=3, max_windows=3, window_pooling="max"),
    dict(num_labels=1, max_windows=4, doc_stride=3), dict(num_labels=1, activation_fn="sigmoid")])
def test_regressions_and_long_texts_are_answered_as_by_the_saved_model(made, arguments):
    saved_model, onnx, _ = made("classifier", max_seq_length=12, **arguments)
    rows = [dict(text_a="the name"), dict(text_a=CONTEXT), dict(text_a=CONTEXT, text_b="the file")]
    form = "regress" if arguments["num_labels"] == 1 else "classify"
    with running([saved_model, onnx]) as server:
        for path, body in (("predict", dict(instances=rows)), (form, dict(examples=rows))):
            expected, actual = (post(server, f"{model}:{path}", **body) for model in ("saved_model", "onnx"))
            assert_same(actual, expected)


def test_words_are_answered_as_by_the_saved_model(made):
    saved_model, onnx, _ = made("token_classifier", **with_arguments("token_classifier"))
    with running([saved_model, onnx]) as server:
        expected, actual = (post(server, f"{model}:predict", instances=[["the", "", "name", ""], ["of"] * 4],
                                 signature_name="words") for model in ("saved_model", "onnx"))
    assert_same(actual, expected)


def test_ids_that_the_model_does_not_have_are_an_error_of_the_request(made, monkeypatch):
    _, onnx, folder = made("sentence_encoder")
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    ids = np.array([[10**6]], np.int32)
    for model in (onnx, of_weights("keras", folder, "sentence_encoder")):
        with pytest.raises(ValueError, match="refuses its inputs: "):
            model.signatures["ids"].run(dict(input_ids=ids, input_mask=ids, segment_ids=ids * 0))


def test_the_command_serves_an_onnx_file_beside_other_models(made, monkeypatch):
    _, _, folder = made("classifier", num_labels=2)
    found = []

    class Server:
        url = "http://x/"

        def __init__(self, models, *_, **__):
            found.extend(models)

        def serve_forever(self):
            pass

        server_close = serve_forever

    monkeypatch.setattr(server, "ModelServer", Server)
    with loaded("serve") as run:
        assert run(onnx_model=[f"{folder}/model.onnx", folder], init_checkpoint="albert_tiny_en", port=0) == 0
    assert [model.name for model in found] == ["albert_tiny_en", "model", "onnx"]
    assert found[1].description.startswith("classifier from model: ")


def test_vectors_have_the_precision_of_the_export(config, sentence_pieces):
    model = head_named("sentence_encoder").model(config, truncate_dim=8, vector_precision="binary", max_seq_length=12)
    export = OnnxModel(to_onnx(model), Settings("sentence_encoder", dict(max_seq_length=12)))
    served = served_model("vectors", export, sentence_pieces)
    signature = served.signatures["serving_default"]
    assert signature.outputs["sentence_embedding"][:2] == ("int8", (None, 1))
    inputs = sentence_pieces(["the name"], max_seq_length=12)
    whole = model({name: tf.constant(values) for name, values in inputs.items()})["sentence_embedding"].numpy()
    found = signature.run(dict(text=np.array([b"the name"], object)))["sentence_embedding"]
    assert found.tolist() == [[int(np.packbits(whole[0] > 0)[0]) - 128]]


def test_a_head_without_signatures_is_refused(config, monkeypatch):
    monkeypatch.delitem(models._HEADS, "span")
    with pytest.raises(ValueError, match="the head span cannot be served: albert_tf/server/models.py has no"):
        served_model("span", new_head(head_named("span"), config), None)


def test_an_encoder_takes_ids(config):
    model = new_head(head_named("encoder"), config)
    onnx = OnnxModel(to_onnx(model))
    served = served_model("encoder", onnx, None)
    ids = np.array([[3, 4, 5]], np.int32)
    inputs = dict(input_ids=ids, input_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids))
    assert set(served.signatures) == {"ids", "examples"}
    np.testing.assert_allclose(served.signatures["ids"].run(inputs)["sequence_output"],
                               model(inputs)["sequence_output"], atol=1e-4)
