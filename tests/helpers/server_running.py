"""Runs a server for tests in a thread of this process."""

import contextlib
import threading

from albert_tf.server.server import ModelServer, listen


@contextlib.contextmanager
def running(models, host="127.0.0.1", **options):
    """Yields a ModelServer that answers requests."""
    server = ModelServer(models, listen(host, 0), **options)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
