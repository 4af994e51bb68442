"""Runs a server for tests in a thread of this process."""

import contextlib
import threading

from albert_tf.server.server import ModelServer


@contextlib.contextmanager
def running(models, **options):
    """Yields a ModelServer that answers requests."""
    server = ModelServer(models, **options)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
