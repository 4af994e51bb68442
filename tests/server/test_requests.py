"""Requests in TensorFlow Serving's forms: predict, classify, regress and metadata, and errors of wrong ones."""

import json

import numpy as np
import pytest
import server_running

from albert_tf.server.requests import input_arrays, read_request, response
from albert_tf.server.signatures import ServedModel, Signature, Spec

TEXT = Signature(dict(text=Spec("string", (None,))), dict)
PAIR = Signature(dict(text_a=Spec("string", (None,)), text_b=Spec("string", (None,), "")), dict)
CHOICES = Signature(dict(question=Spec("string", (None,)), options=Spec("string", (None, 2))), dict)
IDS = Signature(dict(ids=Spec("int32", (None, None))), dict)


def arrays(signature, /, **body):
    request = read_request(json.dumps(body).encode())
    return {name: values.tolist() for name, values in input_arrays(request, signature, 3).items()}


@pytest.mark.parametrize("signature, body, expected", [
    *((TEXT, body, dict(text=[b"a", b"b"])) for body in (
        dict(instances=["a", "b"]), dict(instances=[dict(text="a"), dict(text="b")]), dict(inputs=["a", "b"]),
        dict(inputs=dict(text=["a", "b"])), dict(instances=[dict(b64="YQ=="), dict(text=dict(b64="Yg=="))]))),
    (PAIR, dict(instances=[dict(text_a="a"), dict(text_a="b", text_b="c")]),
     dict(text_a=[b"a", b"b"], text_b=[b"", b"c"])),
    (PAIR, dict(inputs=dict(text_a=["a", "b"])), dict(text_a=[b"a", b"b"], text_b=[b"", b""])),
    (PAIR, dict(instances=["a", "b"]), dict(text_a=[b"a", b"b"], text_b=[b"", b""])),
    (PAIR, dict(inputs=["a"]), dict(text_a=[b"a"], text_b=[b""])),
    (CHOICES, dict(instances=[dict(question="q", options=["é", ""])]),
     dict(question=[b"q"], options=[["é".encode(), b""]])),
    (IDS, dict(instances=[[1, 2], [3, 4]]), dict(ids=[[1, 2], [3, 4]]))])
def test_rows_and_columns_are_read_with_defaults_and_without_the_name_of_the_only_input(signature, body, expected):
    assert arrays(signature, **body) == expected


@pytest.mark.parametrize("signature, body, message", [
    (TEXT, dict(instances=["a"], inputs=["a"]), 'either "instances" or "inputs"'),
    (TEXT, dict(instances=[]), "at least one value"),
    (TEXT, dict(instances=["a"], signature_name=3), '"signature_name" must be a string'),
    (TEXT, dict(instances=["a"], signature="x"), "Received: 'signature'"),
    (TEXT, dict(instances=[["a"]]), r"text must hold strings. Received: \['a'\]"),
    (TEXT, dict(instances=["\ud83d"]), "half of a surrogate pair"),
    (TEXT, dict(instances=[dict(b64="?")]), "not base 64"),
    (TEXT, dict(instances=["a"] * 4), "1 to 3 rows. Received: 4"),
    (TEXT, dict(inputs="a"), "must be a list"),
    (PAIR, dict(instances=[dict(text_b="b")]), "text_a is missing: the signature takes text_a, text_b"),
    (PAIR, dict(instances=[dict(text_a="a", text_c="b")]), "there is no input 'text_c'"),
    (CHOICES, dict(instances=["a"]), "each instance must be an object"),
    (PAIR, dict(inputs=dict(text_a=["a"], text_b=["b", "c"])), "the same number of rows"),
    (CHOICES, dict(instances=[dict(question="q", options=["a"])]), r"the shape \[any, 2\]. Received: \[1, 1\]"),
    (IDS, dict(instances=[[1], [2, 3]]), "lists of one length"),
    (IDS, dict(instances=[[2**31]]), "whole numbers"),
])
def test_the_error_of_a_wrong_body_says_what_is_wrong(signature, body, message):
    with pytest.raises(ValueError, match=message):
        arrays(signature, **body)


@pytest.mark.parametrize("body", [b"", b"[1]", b"\xff", b"[" * 100_000, b'{"inputs": NaN'])
def test_a_body_that_is_no_json_object_is_refused(body):
    with pytest.raises(ValueError, match="^the body "):
        read_request(body)


def test_answers_have_the_form_of_the_request():
    rows = [dict(word=np.array(b"caf\xc3\xa9", object), score=np.float32(0.5)),
            dict(word=np.array(b"", object), score=np.float32(2))]
    by_row, by_column = read_request(b'{"instances": ["a", "b"]}'), read_request(b'{"inputs": ["a", "b"]}')
    assert response(by_row, rows) == dict(predictions=[dict(word="café", score=0.5), dict(word="", score=2.0)])
    assert response(by_column, rows) == dict(outputs=dict(word=["café", ""], score=[0.5, 2.0]))
    assert response(by_row, [dict(score=row["score"]) for row in rows]) == dict(predictions=[0.5, 2.0])
    assert response(by_column, [dict(score=row["score"]) for row in rows]) == dict(outputs=[0.5, 2.0])


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
    with server_running.running(MODELS) as server:
        yield server


def ask(server, path, body=None):
    return server_running.ask(server, f"v1/models/{path}", body)


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
    ("lengths:classify", dict(examples=[dict(text_a="a")]), 400, "no classifier of texts: use :predict or :regress"),
    ("films:regress", dict(examples=[dict(text_a="a")]), 400, "no regression: use :predict or :classify"),
    ("films:classify", dict(signature_name="other", examples=[dict(text_a="a")]), 400, "other is no classifier of"),
    ("films:classify", dict(instances=[dict(text_a="a")]), 400, "the body may have signature_name, context, examples"),
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
