"""The forms of TensorFlow Serving's requests: predict, classify and regress.

    predict    see requests.py
    classify   {"examples": [{"text_a": "..."}, ...]}  ->  {"results": [[["good", 0.9], ["bad", 0.1]], ...]}
    regress    {"examples": [{"text_a": "..."}, ...]}  ->  {"results": [3.2, ...]}

A "context" beside "examples" has values that all examples share.
"""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple

from albert_tf.server.batching import Rows
from albert_tf.server.requests import PredictRequest, read_object, read_request, response, rows_of
from albert_tf.server.signatures import Signature


class Form(NamedTuple):
    """A form of requests.

    Args:
      read: function from a body to the request; raises ValueError.
      response: function of the request, the outputs of each row, and the signature that returns the answer's JSON;
        raises ValueError if the signature does not suit the form.
    """

    read: Callable[[bytes], PredictRequest]
    response: Callable[[PredictRequest, Rows, Signature], dict]


def _read_examples(body: bytes) -> PredictRequest:
    request, name = read_object(body, ("signature_name", "context", "examples"))
    context = request.get("context", {})
    if not isinstance(context, dict):
        raise ValueError('"context" must be an object')
    rows = [{**context, **row} if isinstance(row, dict) else row for row in rows_of(request, "examples")]
    return PredictRequest(name, rows, None)


def _classified(request: PredictRequest, rows: Rows, signature: Signature) -> dict:
    _check(request, rows, signature, is_regression=False)
    labels = signature.labels or tuple(map(str, range(len(rows[0]["probabilities"]))))
    return dict(results=[[list(pair) for pair in zip(labels, row["probabilities"].tolist())] for row in rows])


def _regressed(request: PredictRequest, rows: Rows, signature: Signature) -> dict:
    _check(request, rows, signature, is_regression=True)
    return dict(results=[float(row["predictions"]) for row in rows])


def _check(request: PredictRequest, rows: Rows, signature: Signature, is_regression: bool) -> None:
    if signature.view != "classify" or (rows[0]["probabilities"].size == 1) != is_regression:
        kind, other = ("regression", ":classify") if is_regression else ("classifier of texts", ":regress")
        raise ValueError(f"{request.signature_name} is no {kind}: use :predict" +
                         (f" or {other}" if signature.view == "classify" else ""))


FORMS: Mapping[str, Form] = dict(
    predict=Form(read_request, lambda request, rows, signature: response(request, rows)),
    classify=Form(_read_examples, _classified), regress=Form(_read_examples, _regressed))
