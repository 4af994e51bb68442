"""The HTTP server: uvicorn, with the application of app.py and deadlines for slow clients."""

from __future__ import annotations

import asyncio
import functools
import json
import socket
from typing import Callable, Sequence

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from albert_tf.server.app import application, is_loopback
from albert_tf.server.batching import Batcher
from albert_tf.server.signatures import ServedModel


class Connection(H11Protocol):
    """A connection of uvicorn that is dropped if its client is too slow.

    A client has `seconds` to send a request to its end, and as many to read an answer. A byte now and then gives no
    more time, so slow clients cannot hold all connections. uvicorn's own limits allow that: with limit_concurrency=320,
    a client with 400 connections that sent a byte every half second kept all others out, with status 503.

    Further connections than max_connections are closed without an answer, since an answer needs memory and a file
    descriptor too.
    """

    def __init__(self, seconds: float, max_connections: int, **options):
        super().__init__(**options)
        self._seconds, self._max_connections = seconds, max_connections
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport) -> None:
        """Starts the deadline of the first request."""
        super().connection_made(transport)
        # Else the second of two writes waits for the acknowledgement of the first, 40 ms. asyncio sets it for sockets
        # whose protocol is given, and create_server gives none.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        if len(self.connections) > self._max_connections:
            transport.abort()
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        """Starts the deadline of a request with its first bytes, and ends it with the last."""
        super().data_received(data)
        self._set_deadline()

    def on_response_complete(self) -> None:
        """Starts the deadline of a request whose first bytes came before the last answer was sent."""
        super().on_response_complete()
        if self.conn.trailing_data[0]:
            self._set_deadline()

    def pause_writing(self) -> None:
        """Starts the deadline of an answer that the client does not read."""
        super().pause_writing()
        self._sending = self._sending or self.loop.call_later(self._seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Ends the deadline of an answer."""
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the deadlines."""
        super().connection_lost(exc)
        for timer in filter(None, (self._receiving, self._sending)):
            timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP, or has two lengths, in JSON like every error."""
        body = json.dumps(dict(error=msg)).encode()
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
                             b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.transport.close()

    def _set_deadline(self) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:  # the request has been received
            if self._receiving is not None:
                self._receiving.cancel()
                self._receiving = None
        elif self._receiving is None and not self.transport.is_closing():
            self._receiving = self.loop.call_later(self._seconds, self.transport.abort)


class ModelServer:
    """Serves models and the page. `serve_forever` runs it, and `server_close` frees the address and ends the batchers.

    uvicorn was chosen over hypercorn and granian: it runs in this process, on a socket that is bound before the models'
    page is announced, and takes a class of connections, where the deadlines are.
    Each model has its own batcher, so that long requests of one do not stop the others. For max_connections and a
    loopback address see Guard, for seconds Connection.
    """

    def __init__(self, models: Sequence[ServedModel], host: str = "127.0.0.1", port: int = 0,
                 max_body_bytes: int = 1_000_000, max_connections: int = 320, batcher: Callable[[], Batcher] = Batcher,
                 seconds: int = 30):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=64)
        self.server_address = self._socket.getsockname()
        self.is_loopback = is_loopback(host)
        self._batchers = [batcher() for _ in models]
        app = application(models, self._batchers, is_loopback=self.is_loopback, max_body_bytes=max_body_bytes,
                          max_connections=max_connections, num_connections=self._num_connections)
        connection = functools.partial(Connection, seconds, 2 * max_connections)
        self._server = uvicorn.Server(uvicorn.Config(
            app, loop="asyncio", http=connection, ws="none", lifespan="off",
            log_config=None, log_level="critical", access_log=False, proxy_headers=False, server_header=False,
            timeout_keep_alive=seconds))

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

    def _num_connections(self) -> int:
        return len(self._server.server_state.connections)
