"""The HTTP server: uvicorn, with the application of app.py."""

from __future__ import annotations

import socket
from typing import Callable, Collection, Sequence

import uvicorn

from albert_tf.server.app import application, is_loopback
from albert_tf.server.batching import Batcher
from albert_tf.server.signatures import ServedModel


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Until a ModelServer serves on it, clients wait for their answers. Raises OSError."""
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=64)
    # Else the second of two writes waits for the acknowledgement of the first, 40 ms. Accepted sockets inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return listener


class ModelServer:
    """Serves models and the page. `serve_forever` runs it, and `server_close` frees the address and ends the batchers.

    uvicorn was chosen over hypercorn and granian: it runs in this process, on a socket that is bound before the models
    are loaded. It refuses connections beyond max_connections with status 503, and closes those without a request after
    `seconds`. It has no deadline for a request that arrives slowly: a proxy has (docs/serving.md).
    Each model has its own batcher, so that long requests of one do not stop the others. For allowed_hosts see Guard.
    """

    def __init__(self, models: Sequence[ServedModel], listener: socket.socket, max_body_bytes: int = 1_000_000,
                 allowed_hosts: Collection[str] = (), batcher: Callable[[], Batcher] = Batcher,
                 max_connections: int = 320, seconds: int = 30):
        self._socket, self.server_address = listener, listener.getsockname()
        self._batchers = [batcher() for _ in models]
        app = application(models, self._batchers, max_body_bytes=max_body_bytes, allowed_hosts=allowed_hosts,
                          answers_any_host=not (is_loopback(self.server_address[0]) or allowed_hosts))
        self._server = uvicorn.Server(uvicorn.Config(
            app, loop="asyncio", http="h11", ws="none", lifespan="off", log_config=None, log_level="critical",
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
