"""Guard: refuses requests before a model sees them, by their headers."""

from __future__ import annotations

import ipaddress
from http import HTTPStatus
from typing import Callable
from urllib.parse import urlsplit

from absl import logging
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The page loads nothing from other sites, runs no inline scripts, and cannot be shown inside another page.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
                               "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
}
_MOST_SKIPPED_BYTES = 64 << 20


class Guard:
    """ASGI middleware that refuses requests and adds headers to all answers. It logs each request with --verbosity=1.

    Starlette's TrustedHostMiddleware knows no hosts of IPv6 and no origins, and answers in plain text.

    With is_loopback, only requests whose Host header names a loopback host are answered, so that a page of another site
    whose domain name resolves to 127.0.0.1 gets no data. num_connections gives the number of connections, used or idle.
    """

    def __init__(self, app: ASGIApp, is_loopback: bool, max_body_bytes: int, max_connections: int,
                 num_connections: Callable[[], int]):
        self._app, self._is_loopback, self._max_body_bytes = app, is_loopback, max_body_bytes
        self._max_connections, self._num_connections = max_connections, num_connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
                # The client's address, the request and its status; bodies are never logged.
                logging.debug("%s %s %r %d", scope["client"], scope["method"], scope["path"], message["status"])
            await send(message)

        headers = Headers(scope=scope)
        reason = self._reason(scope["method"], headers)
        if reason is None:
            await self._app(scope, receive, send_with_headers)
            return
        await _skip_body(receive, headers)
        await error_response(*reason, connection="close")(scope, receive, send_with_headers)

    def _reason(self, method: str, headers: Headers) -> tuple[HTTPStatus, str] | None:
        """The status and the message of a request that is refused."""
        if self._num_connections() > self._max_connections:
            return HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open: try later"
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if self._is_loopback and not is_loopback(_name_of(host)):
            return HTTPStatus.FORBIDDEN, "this server answers only requests to its loopback address"
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):  # https: behind a proxy
            return HTTPStatus.FORBIDDEN, "this server does not answer the pages of other sites"
        length = headers.get("Content-Length")
        if "Transfer-Encoding" in headers or (length is None and method == "POST"):
            return HTTPStatus.LENGTH_REQUIRED, "a request needs a Content-Length"
        if length is not None and int(length) > self._max_body_bytes:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, (
                f"a body may have at most {self._max_body_bytes:,} bytes. Received: {length}")
        return None


def error_response(status: int, message: str, **headers: str) -> JSONResponse:
    """An error in one line, as TensorFlow Serving writes it."""
    return JSONResponse(dict(error=" ".join(message.split())[:500]), status, headers)


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


def _name_of(host: str) -> str:
    """The name or address in a Host header, without its port; "" if it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # for instance "["
        return ""
