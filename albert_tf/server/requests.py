"""Parses and writes the bodies of TensorFlow Serving's REST interface, which have rows or columns of values.

    {"signature_name": "serving_default", "instances": [{"text": "..."}, {"text": "..."}]}  ->  {"predictions": [...]}
    {"inputs": {"text": ["...", "..."]}}                                                    ->  {"outputs": ...}

If a signature has a single required input, its values may be sent without its name; a single output is returned
without its name. A text can be {"b64": "..."}, bytes in base 64.
"""

from __future__ import annotations

import base64
import binascii
import json
import reprlib
from typing import Any, Callable, Collection, Mapping, NamedTuple

import numpy as np

from albert_tf.server.batching import Rows
from albert_tf.server.signatures import DEFAULT_SIGNATURE, Columns, Signature, Spec

_LONGEST_TEXT = 100_000  # characters; of a text in base 64, bytes


class PredictRequest(NamedTuple):
    """A parsed request: the list of "instances" as rows, or the value of "inputs" as columns."""

    signature_name: str
    rows: list | None
    columns: Any


def read_request(body: bytes) -> PredictRequest:
    """Reads the JSON of a request."""
    request = read_object(body)
    name = signature_name(request, ("signature_name", "instances", "inputs"))
    if ("instances" in request) == ("inputs" in request):
        raise ValueError('the body must have either "instances" or "inputs"')
    rows = rows_of(request, "instances") if "instances" in request else None
    return PredictRequest(name, rows, request.get("inputs"))


def read_object(body: bytes) -> dict[str, Any]:
    """Reads a JSON object."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise ValueError(f"the body must be a JSON object. Received: {reprlib.repr(request)}")
    return request


def signature_name(request: Mapping[str, Any], keys: Collection[str]) -> str:
    """The name of the signature in a request that may have these keys. Raises ValueError for another key."""
    unknown = [key for key in request if key not in keys]
    if unknown:
        raise ValueError(f"the body may have {', '.join(keys)}. Received: {reprlib.repr(unknown[0])}")
    name = request.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(name, str):
        raise ValueError(f'"signature_name" must be a string. Received: {reprlib.repr(name)}')
    return name


def rows_of(request: dict[str, Any], key: str) -> list:
    """The list of rows at a key."""
    rows = request.get(key)
    if not (isinstance(rows, list) and rows):
        raise ValueError(f'"{key}" must be a list with at least one value. Received: {reprlib.repr(rows)}')
    return rows


def input_arrays(request: PredictRequest, signature: Signature, max_rows: int) -> Columns:
    """Converts the values of a request to the input arrays of the signature that it names."""
    values = _from_rows(request.rows, signature) if request.rows is not None else _from_columns(request, signature)
    sizes = {len(column) for column in values.values()}
    if len(sizes) != 1:
        raise ValueError(f"all inputs must have the same number of rows. Received: {sorted(sizes)}")
    size, = sizes
    if not 0 < size <= max_rows:
        raise ValueError(f"a request may have 1 to {max_rows:,} rows. Received: {size:,}")
    for name, spec in signature.inputs.items():
        values.setdefault(name, [spec.default] * size)
    return {name: _array(name, values[name], spec) for name, spec in signature.inputs.items()}


def response(request: PredictRequest, rows: list[dict[str, np.ndarray]]) -> dict:
    """The JSON object of an answer, from a dict of outputs for each row."""
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    names = list(plain[0])
    if request.rows is not None:
        return dict(predictions=[row[names[0]] for row in plain] if len(names) == 1 else plain)
    columns = {name: [row[name] for row in plain] for name in names}
    return dict(outputs=columns[names[0]] if len(names) == 1 else columns)


def _from_rows(rows: list, signature: Signature) -> dict[str, list]:
    name = _only_required(signature)
    if name is not None:
        rows = [row if isinstance(row, dict) and "b64" not in row else {name: row} for row in rows]
    for row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"each instance must be an object with {', '.join(signature.inputs)}. "
                             f"Received: {reprlib.repr(row)}")
        _check_names(row, signature)
    names = [name for name in signature.inputs if any(name in row for row in rows)]
    return {name: [row.get(name, signature.inputs[name].default) for row in rows] for name in names}


def _from_columns(request: PredictRequest, signature: Signature) -> dict[str, list]:
    columns = request.columns
    name = _only_required(signature)
    if name is not None and not (isinstance(columns, dict) and "b64" not in columns):
        columns = {name: columns}
    if not isinstance(columns, dict):
        raise ValueError(f'"inputs" must be an object with {", ".join(signature.inputs)}. '
                         f"Received: {reprlib.repr(columns)}")
    _check_names(columns, signature)
    for name, column in columns.items():
        if not isinstance(column, list):
            raise ValueError(f"{name} must be a list with a value for each row. Received: {reprlib.repr(column)}")
    return dict(columns)


def _only_required(signature: Signature) -> str | None:
    """The name of the input that must be sent; None if there are several."""
    names = [name for name, spec in signature.inputs.items() if spec.default is None]
    return names[0] if len(names) == 1 else None


def _check_names(values: Mapping, signature: Signature) -> None:
    missing = [name for name, spec in signature.inputs.items() if spec.default is None and name not in values]
    unknown = [name for name in values if name not in signature.inputs]
    if missing or unknown:
        problem = f"{missing[0]} is missing" if missing else f"there is no input {reprlib.repr(unknown[0])}"
        raise ValueError(f"{problem}: the signature takes {', '.join(signature.inputs)}")


def _array(name: str, column: list, spec: Spec) -> np.ndarray:
    """An array [batch, ...] of values, which must have the spec's type and shape."""
    shape = _shape(name, column, len(spec.shape))
    if any(size not in (None, actual) for size, actual in zip(spec.shape, shape)):
        wanted = ", ".join("any" if size is None else str(size) for size in spec.shape)
        raise ValueError(f"{name} must have the shape [{wanted}]. Received: {list(shape)}")
    flat = column
    for _ in shape[1:]:
        flat = [value for values in flat for value in values]
    if spec.dtype == "string":
        array = np.empty(len(flat), object)
        array[:] = [_text(name, value) for value in flat]
        return array.reshape(shape)
    for value in flat:
        if isinstance(value, bool) or not isinstance(value, int) or not -2**31 <= value < 2**31:
            raise ValueError(f"{name} must hold whole numbers of 32 bits. Received: {reprlib.repr(value)}")
    return np.array(flat, spec.dtype).reshape(shape)


def _shape(name: str, values: list, rank: int) -> tuple[int, ...]:
    """The shape of nested lists. At each depth, all lists must have the same length."""
    shape, level = [len(values)], values
    for _ in range(rank - 1):
        sizes = {len(value) if isinstance(value, list) else -1 for value in level}
        if len(sizes) != 1 or -1 in sizes:
            raise ValueError(f"{name} must be lists of one length, {rank} deep. Received: {reprlib.repr(values)}")
        shape.append(sizes.pop())
        level = [value for each in level for value in each]
    return tuple(shape)


def _text(name: str, value: Any) -> bytes:
    text = _bytes(name, value)
    length = len(value if isinstance(value, str) else text)
    if length > _LONGEST_TEXT:
        raise ValueError(f"{name}: a text may have at most {_LONGEST_TEXT:,} characters. Received: {length:,}")
    return text


def _bytes(name: str, value: Any) -> bytes:
    if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"{name}: the value of b64 is not base 64: {error}") from error
    if not isinstance(value, str):
        raise ValueError(f"{name} must hold strings. Received: {reprlib.repr(value)}")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} has half of a surrogate pair at character {error.start}") from error


def _plain(value: np.ndarray) -> Any:
    """A value that can be written as JSON. Bytes become text."""
    listed = np.asarray(value).tolist()
    return _decoded(listed) if np.asarray(value).dtype.kind in "OS" else listed


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Form(NamedTuple):
    """A form of requests. Both functions raise ValueError, `response` for a signature that does not suit the form."""

    read: Callable[[bytes], PredictRequest]
    response: Callable[[PredictRequest, Rows, Signature], dict]


def _read_examples(body: bytes) -> PredictRequest:
    request = read_object(body)
    name = signature_name(request, ("signature_name", "context", "examples"))
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
