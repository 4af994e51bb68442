"""The HTTP server: uvicorn, with the application of app.py and the deadlines of connections.py."""

from __future__ import annotations

import functools
import socket
from typing import Sequence

import uvicorn

from albert_tf.server.app import application
from albert_tf.server.batching import Batcher
from albert_tf.server.connections import Connection
from albert_tf.server.guard import is_loopback
from albert_tf.server.signatures import ServedModel


class ModelServer:
    """Serves models and the page. `serve_forever` runs it, and `server_close` frees the address and ends the batcher.

    uvicorn was chosen over hypercorn and granian: it runs in this process, on a socket that is bound before the models'
    page is announced, and takes a class of connections, where the deadlines are.

    Args:
      models: the models, with different names. The page shows them in this order.
      host: the address to listen on. On a loopback address, only requests whose Host header names a loopback host are
        answered, so that a page of another site whose domain name resolves to 127.0.0.1 gets no data.
      port: the port to listen on; 0 for any free port.
      max_body_bytes: the largest size of a request. A larger one is rejected.
      max_connections: the largest number of connections at the same time, used or idle. Further ones are rejected.
      batcher: runs the models.
      seconds: the time that a client has to send a request, to read an answer, and between requests.

    Raises:
      OSError: the address cannot be used.
    """

    def __init__(self, models: Sequence[ServedModel], host: str = "127.0.0.1", port: int = 0,
                 max_body_bytes: int = 1_000_000, max_connections: int = 320, batcher: Batcher | None = None,
                 seconds: int = 30):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=64)
        self.server_address = self._socket.getsockname()
        self.is_loopback = is_loopback(host)
        self._batcher = batcher or Batcher()
        app = application(models, self._batcher, is_loopback=self.is_loopback, max_body_bytes=max_body_bytes,
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

        A second Ctrl-C ends it at once. In the main thread the signal follows when all is answered: KeyboardInterrupt
        after Ctrl-C.
        """
        self._server.run(sockets=[self._socket])

    def shutdown(self) -> None:
        """Ends `serve_forever`, which may run in another thread, when requests under way have been answered."""
        self._server.should_exit = True

    def server_close(self) -> None:
        """Frees the address and ends the batcher."""
        self._socket.close()
        self._batcher.close()

    def _num_connections(self) -> int:
        return len(self._server.server_state.connections)
