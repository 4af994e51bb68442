"""The page, and TensorFlow Serving's REST interface for the models, as an ASGI application.

    GET  /                               the page, with /style.css and /page.js
    GET  /v1/models                      the models with their signatures
    GET  /v1/models/NAME                 TensorFlow Serving's state of a model, and its signatures
    GET  /v1/models/NAME/metadata        TensorFlow Serving's description of the signatures
    POST /v1/models/NAME:predict         predictions (albert_tf/server/requests.py)
    POST /v1/models/NAME:classify        the labels of texts, each with its probability
    POST /v1/models/NAME:regress         the scores of texts

No path of a URL is looked up on disk: the page's three files are read once, when the application is made.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import queue
from http import HTTPStatus
from typing import Any, Mapping, Sequence

from absl import logging
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from albert_tf.server.batching import Batcher, Rows
from albert_tf.server.guard import Guard, error_response
from albert_tf.server.requests import FORMS, Form, PredictRequest, input_arrays
from albert_tf.server.signatures import Columns, ServedModel, Signature, described, metadata

_PAGE = {"/": ("index.html", "text/html"), "/style.css": ("style.css", "text/css"),
         "/page.js": ("page.js", "text/javascript")}
MAX_ROWS = 1024


def application(models: Sequence[ServedModel], batchers: Sequence[Batcher], **limits: Any) -> Starlette:
    """The application. The page shows the models in this order; `limits` are arguments of Guard."""
    served = _Models(models, batchers)
    version = "/v1/models/{name}/versions/1"
    routes = [Route("/v1/models", served.list)]
    for path in ("/v1/models/{name}", version):
        routes += [Route(f"{path}:{{form}}", served.predict, methods=["POST"]), Route(path, served.state),
                   Route(f"{path}/metadata", served.metadata)]
    files = importlib.resources.files("albert_tf.server") / "page"
    for path, (name, type_) in _PAGE.items():
        routes.append(Route(path, _page((files / name).read_bytes(), type_)))
    app = Starlette(routes=routes, middleware=[Middleware(Guard, **limits)], exception_handlers={HTTPException: _error})
    app.router.redirect_slashes = False
    return app


class _Models:
    """The endpoints of the models."""

    def __init__(self, models: Sequence[ServedModel], batchers: Sequence[Batcher]):
        self._models: Mapping[str, ServedModel] = {model.name: model for model in models}
        self._batchers = {model.name: batcher for model, batcher in zip(models, batchers)}

    async def list(self, request: Request) -> Response:
        return JSONResponse(dict(models=[described(model) for model in self._models.values()]))

    async def state(self, request: Request) -> Response:
        if ":" in request.path_params["name"]:
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, "predictions need a POST request")
        state = dict(version="1", state="AVAILABLE", status=dict(error_code="OK", error_message=""))
        return JSONResponse(dict(model_version_status=[state], **described(self._model(request))))

    async def metadata(self, request: Request) -> Response:
        return JSONResponse(metadata(self._model(request)))

    async def predict(self, request: Request) -> Response:
        model, name = self._model(request), request.path_params["form"]
        if name not in FORMS:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no :{name}; a model has :{', :'.join(FORMS)}")
        form = FORMS[name]
        try:
            body = await request.body()
            # In a thread, as is the writing of the answer, so that large requests do not hold up others.
            parsed, signature, columns = await run_in_threadpool(_parsed, form, body, model)
            rows = await self._rows(request, signature, columns)
            content = await run_in_threadpool(lambda: JSONResponse(form.response(parsed, rows, signature)))
        except queue.Full:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are waiting: try later") from None
        except ValueError as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from error
        except ClientDisconnect:
            return Response()  # nobody gets it
        except Exception as error:  # the client gets an answer for every error of a model
            logging.error("%r failed: %r", request.url.path[:200], " ".join(str(error).split())[:500])
            raise HTTPException(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
        return content

    async def _rows(self, request: Request, signature: Signature, columns: Columns) -> Rows:
        """The outputs of each row. If the client goes away first, its request is taken back."""
        rows = asyncio.wrap_future(self._batchers[request.path_params["name"]].submit(signature, columns))
        gone = asyncio.ensure_future(request.receive())  # the next message after the body: the client has gone
        try:
            await asyncio.wait([rows, gone], return_when=asyncio.FIRST_COMPLETED)
            if not rows.done():
                raise ClientDisconnect
            return rows.result()
        finally:
            rows.cancel()
            gone.cancel()

    def _model(self, request: Request) -> ServedModel:
        name = request.path_params["name"]
        if name not in self._models:
            raise HTTPException(HTTPStatus.NOT_FOUND,
                                f"there is no model {name!r}; the models are {', '.join(self._models)}")
        return self._models[name]


def _parsed(form: Form, body: bytes, model: ServedModel) -> tuple[PredictRequest, Signature, Columns]:
    request = form.read(body)
    signature = model.signatures.get(request.signature_name)
    if signature is None:
        raise ValueError(f"{model.name} has no signature {request.signature_name!r}; its signatures are "
                         f"{', '.join(model.signatures)}")
    return request, signature, input_arrays(request, signature, MAX_ROWS)


def _page(content: bytes, type_: str):
    async def page(request: Request) -> Response:
        return Response(content, media_type=type_)

    return page


# What is wrong, in place of Starlette's names of the statuses.
_MESSAGES = {HTTPStatus.NOT_FOUND: "there is nothing at this path",
             HTTPStatus.METHOD_NOT_ALLOWED: "send POST requests to /v1/models/NAME:predict"}


async def _error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    return error_response(status, _MESSAGES.get(status, "") if error.detail == status.phrase else error.detail)
