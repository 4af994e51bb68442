"""Deadlines of a connection, which uvicorn does not have: it bounds only the time between two requests."""

from __future__ import annotations

import asyncio
import json
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """A connection of uvicorn that is dropped if its client is too slow.

    A client has `seconds` to send a request to its end, and as many to read an answer. A byte now and then gives no
    more time, so slow clients cannot hold all connections.

    Args:
      seconds: the deadline.
      max_connections: the largest number of connections. Further ones are closed without an answer, since an answer
        needs memory and a file descriptor too.
      **options: those of H11Protocol.
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
