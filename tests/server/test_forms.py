"""classify, regress and metadata: TensorFlow Serving's forms beside predict."""

import http.client
import json

import numpy as np
import pytest
from server_running import running

from albert_tf.server.signatures import ServedModel, Signature, Spec

TEXTS = dict(text_a=Spec("string", (None,)), text_b=Spec("string", (None,), ""))


def probabilities(columns):
    return dict(probabilities=np.array([[0.25, 0.75] if b else [1.0, 0.0] for b in columns["text_b"]]),
                predictions=np.array([int(b != b"") for b in columns["text_b"]]))


def scores(columns):
    lengths = np.array([float(len(text)) for text in columns["text_a"]])
    return dict(probabilities=lengths[:, None], predictions=lengths)


MODELS = [
    ServedModel("films", "a classifier", dict(
        serving_default=Signature(TEXTS, probabilities, "classify", labels=("bad", "good"), outputs=dict(
            probabilities=Spec("float32", (None, 2)), predictions=Spec("int32", (None,)))),
        unnamed=Signature(TEXTS, probabilities, "classify"),
        other=Signature(TEXTS, scores, outputs=dict(any=Spec("string", (None,)))))),
    ServedModel("lengths", "a regression", dict(serving_default=Signature(TEXTS, scores, "classify"))),
]


@pytest.fixture(scope="module")
def server():
    with running(MODELS) as server:
        yield server


def ask(server, path, body=None):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=60)
    connection.request("POST" if body else "GET", f"/v1/models/{path}", json.dumps(body) if body else None)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def test_classify_gives_each_label_with_its_probability(server):
    assert ask(server, "films:classify", dict(examples=[dict(text_a="a"), dict(text_a="a", text_b="b")])) == (
        200, dict(results=[[["bad", 1.0], ["good", 0.0]], [["bad", 0.25], ["good", 0.75]]]))
    assert ask(server, "films:classify", dict(context=dict(text_b="b"), examples=[dict(text_a="a")])) == (
        200, dict(results=[[["bad", 0.25], ["good", 0.75]]]))
    assert ask(server, "films:classify", dict(signature_name="unnamed", examples=[dict(text_a="a")])) == (
        200, dict(results=[[["0", 1.0], ["1", 0.0]]]))


def test_regress_gives_scores(server):
    assert ask(server, "lengths:regress", dict(examples=[dict(text_a="abc"), dict(text_a="")])) == (
        200, dict(results=[3.0, 0.0]))


@pytest.mark.parametrize("path, body, status, message", [
    ("lengths:classify", dict(examples=[dict(text_a="a")]), 400, "serving_default is no classifier of texts: use "
     ":predict or :regress"),
    ("films:regress", dict(examples=[dict(text_a="a")]), 400, "serving_default is no regression: use :predict or "
     ":classify"),
    ("films:classify", dict(signature_name="other", examples=[dict(text_a="a")]), 400, "other is no classifier of "
     "texts: use :predict"),
    ("films:classify", dict(instances=[dict(text_a="a")]), 400, "the body may have signature_name, context, examples"),
    ("films:classify", dict(examples=[]), 400, '"examples" must be a list with at least one value'),
    ("films:classify", dict(context=1, examples=["a"]), 400, '"context" must be an object'),
    ("films:explain", dict(examples=["a"]), 404, "there is no :explain; a model has :predict, :classify, :regress"),
])
def test_the_error_of_another_form_says_what_to_use(server, path, body, status, message):
    received, answer = ask(server, path, body)
    assert received == status and message in answer["error"]


@pytest.mark.parametrize("path", ["films/metadata", "films/versions/1/metadata"])
def test_metadata_has_the_signatures_and_the_names_of_the_labels(server, path):
    status, answer = ask(server, path)
    assert status == 200 and answer["model_spec"] == dict(name="films", signature_name="", version="1")
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    text = dict(dtype="DT_STRING", tensor_shape=dict(dim=[dict(size="-1", name="")], unknown_rank=False), name="")
    assert signatures["serving_default"]["inputs"] == dict(text_a=text, text_b=text)
    assert signatures["serving_default"]["method_name"] == "tensorflow/serving/predict"
    probabilities = signatures["serving_default"]["outputs"]["probabilities"]
    assert probabilities["dtype"] == "DT_FLOAT"
    assert [size["size"] for size in probabilities["tensor_shape"]["dim"]] == ["-1", "2"]
    assert answer["labels"] == dict(serving_default=["bad", "good"])
