"""Runs a server for tests in a thread of this process."""

import contextlib
import json
import threading
import urllib.error
import urllib.request

import numpy as np

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


def ask(server, path, body=None):
    """The status and the answer, as JSON if it is JSON, to a GET, or a POST if there is a body."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(server.url + path, data), timeout=60) as response:
            status, content = response.status, response.read()
    except urllib.error.HTTPError as error:
        status, content = error.code, error.read()
    return status, json.loads(content) if content[:1] in (b"{", b"[") else content.decode()


def post(server, path, **body):
    """The answer to a POST to a model: a list of predictions, or of results."""
    status, answer = ask(server, f"v1/models/{path}", body)
    assert status == 200, answer
    return next(iter(answer.values()))


def assert_same(actual, expected, atol=1e-4):
    """Asserts that two answers are equal but for small differences of numbers."""
    if isinstance(expected, dict):
        assert set(actual) == set(expected)
        for key in expected:
            assert_same(actual[key], expected[key], atol)
    elif isinstance(expected, list) and expected and not isinstance(expected[0], float):
        assert len(actual) == len(expected)
        for pair in zip(actual, expected):
            assert_same(*pair, atol)
    elif isinstance(expected, (list, float)):
        np.testing.assert_allclose(actual, expected, atol=atol)
    else:
        assert actual == expected
