"""Runs a server for tests in a thread of this process."""

import contextlib
import json
import threading
import urllib.request

from albert_tf.server.app import ModelServer, listen


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


def post(server, path, **body):
    """The answer to a POST to a model: a list of predictions, or of results."""
    request = urllib.request.Request(f"{server.url}v1/models/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        answer, = json.load(response).values()
    return answer
