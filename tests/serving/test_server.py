"""The server over HTTP, with models that are functions: paths, limits, errors, and allowed origins."""

import concurrent.futures
import http.client
import json
import queue
import socket

import numpy as np
import pytest
from running import running

from albert_tf.serving.server import MAX_ROWS
from albert_tf.serving.signatures import InputSpec, ServedModel, Signature


def upper(columns):
    if b"fail" in columns["text"]:
        raise RuntimeError("the model\nfailed")
    return dict(upper=np.array([text.upper() for text in columns["text"]], object), length=np.array(
        [len(text) for text in columns["text"]]))


MODEL = ServedModel("a model", "for tests", dict(serving_default=Signature(
    dict(text=InputSpec("string", (None,))), upper)))


@pytest.fixture(scope="module")
def server():
    with running([MODEL], max_body_bytes=1000) as server:
        yield server


def ask(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=60)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


def predict(server, body, name="a%20model", **headers):
    response, content = ask(server, "POST", f"/v1/models/{name}:predict", json.dumps(body), **headers)
    return response.status, json.loads(content)


def test_predictions_in_tensorflow_servings_form(server):
    assert predict(server, dict(instances=["ab", "ß"])) == (200, dict(predictions=[
        dict(upper="AB", length=2), dict(upper="ß", length=2)]))
    assert predict(server, dict(inputs=dict(text=["ab"]))) == (200, dict(outputs=dict(upper=["AB"], length=[2])))
    assert predict(server, dict(instances=["ab"]), "a%20model/versions/1")[0] == 200


def test_models_and_the_state_of_one(server):
    assert json.loads(ask(server, "GET", "/v1/models")[1]) == dict(models=[dict(
        name="a model", description="for tests", signatures=dict(serving_default=dict(
            view="json", inputs=dict(text=dict(dtype="string", shape=[None], optional=False)))))])
    state, = json.loads(ask(server, "GET", "/v1/models/a%20model")[1])["model_version_status"]
    assert state["state"] == "AVAILABLE"


@pytest.mark.parametrize("path, content_type", [
    ("/", "text/html"), ("/?x=1", "text/html"), ("/style.css", "text/css"), ("/page.js", "text/javascript")])
def test_the_page_and_nothing_else_is_loaded_by_it(server, path, content_type):
    response, content = ask(server, "GET", path)
    assert response.status == 200 and response.getheader("Content-Type").startswith(content_type)
    assert "default-src 'none'" in response.getheader("Content-Security-Policy")
    assert b"http://" not in content and b"https://" not in content


@pytest.mark.parametrize("path", [
    "/etc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/page/page.js", "/index.html",
    "/server.py", "/v1/models/../../../etc/passwd", "/v1/models/%2fetc%2fpasswd", "/style.css/..", "/page.js%00"])
def test_no_file_of_the_machine_is_served(server, path):
    response, content = ask(server, "GET", path)
    assert response.status == 404 and list(json.loads(content)) == ["error"]


@pytest.mark.parametrize("method, path, body, status, message", [
    ("POST", "/v1/models/other:predict", '{"instances": ["a"]}', 404, "there is no model 'other'; the models"),
    ("POST", "/v1/models/a%20model:predict", "no json", 400, "the body is not JSON"),
    ("POST", "/v1/models/a%20model:predict", '{"instances": [1]}', 400, "text must hold strings. Received: 1"),
    ("POST", "/v1/models/a%20model:predict", '{"instances": ["a"], "signature_name": "x"}', 400,
     "a model has no signature 'x'; its signatures are serving_default"),
    ("POST", "/v1/models/a%20model:predict", json.dumps(dict(instances=["fail"])), 500, "the model failed"),
    ("POST", "/v1/models/a%20model", "{}", 405, "send POST requests to /v1/models/NAME:predict"),
    ("GET", "/v1/models/a%20model:predict", None, 405, "predictions need a POST request"),
    ("POST", "/v1/models/a%20model:predict", " " * 1001, 413, "a body may have at most 1,000 bytes. Received: 1001"),
    ("DELETE", "/", None, 501, "Unsupported method"),
])
def test_an_error_is_one_line_of_json(server, method, path, body, status, message):
    response, content = ask(server, method, path, body)
    error, = json.loads(content).values()
    assert response.status == status and message in error and "\n" not in error


def test_a_body_that_is_much_too_large_is_answered(server):
    """A client that writes to a closed connection gets an error of the system instead of the answer."""
    response, content = ask(server, "POST", "/v1/models/a%20model:predict", " " * 10_000_000)
    assert response.status == 413 and "at most 1,000 bytes. Received: 10000000" in json.loads(content)["error"]


def test_a_request_may_not_have_too_many_rows():
    with running([MODEL]) as server:
        status, answer = predict(server, dict(instances=["a"] * (MAX_ROWS + 1)))
        assert status == 400 and "1 to 1,024 rows" in answer["error"]


def raw(server, request):
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(request)
        return connection.makefile("rb").read().decode()


@pytest.mark.parametrize("length, status", [
    (b"", 411), (b"Content-Length: -1\r\n", 411), (b"Content-Length: x\r\n", 411),
    (b"Transfer-Encoding: chunked\r\n", 411), (b"Content-Length: " + b"9" * 400 + b"\r\n", 413)])
def test_a_body_without_a_correct_length_is_not_read(server, length, status):
    request = b"POST /v1/models/a%20model:predict HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n"
    assert raw(server, request).startswith(f"HTTP/1.1 {status} ")


@pytest.mark.parametrize("headers", [
    dict(Host="attacker.example"), dict(Host="attacker.example:8501"), dict(Host="127.0.0.1.attacker.example"),
    dict(Host="["), dict(Origin="http://attacker.example"), dict(Origin="null"),
    dict(Host="localhost", Origin="http://localhost:1")])
def test_pages_of_other_sites_get_nothing(server, headers):
    status, answer = predict(server, dict(instances=["a"]), **headers)
    assert status == 403 and "this server" in answer["error"]
    assert ask(server, "GET", "/v1/models", **headers)[0].status == 403


@pytest.mark.parametrize("scheme", ["http", "https"])  # https if a proxy on this machine adds TLS
def test_the_servers_own_page_is_answered(server, scheme):
    host = "localhost:{}".format(server.server_address[1])
    assert predict(server, dict(instances=["a"]), Host=host, Origin=f"{scheme}://{host}")[0] == 200


def test_the_server_listens_on_the_loopback_address_by_default(server):
    assert server.server_address[0] == "127.0.0.1" and server.is_loopback
    assert server.url == f"http://127.0.0.1:{server.server_address[1]}/"
    with running([MODEL], host="0.0.0.0") as public:
        assert predict(public, dict(instances=["a"]), Host="model.example")[0] == 200


def test_connections_beyond_the_limit_are_refused_and_later_ones_are_not():
    with running([MODEL], max_connections=1) as server:
        with socket.create_connection(server.server_address[:2]) as held:
            held.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert held.recv(12) == b"HTTP/1.1 200"
            for _ in range(5):
                response, content = ask(server, "POST", "/v1/models/a%20model:predict", '{"instances": ["a"]}')
                assert response.status == 503
                assert json.loads(content) == dict(error="too many connections are open: try later")
        server._connections.acquire(timeout=60)  # the held connection's thread has ended
        server._connections.release()
        assert predict(server, dict(instances=["a"]))[0] == 200


def test_many_clients_at_once_get_their_own_answers(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda i: predict(server, dict(instances=[f"text {i}"]))[1], range(100))
    assert [answer["predictions"][0]["upper"] for answer in answers] == [f"TEXT {i}" for i in range(100)]


def test_requests_are_logged_with_verbosity_1_alone_and_their_bodies_never(server, capfd, caplog):
    for level, is_logged in (("INFO", False), ("DEBUG", True)):
        caplog.clear()
        caplog.set_level(level, logger="absl")
        predict(server, dict(instances=["a secret"]))
        captured = capfd.readouterr()
        assert "secret" not in captured.out + captured.err + caplog.text
        assert ("POST" in captured.out + captured.err + caplog.text) == is_logged


class FullBatcher:
    """A batcher with as many requests as may wait."""

    def submit(self, signature, columns):
        raise queue.Full

    def close(self):
        pass


def test_a_request_that_is_one_too_many_to_wait_has_status_503():
    with running([MODEL], batcher=FullBatcher()) as server:
        assert predict(server, dict(instances=["a"])) == (
            503, dict(error="too many requests are waiting: try later"))
