"""The HTTP server: the page, and TensorFlow Serving's REST interface for the models.

    GET  /                               the page, with /style.css and /page.js
    GET  /v1/models                      the models with their signatures
    GET  /v1/models/NAME                 TensorFlow Serving's state of a model
    POST /v1/models/NAME:predict         predictions (albert_tf/serving/requests.py)

No path of a URL is looked up on disk: the page's three files are read once, when the server is made.
"""

from __future__ import annotations

import contextlib
import http.server
import importlib.resources
import ipaddress
import json
import queue
import re
import socket
import threading
from http import HTTPStatus
from typing import Mapping, Sequence
from urllib.parse import unquote, urlsplit

from absl import logging

from albert_tf.serving.batching import Batcher
from albert_tf.serving.requests import input_arrays, read_request, response
from albert_tf.serving.signatures import ServedModel, Signature

_PAGE = {"/": ("index.html", "text/html; charset=utf-8"), "/style.css": ("style.css", "text/css; charset=utf-8"),
         "/page.js": ("page.js", "text/javascript; charset=utf-8")}
_MODEL_URL = re.compile(r"/v1/models/([^/:]+)(?:/versions/1)?(:predict)?")
# The page loads nothing from other sites, runs no inline scripts, and cannot be shown inside another page.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
                               "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
}
_SECONDS_OF_SILENCE = 30
_MOST_SKIPPED_BYTES = 64 << 20
MAX_ROWS = 1024


class RequestError(Exception):
    """An error that is sent as the response to a request.

    Args:
      status: HTTP status of the response.
      message: one line that describes the error.
    """

    def __init__(self, status: HTTPStatus, message: str):
        super().__init__(message)
        self.status = status


class ModelServer(http.server.ThreadingHTTPServer):
    """Serves models and the page. `serve_forever` runs it, and `server_close` ends it.

    Args:
      models: the models, with different names. The page shows them in this order.
      host: the address to listen on. On a loopback address, only requests whose Host header names a loopback host are
        answered, so that a page of another site whose domain name resolves to 127.0.0.1 gets no data.
      port: the port to listen on; 0 for any free port.
      max_body_bytes: the largest size of a request. A larger one is rejected.
      max_connections: the largest number of connections at the same time, used or idle. Further ones are rejected.
      batcher: runs the models.

    Raises:
      OSError: the address cannot be used.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, models: Sequence[ServedModel], host: str = "127.0.0.1", port: int = 0,
                 max_body_bytes: int = 1_000_000, max_connections: int = 320, batcher: Batcher | None = None):
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.models: Mapping[str, ServedModel] = {model.name: model for model in models}
        self.is_loopback = _is_loopback(host)
        self.max_body_bytes = max_body_bytes
        self.batcher = batcher or Batcher()
        files = importlib.resources.files("albert_tf.serving") / "page"
        self.page = {path: (type_, (files / name).read_bytes()) for path, (name, type_) in _PAGE.items()}
        self._connections = threading.BoundedSemaphore(max_connections)
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """The URL of the page."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def process_request(self, request, client_address) -> None:
        """Starts a thread for a connection, or rejects it if there are too many."""
        if not self._connections.acquire(blocking=False):
            with contextlib.suppress(OSError):
                _reject(request)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address) -> None:
        """Answers the requests of a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request, client_address) -> None:
        """Logs a request that could not be answered, since the client has gone."""
        logging.debug("a connection ended with an error", exc_info=True)

    def server_close(self) -> None:
        """Ends the server and its batcher."""
        super().server_close()
        self.batcher.close()

    def predict(self, name: str, body: bytes) -> dict:
        """The answer to a prediction request.

        Raises:
          RequestError: there is no such model or signature, the body is wrong, or too many requests are waiting.
        """
        model = self.model(name)
        try:
            request = read_request(body)
            signature = model.signatures.get(request.signature_name)
            if signature is None:
                raise ValueError(f"{name} has no signature {request.signature_name!r}; its signatures are "
                                 f"{', '.join(model.signatures)}")
            columns = input_arrays(request, signature, MAX_ROWS)
            return response(request, self.batcher.submit(signature, columns).result())
        except queue.Full:
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are waiting: try later") from None
        except ValueError as error:
            raise RequestError(HTTPStatus.BAD_REQUEST, str(error)) from error

    def model(self, name: str) -> ServedModel:
        """The model with a name.

        Raises:
          RequestError: there is no such model.
        """
        if name not in self.models:
            raise RequestError(HTTPStatus.NOT_FOUND,
                               f"there is no model {name!r}; the models are {', '.join(self.models)}")
        return self.models[name]


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: ModelServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "albert_tf", ""
    timeout = _SECONDS_OF_SILENCE

    def do_GET(self) -> None:
        """The page, the list of models, and the state of one."""
        self._answer(self._get)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Predictions."""
        self._answer(self._post)

    def _get(self) -> tuple[str, bytes]:
        path = urlsplit(self.path).path
        if path in self.server.page:
            return self.server.page[path]
        if path == "/v1/models":
            return _json(dict(models=[_described(model) for model in self.server.models.values()]))
        name, is_predict = self._model_url(path)
        if is_predict:
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, "predictions need a POST request")
        self.server.model(name)
        state = dict(version="1", state="AVAILABLE", status=dict(error_code="OK", error_message=""))
        return _json(dict(model_version_status=[state]))

    def _post(self) -> tuple[str, bytes]:
        body = self._body()
        name, is_predict = self._model_url(urlsplit(self.path).path)
        if not is_predict:
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, "send POST requests to /v1/models/NAME:predict")
        return _json(self.server.predict(name, body))

    def _model_url(self, path: str) -> tuple[str, bool]:
        match = _MODEL_URL.fullmatch(path)
        if not match:
            raise RequestError(HTTPStatus.NOT_FOUND, "there is nothing at this path")
        return unquote(match[1]), bool(match[2])

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "a request needs a Content-Length")
        if len(length) > 18 or int(length) > self.server.max_body_bytes:
            self.close_connection = True
            self._skip(int(length) if len(length) <= 18 else 0)
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                               f"a body may have at most {self.server.max_body_bytes:,} bytes. Received: {length[:18]}")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            raise RequestError(HTTPStatus.BAD_REQUEST, "the body is shorter than its Content-Length")
        return body

    def _skip(self, size: int) -> None:
        """Reads a body that is too large, since many clients read the answer only after they have sent all of it."""
        left = min(size, _MOST_SKIPPED_BYTES)
        while left > 0:
            block = self.rfile.read(min(left, 1 << 16))
            if not block:
                return
            left -= len(block)

    def _check_host(self) -> None:
        """Rejects requests from the user's browser that come from the page of another site."""
        host = self.headers.get("Host", "")
        if self.server.is_loopback and not _is_loopback(_name_of(host)):
            raise RequestError(HTTPStatus.FORBIDDEN, "this server answers only requests to its loopback address")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):  # https: behind a proxy
            raise RequestError(HTTPStatus.FORBIDDEN, "this server does not answer the pages of other sites")

    def _answer(self, make) -> None:
        status = HTTPStatus.OK
        try:
            self._check_host()
            content_type, content = make()
        except RequestError as error:
            status, (content_type, content) = error.status, _error(str(error))
            self.close_connection = True  # since a part of the body may not have been read
        except TimeoutError:
            raise
        except Exception as error:  # the client gets an answer for every error of a model
            logging.error("%s failed: %s", self.path[:200], _one_line(str(error)))
            status, (content_type, content) = HTTPStatus.INTERNAL_SERVER_ERROR, _error(str(error))
            self.close_connection = True
        self.send_response(status)
        headers = {"Content-Type": content_type, "Content-Length": str(len(content)), **_HEADERS}
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code, message=None, explain=None) -> None:
        """Sends http.server's own errors, such as that for an unknown method, as JSON, too."""
        content = _error(message or HTTPStatus(code).phrase)[1]
        self.close_connection = True
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)),
                            "Connection": "close", **_HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args) -> None:
        """Logs requests, but only with --verbosity=1. Bodies are never logged."""
        logging.debug("%s %s", self.address_string(), format % args)


def _reject(connection: socket.socket) -> None:
    """Sends an error to a client for which there is no thread."""
    type_, body = _error("too many connections are open: try later")
    connection.sendall(f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {type_}\r\nContent-Length: {len(body)}\r\n"
                       "Connection: close\r\n\r\n".encode() + body)
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(0.1)
    connection.recv(1 << 16)  # if the request is not read, the client can lose the answer


def _json(value: dict) -> tuple[str, bytes]:
    return "application/json", (json.dumps(value, allow_nan=False) + "\n").encode("utf-8")


def _error(message: str) -> tuple[str, bytes]:
    return _json(dict(error=_one_line(message)))


def _one_line(message: str) -> str:
    return " ".join(message.split())[:500]


def _described(model: ServedModel) -> dict:
    return dict(name=model.name, description=model.description, signatures={
        name: _described_signature(signature) for name, signature in model.signatures.items()})


def _described_signature(signature: Signature) -> dict:
    labels = dict(labels=list(signature.labels)) if signature.labels else {}  # a SavedModel does not list its labels
    return dict(labels, view=signature.view, inputs={
        name: dict(dtype=spec.dtype, shape=list(spec.shape), optional=spec.default is not None)
        for name, spec in signature.inputs.items()})


def _name_of(host: str) -> str:
    """The name or address in a Host header, without its port; "" if it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # for instance "["
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
