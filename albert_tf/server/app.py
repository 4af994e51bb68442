"""The page, TensorFlow Serving's REST interface for the models, and other servers' endpoints, by HTTP.

`application` has the routes. requests.py has the forms of TensorFlow Serving's requests (predict, classify, regress),
and protocols.py the endpoints of OpenAI and text-embeddings-inference.

No path of a URL is looked up on disk: the page's files are read once, when the application is made.
Guard refuses requests before a model sees them, by their headers.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.resources
import ipaddress
import queue
import socket
import time
from http import HTTPStatus
from typing import Any, Awaitable, Callable, Collection, Mapping, Sequence
from urllib.parse import urlsplit

import uvicorn
from absl import logging
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

import albert_tf
from albert_tf.server import protocols
from albert_tf.server.batching import Batcher, Rows
from albert_tf.server.protocols import ENDPOINTS, MAX_ROWS, ROOT, Call, UnknownModelError, error_of
from albert_tf.server.requests import FORMS, Form, input_arrays
from albert_tf.server.signatures import ServedModel, described, metadata

_PAGE = {"/": ("index.html", "text/html"), "/style.css": ("style.css", "text/css"),
         "/page.js": ("page.js", "text/javascript"), "/backend.js": ("server.js", "text/javascript")}
# Messages of errors, instead of Starlette's names of the statuses.
_MESSAGES = {HTTPStatus.NOT_FOUND: "there is nothing at this path",
             HTTPStatus.METHOD_NOT_ALLOWED: "this path does not have this method: predictions need POST"}
# The page loads nothing from other sites, runs no inline scripts, and cannot be shown inside another page.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
                               "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
}
_MOST_SKIPPED_BYTES = 64 << 20
_BATCH_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def application(models: Sequence[ServedModel], batchers: Sequence[Batcher], **limits: Any) -> Starlette:
    """The application. The page shows the models in this order; `limits` are arguments of Guard."""
    served = _Models(models, batchers)
    version = "/v1/models/{name}/versions/1"
    routes = [Route("/v1/models", served.list)]
    for path in ("/v1/models/{name}", version):
        routes += [Route(f"{path}:{{form}}", served.predict, methods=["POST"]), Route(path, served.state),
                   Route(f"{path}/metadata", served.metadata)]
    routes += [Route(path, served.endpoint, methods=["POST"]) for path in (ROOT, *ENDPOINTS)]
    metrics = Metrics(models, batchers)
    routes += [Route("/health", _page(lambda: b"", "text/plain")), Route("/info", served.info),
               Route("/metrics", _page(functools.partial(generate_latest, metrics.registry), CONTENT_TYPE_LATEST)),
               Route("/openapi.json", lambda request: JSONResponse(protocols.openapi(albert_tf.__version__)))]
    files = importlib.resources.files("albert_tf.server") / "page"
    for path, (name, type_) in _PAGE.items():
        routes.append(Route(path, _page((files / name).read_bytes, type_)))
    app = Starlette(routes=routes, middleware=[Middleware(Guard, metrics=metrics, **limits)],
                    exception_handlers={HTTPException: _error})
    app.router.redirect_slashes = False
    return app


class _Models:
    """The endpoints of the models."""

    def __init__(self, models: Sequence[ServedModel], batchers: Sequence[Batcher]):
        self._models: Mapping[str, ServedModel] = {model.name: model for model in models}
        self._endpoint_models = {model.name: model.endpoint_model for model in models if model.endpoint_model}
        self._batchers = {model.name: batcher for model, batcher in zip(models, batchers)}

    async def list(self, request: Request) -> Response:
        models = [described(model) for model in self._models.values()]
        return JSONResponse(dict(models=models, object="list", data=[_of_openai(name) for name in self._models]))

    async def state(self, request: Request) -> Response:
        state = dict(version="1", state="AVAILABLE", status=dict(error_code="OK", error_message=""))
        model = self._model(request)
        return JSONResponse(dict(model_version_status=[state], **described(model), **_of_openai(model.name)))

    async def metadata(self, request: Request) -> Response:
        return JSONResponse(metadata(self._model(request)))

    async def predict(self, request: Request) -> Response:
        model, name = self._model(request), request.path_params["form"]
        if name not in FORMS:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no :{name}; a model has :{', :'.join(FORMS)}")
        return await self._answer(request, lambda body: _prediction(FORMS[name], body, model))

    async def endpoint(self, request: Request) -> Response:
        name = request.query_params.get("model")
        return await self._answer(request, lambda body: protocols.read_call(
            request.url.path, body, self._endpoint_models, name))

    async def info(self, request: Request) -> Response:
        try:
            model = protocols.chosen(self._endpoint_models, request.query_params.get("model"))
        except (UnknownModelError, ValueError) as error:
            raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from error
        batcher = self._batchers[model.name]
        return JSONResponse(protocols.info(model, batcher.batch_size, batcher.max_waiting, albert_tf.__version__))

    async def _answer(self, request: Request, read: Callable[[bytes], Call]) -> Response:
        """The answer to a request. `read` makes the call from the body."""
        try:
            body = await request.body()
            # In a thread, as is the writing of the answer, so that large requests do not hold up others.
            call = await run_in_threadpool(read, body)
            rows = await self._rows(request, call)
            return await run_in_threadpool(_json_of, call, rows)
        except queue.Full:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are waiting: try later") from None
        except UnknownModelError as error:
            raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from error
        except ValueError as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from error
        except ClientDisconnect:
            return Response()  # nobody gets it
        except Exception as error:  # the client gets an answer for every error of a model
            logging.error("%r failed: %r", request.url.path[:200], " ".join(str(error).split())[:500])
            raise HTTPException(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    async def _rows(self, request: Request, call: Call) -> Rows:
        """The outputs of each row. If the client goes away first, its request is taken back."""
        rows = asyncio.wrap_future(self._batchers[call.model].submit(call.signature, call.columns))
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


def _prediction(form: Form, body: bytes, model: ServedModel) -> Call:
    request = form.read(body)
    signature = model.signatures.get(request.signature_name)
    if signature is None:
        raise ValueError(f"{model.name} has no signature {request.signature_name!r}; its signatures are "
                         f"{', '.join(model.signatures)}")
    return Call(model.name, signature, input_arrays(request, signature, MAX_ROWS),
                lambda rows: form.response(request, rows, signature))


def _json_of(call: Call, rows: Rows) -> Response:
    """The answer to a call. It is the model's error, not the request's, if JSON cannot hold the answer."""
    content = call.answer(rows)
    try:
        return JSONResponse(content)
    except ValueError as error:
        raise RuntimeError(f"{call.model} has answered NaN or an infinite number") from error


def _of_openai(name: str) -> dict[str, Any]:
    """OpenAI's description of a model."""
    return dict(id=name, object="model", created=0, owned_by="albert_tf")


def _page(content: Callable[[], bytes], type_: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        return Response(content(), media_type=type_)

    return page


async def _error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    message = _MESSAGES.get(status, "") if error.detail == status.phrase else error.detail
    return error_response(request.url.path, status, message)


class Metrics:
    """The counts of a server, by endpoint and by model."""

    def __init__(self, models: Sequence[ServedModel], batchers: Sequence[Batcher]):
        self.registry = registry = CollectorRegistry()
        self._requests = Counter("albert_tf_requests", "Requests.", ["endpoint", "status"], registry=registry)
        self._errors = Counter("albert_tf_errors", "Requests with a status from 400.", ["endpoint"], registry=registry)
        self._seconds = Histogram("albert_tf_request_seconds", "Seconds of a request.", ["endpoint"], registry=registry)
        rows = Histogram("albert_tf_batch_rows", "Rows of a batch.", ["model"], buckets=_BATCH_ROWS, registry=registry)
        tokens = Counter("albert_tf_tokens", "Tokens, without padding.", ["model"], registry=registry)
        queue = Gauge("albert_tf_queue", "Requests with rows that are in no batch yet.", ["model"], registry=registry)

        def add_batch(model: ServedModel, size: int) -> None:
            rows.labels(model.name).observe(size)
            tokens.labels(model.name).inc(model.take_tokens())

        for model, batcher in zip(models, batchers):
            batcher.on_batch = functools.partial(add_batch, model)
            queue.labels(model.name).set_function(lambda batcher=batcher: len(batcher.waiting))

    def add_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts a request."""
        self._requests.labels(endpoint, status).inc()
        self._seconds.labels(endpoint).observe(seconds)
        if status >= 400:
            self._errors.labels(endpoint).inc()


class Guard:
    """ASGI middleware that refuses requests and adds headers to all answers. It logs each request with --verbosity=1.

    Unless answers_any_host is set, requests are answered only if their Host header names a loopback host or one of
    allowed_hosts, except for /health, which tells nothing. So a page of another site gets no data if the site's domain
    name resolves to 127.0.0.1. Pages of allowed_hosts are answered whatever the Host header is, since a proxy may
    replace it.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, max_body_bytes: int, allowed_hosts: Collection[str],
                 answers_any_host: bool):
        self._app, self._metrics, self._max_body_bytes = app, metrics, max_body_bytes
        self._allowed_hosts, self._answers_any_host = allowed_hosts, answers_any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        start = time.monotonic()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
                # The client's address, the request and its status; bodies are never logged.
                logging.debug("%s %s %r %d", scope["client"], scope["method"], scope["path"], message["status"])
                self._metrics.add_request(_endpoint_of(scope), message["status"], time.monotonic() - start)
            await send(message)

        headers = Headers(scope=scope)
        reason = self._reason(scope["method"], scope["path"], headers)
        if reason is None:
            await self._app(scope, receive, send_with_headers)
            return
        await _skip_body(receive, headers)
        await error_response(scope["path"], *reason, connection="close")(scope, receive, send_with_headers)

    def _reason(self, method: str, path: str, headers: Headers) -> tuple[HTTPStatus, str] | None:
        """The status and the message of a request that is refused."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        name = host_name(host)
        # Kubernetes asks for /health by the address of the pod.
        is_answered = self._answers_any_host or name in self._allowed_hosts or is_loopback(name) or path == "/health"
        if not is_answered:
            return HTTPStatus.FORBIDDEN, "this server answers only requests to its loopback address and --allowed_hosts"
        if origin is not None and origin not in (f"http://{host}", f"https://{host}") and (  # https: behind a proxy
                host_name(origin.partition("://")[2]) not in self._allowed_hosts):
            return HTTPStatus.FORBIDDEN, "this server does not answer the pages of other sites"
        length = headers.get("Content-Length")
        if "Transfer-Encoding" in headers or (length is None and method == "POST"):
            return HTTPStatus.LENGTH_REQUIRED, "a request needs a Content-Length"
        if length is not None and int(length) > self._max_body_bytes:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, (
                f"a body may have at most {self._max_body_bytes:,} bytes. Received: {length}")
        return None


def _endpoint_of(scope: Scope) -> str:
    """The name of a request's endpoint in the metrics. There are few names, whatever paths clients ask for."""
    path, (_, colon, form) = scope["path"], scope["path"].rpartition(":")
    if path in {*ENDPOINTS, *_PAGE, "/health", "/info", "/metrics", "/openapi.json", "/v1/models"}:
        return path
    return f":{form}" if colon and form in FORMS else "other"


def error_response(path: str, status: int, message: str, **headers: str) -> JSONResponse:
    """An error in one line, in the form of the protocol that a path belongs to."""
    status, content = error_of(path, status, message)
    return JSONResponse(content, status, headers)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine under an address that other machines cannot reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _skip_body(receive: Receive, headers: Headers) -> None:
    """Reads a body that is not used, since many clients read the answer only after they have sent all of it."""
    if int(headers.get("Content-Length", "0")) <= _MOST_SKIPPED_BYTES and "Transfer-Encoding" not in headers:
        while (await receive()).get("more_body", False):
            pass


def host_name(host: str) -> str:
    """The name or address in a Host header, without its port and final dot; "" if it has none."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:  # for instance "["
        return ""
    try:
        return str(ipaddress.ip_address(name))  # an address of IPv6 can be written in several ways
    except ValueError:
        return name


def allowed_host(text: str) -> str:
    """The host of --allowed_hosts as host_name gives it. Raises ValueError if it is not a host."""
    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        name = host_name(text)
    if not name or name != text.removesuffix("."):
        raise ValueError("--allowed_hosts must be a name in lower case or an address, without https:// and port: "
                         f"{text!r}")
    return name


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Until a ModelServer serves on it, clients wait for their answers. Raises OSError."""
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=64)
    # Else the second of two writes waits for the acknowledgement of the first, 40 ms. Accepted sockets inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return listener


class _Connection(H11Protocol):
    """A connection. It is closed if the server waits for its client for longer than timeout_keep_alive.

    The server waits for a whole request, the first one too, or for the client to read an answer, for which it has as
    long again for each MB. uvicorn has a deadline only between two requests, which a single byte ends. For a new
    connection beyond the limit, the server closes the oldest one that has no request.
    """

    _deadline: asyncio.TimerHandle | None = None
    _is_full = False  # whether the client must read before more of the answer can be sent

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        silent = [each for each in self.connections if each.cycle is None and each is not self]
        if silent and len(self.connections) >= self.limit_concurrency:
            oldest = min(silent, key=lambda each: each._deadline.when())
            self.connections.discard(oldest)  # which abort does later
            oldest.transport.abort()
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_full = True
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_full = False
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        """Starts the clock if the server waits for the client, unless it runs, and stops it otherwise."""
        cycle = self.cycle
        if not (cycle is None or cycle.response_complete or cycle.more_body or self._is_full):
            self._stop()
        elif self._deadline is None:
            seconds = self.timeout_keep_alive * (1 + (self.transport.get_write_buffer_size() >> 20))
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class ModelServer:
    """Serves models and the page.

    Requests on connections beyond max_connections have status 503. For deadlines see _Connection, for allowed_hosts
    Guard. Each model has a batcher, so that long requests of one model do not stop the others.
    """

    def __init__(self, models: Sequence[ServedModel], listener: socket.socket, max_body_bytes: int = 1_000_000,
                 allowed_hosts: Collection[str] = (), batcher: Callable[[], Batcher] = Batcher,
                 max_connections: int = 320, seconds: int = 30):
        self._socket, self.server_address = listener, listener.getsockname()
        self._batchers = [batcher() for _ in models]
        app = application(models, self._batchers, max_body_bytes=max_body_bytes, allowed_hosts=allowed_hosts,
                          answers_any_host=not (is_loopback(self.server_address[0]) or allowed_hosts))
        self._server = uvicorn.Server(uvicorn.Config(
            app, loop="asyncio", http=_Connection, ws="none", lifespan="off", log_config=None, log_level="critical",
            access_log=False, proxy_headers=False, server_header=False, limit_concurrency=max_connections,
            timeout_keep_alive=seconds, timeout_graceful_shutdown=2 * seconds))

    @property
    def url(self) -> str:
        """The URL of the page."""
        host, port = self.server_address[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def serve_forever(self) -> None:
        """Answers requests until `shutdown`, SIGTERM or Ctrl-C, and then those that are under way.

        A second Ctrl-C ends it at once. In the main thread the signal is raised again when all is answered, so its
        handler decides what follows: KeyboardInterrupt after Ctrl-C.
        """
        self._server.run(sockets=[self._socket])

    def shutdown(self) -> None:
        """Ends `serve_forever`, which may run in another thread, when requests under way have been answered."""
        self._server.should_exit = True

    def server_close(self) -> None:
        """Frees the address and ends the batchers."""
        self._socket.close()
        for batcher in self._batchers:
            batcher.close()
