"""The endpoints of OpenAI (/v1/embeddings) and text-embeddings-inference (all others), for use with their clients.

/ is /embed, /predict or /similarity, whichever the model can answer, for huggingface_hub's client.

An endpoint turns a request into a Call: inputs of one of the model's signatures, and a function from its outputs to the
answer. The application runs it like a request of TensorFlow Serving's. The fields of a request are JSON schemas, by
which it is checked, and which /openapi.json shows.
"""

from __future__ import annotations

import base64
import reprlib
from http import HTTPStatus
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from albert_tf.modeling.vectors import LEAST_LENGTH
from albert_tf.server.batching import Rows
from albert_tf.server.requests import PredictRequest, input_arrays, read_object, signature_name
from albert_tf.server.signatures import TEXT, Columns, EndpointModel, Signature
from albert_tf.text.packing import SpecialTokens

MAX_ROWS, _MAX_OPENAI_ROWS = 1024, 2048
EMBEDDING, RERANKER, CLASSIFIER = "embedding", "reranker", "classifier"  # text-embeddings-inference's kinds of models
_OPENAI, ROOT = "/v1/embeddings", "/"
_MAX_PIECES_OF = 100_000  # characters of the texts of a request to /tokenize; as many pieces can take seconds
# text-embeddings-inference's status and type of an error, by the status in TensorFlow Serving's interface.
_TEI_ERRORS: Mapping[int, tuple[int, str]] = {
    HTTPStatus.BAD_REQUEST: (422, "Validation"), HTTPStatus.INTERNAL_SERVER_ERROR: (424, "Backend"),
    HTTPStatus.SERVICE_UNAVAILABLE: (429, "Overloaded")}
_Json = Mapping[str, Any]
_JSON = "application/json"


class Call(NamedTuple):
    """A parsed request to a model."""

    model: str
    signature: Signature
    columns: Columns
    answer: Callable[[Rows], Any]


class Endpoint(NamedTuple):
    """An endpoint of another server."""

    summary: str
    fields: Mapping[str, _Json]  # JSON schemas by name. A field without a default is required
    call: Callable[[_Json, EndpointModel], Call]  # from the values of the fields and a model
    kinds: tuple[str, ...]  # the kinds of models that can answer; empty for all
    response: _Json  # JSON schema of an answer


class UnknownModelError(LookupError):
    """No model has the name that a request gives."""


def read_call(path: str, body: bytes, models: Mapping[str, EndpointModel], name: str | None) -> Call:
    """The call of a request to the endpoint at a path.

    `name` is the value of ?model=, or of OpenAI's field "model". Without a name, the first model that can answer does.
    Raises UnknownModelError, or ValueError for a wrong request.
    """
    content = read_object(body)
    if path != _OPENAI and isinstance(content.get("parameters"), dict):  # of huggingface_hub's client
        content.update(content.pop("parameters"))
    if path == ROOT:
        path = "/similarity" if isinstance(content.get("inputs"), dict) else (
            "/embed" if chosen(models, name).kind == EMBEDDING else "/predict")
    endpoint = ENDPOINTS[path]
    signature_name(content, endpoint.fields)
    values = {key: _value(key, content.get(key), schema) for key, schema in endpoint.fields.items()}
    return endpoint.call(values, chosen(models, values.get("model") or name, endpoint.kinds))


def chosen(models: Mapping[str, EndpointModel], name: str | None, kinds: Sequence[str] = ()) -> EndpointModel:
    """The model with a name, or the first model, of one of the kinds. Raises UnknownModelError and ValueError."""
    if name is not None and name not in models:
        raise UnknownModelError(f"there is no model {name!r}; the models are {', '.join(models)}")
    candidates = [models[name]] if name is not None else list(models.values())
    fitting = [model for model in candidates if not kinds or model.kind in kinds]
    if not fitting:
        raise ValueError(f"this endpoint needs a model of the kind {' or '.join(kinds)}. Received: "
                         f"{', '.join(f'{model.name} ({model.kind})' for model in candidates)}")
    return fitting[0]


def error_of(path: str, status: int, message: str) -> tuple[int, dict[str, Any]]:
    """The status and the content of an error, in the form of the protocol that a path belongs to."""
    message = " ".join(message.split())[:500]
    if path == _OPENAI:
        code = "model_not_found" if status == HTTPStatus.NOT_FOUND else None
        return status, dict(error=dict(message=message, param=None, code=code, type=(
            "invalid_request_error" if status < 500 else "server_error")))
    if path in ENDPOINTS or path == "/info":
        status, kind = _TEI_ERRORS.get(status, (status, "Validation"))
        return status, dict(error=message, error_type=kind)
    return status, dict(error=message)


def info(model: EndpointModel, batch_size: int, max_requests: int, version: str) -> dict[str, Any]:
    """text-embeddings-inference's answer to GET /info. Longer texts are always truncated."""
    names = {str(number): name for number, name in enumerate(model.label_names)}
    details = dict(pooling=model.pooling) if model.kind == EMBEDDING else dict(
        id2label=names, label2id={name: int(number) for number, name in names.items()})
    return dict(
        model_id=model.name, model_sha=None, model_dtype="float32", model_type={model.kind: details},
        max_concurrent_requests=max_requests, max_input_length=model.row_length,
        max_batch_tokens=batch_size * model.row_length, max_batch_requests=batch_size, max_client_batch_size=MAX_ROWS,
        auto_truncate=True, tokenization_workers=1, version=version, sha=None, docker_label=None)


def _value(name: str, value: Any, schema: _Json) -> Any:
    """The value of a field, or its default."""
    if value is None and "default" in schema:
        return schema["default"]
    if not _fits(value, schema):
        raise ValueError(f'"{name}" must be {schema["description"]}. Received: {reprlib.repr(value)}')
    return value


def _fits(value: Any, schema: _Json) -> bool:
    """Whether a value fits a JSON schema, with the keywords of schemas that this module uses."""
    if "oneOf" in schema:
        return any(_fits(value, each) for each in schema["oneOf"])
    if schema["type"] == "array":
        return isinstance(value, list) and 0 < len(value) <= schema.get("maxItems", len(value)) and all(
            _fits(item, schema["items"]) for item in value)
    if schema["type"] == "object":
        return isinstance(value, dict) and value.keys() == schema["properties"].keys() and all(
            _fits(value[key], each) for key, each in schema["properties"].items())
    if schema["type"] == "integer":
        return type(value) is int and value >= schema["minimum"]
    return isinstance(value, dict(string=str, boolean=bool)[schema["type"]]) and value in schema.get("enum", [value])


# --- calls -----------------------------------------------------------------------------------------------------------


def _columns(signature: Signature, texts: Mapping[str, Sequence[str]], max_rows: int = MAX_ROWS) -> Columns:
    return input_arrays(PredictRequest("", None, texts), signature, max_rows)


def _embed(values: _Json, model: EndpointModel, max_rows: int = MAX_ROWS) -> Call:
    texts, size = model.prompted(_listed(values["inputs"]), values["prompt_name"]), values["dimensions"]
    largest = model.signature.outputs["sentence_embedding"].shape[-1] or 0
    if size and size > largest:
        raise ValueError(f'the model\'s vectors have {largest} dimensions. Received: "dimensions": {size}')

    def answer(rows: Rows) -> list[list[float]]:
        vectors = np.stack([row["sentence_embedding"] for row in rows])[:, :size]  # [texts, size]
        if values["normalize"]:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_LENGTH)
        return vectors.tolist()

    return Call(model.name, model.signature, _columns(model.signature, dict(text=texts), max_rows), answer)


def _openai_embeddings(values: _Json, model: EndpointModel) -> Call:
    call = _embed(dict(values, inputs=values["input"], normalize=True), model, _MAX_OPENAI_ROWS)

    def answer(rows: Rows) -> dict[str, Any]:
        vectors: list = call.answer(rows)
        tokens = sum(int(row["num_tokens"]) for row in rows)
        if values["encoding_format"] == "base64":
            vectors = [base64.b64encode(np.array(vector, "<f4").tobytes()).decode() for vector in vectors]
        data = [dict(object="embedding", index=index, embedding=vector) for index, vector in enumerate(vectors)]
        return dict(object="list", data=data, model=model.name, usage=dict(prompt_tokens=tokens, total_tokens=tokens))

    return call._replace(answer=answer)


def _rerank(values: _Json, model: EndpointModel) -> Call:
    texts = values["texts"]
    columns = _columns(Signature(dict(text_b=TEXT), dict), dict(text_b=texts))
    query = _columns(Signature(dict(text_a=TEXT), dict), dict(text_a=[values["query"]]))
    first = {text: texts.index(text) for text in dict.fromkeys(texts)}  # equal texts have one score, to the last digit
    columns = dict(text_a=np.repeat(query["text_a"], len(first)), text_b=columns["text_b"][list(first.values())])

    def answer(rows: Rows) -> list[dict[str, Any]]:
        score_of = dict(zip(first, (float(row["logits" if values["raw_scores"] else "scores"][0]) for row in rows)))
        scores = [score_of[text] for text in texts]
        ranks = np.argsort(-np.array(scores), kind="stable").tolist()
        return [dict(dict(index=rank, score=scores[rank]), **({"text": texts[rank]} if values["return_text"] else {}))
                for rank in ranks]

    return Call(model.name, model.signature, columns, answer)


def _similarity(values: _Json, model: EndpointModel) -> Call:
    texts = [values["inputs"]["source_sentence"], *values["inputs"]["sentences"]]
    call = _embed(dict(values, inputs=texts, dimensions=None, normalize=True), model)

    def answer(rows: Rows) -> list[float]:
        vectors = np.array(call.answer(rows))
        return (vectors[1:] @ vectors[0]).tolist()

    return call._replace(answer=answer)


def _predict(values: _Json, model: EndpointModel) -> Call:
    inputs = values["inputs"]
    is_batch = isinstance(inputs, list) and isinstance(inputs[0], list)
    rows = inputs if is_batch else [_listed(inputs)]
    texts = dict(text_a=[row[0] for row in rows])
    if any(len(row) == 2 for row in rows):
        texts["text_b"] = [row[1] if len(row) == 2 else "" for row in rows]

    def answer(rows: Rows) -> list:
        scores = [row["logits" if values["raw_scores"] else "scores"] for row in rows]
        labels = [[dict(score=float(row[i]), label=model.label_names[i]) for i in np.argsort(-row, kind="stable")]
                  for row in scores]
        return labels if is_batch else labels[0]

    return Call(model.name, model.signature, _columns(model.signature, texts), answer)


def _tokenize(values: _Json, model: EndpointModel) -> Call:
    texts, tokenizer = model.prompted(_listed(values["inputs"]), values["prompt_name"]), model.tokenizer
    columns = _columns(model.pieces, dict(text=texts))
    if (size := sum(map(len, texts))) > _MAX_PIECES_OF:
        raise ValueError(f"the texts of a request may have {_MAX_PIECES_OF:,} characters in all. Received: {size:,}")
    special = tokenizer.special_tokens if values["add_special_tokens"] else SpecialTokens()
    first, last = ([dict(id=piece_id, text=piece, special=True, start=None, stop=None)
                    for piece_id, piece in zip(ids, tokenizer.convert_ids_to_tokens(ids))]
                   for ids in (special.first, special.last))
    return Call(model.name, model.pieces, columns, lambda rows: [
        [*first, *(dict(id=piece_id, text=text[start:stop], special=False, start=start, stop=stop)
                   for piece_id, (start, stop) in zip(row["ids"].tolist(), row["offsets"].tolist())), *last]
        for text, row in zip(texts, rows)])


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


# --- fields and endpoints --------------------------------------------------------------------------------------------


def _list(items: _Json, **limits: int) -> _Json:
    return dict(type="array", items=items, **limits)


def _object(**properties: _Json) -> _Json:
    return dict(type="object", properties=properties)


_STRING, _NUMBER, _INTEGER = dict(type="string"), dict(type="number"), dict(type="integer")
_TEXTS = dict(oneOf=[_STRING, _list(_STRING)], description="a text or a list of texts; token ids are not accepted")
_NAME = dict(_STRING, description="a string", default=None)
_DIMENSIONS = dict(_INTEGER, minimum=1, description="a number from 1; null for all dimensions", default=None)
_NO = dict(type="boolean", description="true or false", default=False)
_YES = dict(_NO, default=True)
# Longer texts are truncated at their end in any case.
_TRUNCATION: Mapping[str, _Json] = dict(truncate=_YES, truncation_direction=dict(
    _STRING, enum=["Right", "right"], description="Right", default="Right"))
_SEQUENCES = dict(
    oneOf=[_STRING, _list(_STRING, maxItems=2), _list(_list(_STRING, maxItems=2))],
    description="a text, two texts, or a list of rows, each a list of one or two texts")
_LABELS = _list(_object(score=_NUMBER, label=_STRING))
ENDPOINTS: Mapping[str, Endpoint] = {
    _OPENAI: Endpoint(
        "Vectors of texts, of length 1 (OpenAI)",
        dict(input=_TEXTS, model=_NAME, dimensions=_DIMENSIONS, user=_NAME, prompt_name=_NAME, encoding_format=dict(
            _STRING, enum=["float", "base64"], description="float or base64", default="float")),
        _openai_embeddings, (EMBEDDING,),
        _object(object=_STRING, model=_STRING, usage=_object(prompt_tokens=_INTEGER, total_tokens=_INTEGER),
                data=_list(_object(object=_STRING, index=_INTEGER, embedding=dict(oneOf=[_list(_NUMBER), _STRING]))))),
    "/embed": Endpoint(
        "Vectors of texts",
        dict(inputs=_TEXTS, normalize=_YES, dimensions=_DIMENSIONS, prompt_name=_NAME, **_TRUNCATION),
        _embed, (EMBEDDING,), _list(_list(_NUMBER))),
    "/rerank": Endpoint(
        "Texts in the order of their relevance for a query",
        dict(query=dict(_STRING, description="a text"), texts=dict(_list(_STRING), description="a list of texts"),
             raw_scores=_NO, return_text=_NO, **_TRUNCATION),
        _rerank, (RERANKER,), _list(_object(index=_INTEGER, score=_NUMBER, text=_STRING))),
    "/predict": Endpoint(
        "Labels of a text, of two texts, or of each row of a list",
        dict(inputs=_SEQUENCES, raw_scores=_NO, **_TRUNCATION), _predict, (CLASSIFIER, RERANKER),
        dict(oneOf=[_LABELS, _list(_LABELS)])),
    "/similarity": Endpoint(
        "Cosines of a text and of each of a list",
        dict(inputs=dict(_object(source_sentence=_STRING, sentences=_list(_STRING)),
                         description="an object with source_sentence, a text, and sentences, a list of texts"),
             prompt_name=_NAME, **_TRUNCATION), _similarity, (EMBEDDING,), _list(_NUMBER)),
    "/tokenize": Endpoint(
        "Pieces of texts, and their characters",
        dict(inputs=_TEXTS, add_special_tokens=_YES, prompt_name=_NAME), _tokenize, (),
        _list(_list(_object(id=_INTEGER, text=_STRING, special=dict(type="boolean"), start=_INTEGER, stop=_INTEGER)))),
}
_GETS = {"/v1/models": "Models, their signatures and labels", "/info": "A model, as text-embeddings-inference has it",
         "/health": "Whether the server answers", "/metrics": "Counts and seconds, for Prometheus"}


def openapi(version: str) -> dict[str, Any]:
    """The description of the endpoints in OpenAPI 3.0."""
    def operation(summary: str, response: _Json, **details: Any) -> dict[str, Any]:
        return dict(details, summary=summary, responses={
            "200": dict(description="The answer", content={_JSON: dict(schema=response)}),
            "default": dict(description="An error, in the form of the endpoint's protocol")})

    def parameter(name: str, location: str) -> list[_Json]:
        return [dict({"in": location}, name=name, required=location == "path", schema=_STRING)]

    def body(fields: Mapping[str, _Json], required: list[str]) -> _Json:
        return dict(required=True, content={_JSON: dict(schema=dict(_object(**fields), required=required))})

    paths = {path: dict(get=operation(summary, {})) for path, summary in _GETS.items()}
    for path, endpoint in ENDPOINTS.items():
        required = [name for name, schema in endpoint.fields.items() if "default" not in schema]
        paths[path] = dict(post=operation(endpoint.summary, endpoint.response, parameters=parameter("model", "query"),
                                          requestBody=body(endpoint.fields, required)))
    paths["/v1/models/{name}:predict"] = dict(post=operation(
        "Predictions, as TensorFlow Serving has them", {}, parameters=parameter("name", "path"),
        requestBody=body(dict(instances=_list({}), inputs={}, signature_name=_STRING), ["instances"])))
    return dict(openapi="3.0.3", info=dict(title="albert_tf serve", version=version), paths=paths)
