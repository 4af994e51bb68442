"""The server over HTTP, with models that are functions: paths, limits, errors, and allowed origins."""

import concurrent.futures
import contextlib
import http.client
import json
import socket
import threading
import time

import numpy as np
import pytest
from server_running import running

from albert_tf.server.app import MAX_ROWS, allowed_host
from albert_tf.server.batching import Batcher
from albert_tf.server.signatures import ServedModel, Signature, Spec


def upper(columns):
    if b"fail" in columns["text"]:
        raise RuntimeError("the model\x1b[31m\nfailed")
    return dict(upper=np.array([text.upper() for text in columns["text"]], object), length=np.array(
        [len(text) for text in columns["text"]]))


MODEL = ServedModel("a model", "for tests", dict(serving_default=Signature(
    dict(text=Spec("string", (None,))), upper)))


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
    assert server.url == f"http://127.0.0.1:{server.server_address[1]}/"  # by default, no other machine reaches it


def test_models_and_the_state_of_one(server):
    of_openai = dict(id="a model", object="model", created=0, owned_by="albert_tf")
    assert json.loads(ask(server, "GET", "/v1/models")[1]) == dict(object="list", data=[of_openai], models=[dict(
        name="a model", description="for tests", signatures=dict(serving_default=dict(
            view="json", inputs=dict(text=dict(dtype="string", shape=[None], optional=False)))))])
    state = json.loads(ask(server, "GET", "/v1/models/a%20model")[1])
    assert state["model_version_status"][0]["state"] == "AVAILABLE" and list(state["signatures"]) == ["serving_default"]


@pytest.mark.parametrize("path, content_type", [
    ("/?x=1", "text/html"), ("/style.css", "text/css"), ("/page.js", "text/javascript"),
    ("/backend.js", "text/javascript")])
def test_the_page_and_nothing_else_is_loaded_by_it(server, path, content_type):
    response, content = ask(server, "GET", path)
    assert response.status == 200 and response.getheader("Content-Type").startswith(content_type)
    assert "default-src 'none'" in response.getheader("Content-Security-Policy")
    assert response.getheader("X-Content-Type-Options") == "nosniff"
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
    ("POST", "/v1/models/a%20model:predict", '{"instances": ["a"], "signature_name": "x"}', 400, "no signature 'x'"),
    ("POST", "/v1/models/a%20model:predict", json.dumps(dict(instances=["fail"])), 500, "the model\x1b[31m failed"),
    ("POST", "/v1/models/a%20model", "{}", 405, "predictions need POST"),
    ("GET", "/v1/models/a%20model:predict", None, 404, "there is no model 'a model:predict'"),
    # A client that writes to a closed connection gets an error of the system instead of the answer.
    ("POST", "/v1/models/a%20model:predict", " " * 10_000_000, 413, "at most 1,000 bytes. Received: 10000000")])
def test_an_error_is_one_line_of_json(server, method, path, body, status, message):
    response, content = ask(server, method, path, body)
    error, = json.loads(content).values()
    assert response.status == status and message in error and "\n" not in error


def test_a_request_may_not_have_too_many_rows_nor_too_long_texts():
    with running([MODEL]) as server:
        status, answer = predict(server, dict(instances=["a"] * (MAX_ROWS + 1)))
        assert status == 400 and "1,024 rows" in answer["error"]
        status, answer = predict(server, dict(instances=["a", "\ufdfa" * 100_001]))
        assert (status, answer["error"]) == (400, "text: a text may have at most 100,000 characters. Received: 100,001")
        assert predict(server, dict(instances=["\ufdfa" * 100_000]))[0] == 200


def raw(server, request):
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(request)
        return connection.makefile("rb").read().decode()


@pytest.mark.parametrize("length, status", [
    (b"", 411), (b"Content-Length: -1\r\n", 400), (b"Content-Length: x\r\n", 400),
    (b"Transfer-Encoding: chunked\r\n", 411), (b"Content-Length: " + b"9" * 400 + b"\r\n", 400),
    (b"Content-Length: 100000000000000000\r\n", 413), (b"Content-Length: 5\r\nContent-Length: 6\r\n", 400)])
def test_a_body_without_a_correct_length_is_refused_at_once(server, length, status):
    request = b"POST /v1/models/a%20model:predict HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n"
    start = time.monotonic()
    answer = raw(server, request)
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("headers, status", [
    (dict(Host="attacker.example"), 403), (dict(Host="attacker.example:8501"), 403),
    (dict(Host="127.0.0.1.attacker.example"), 403), (dict(Host="["), 403), (dict(Origin="null"), 403),
    (dict(Origin="http://attacker.example"), 403), (dict(Host="localhost", Origin="http://localhost:1"), 403),
    (dict(Host="localhost:{}", Origin="http://localhost:{}"), 200),
    (dict(Host="localhost:{}", Origin="https://localhost:{}"), 200)])  # a proxy on this machine adds TLS
def test_pages_of_other_sites_get_nothing_and_the_servers_own_is_answered(server, headers, status):
    headers = {name: value.replace("{}", str(server.server_address[1])) for name, value in headers.items()}
    answered, answer = predict(server, dict(instances=["a"]), **headers)
    assert answered == status and ("this server" in str(answer)) == (status == 403)
    assert ask(server, "GET", "/v1/models", **headers)[0].status == status


@pytest.mark.parametrize("host, allowed, answered, refused", [
    ("127.0.0.1", ["model.example"], [
        dict(Host="model.example", Origin="https://model.example"), dict(Host="MODEL.example:81"),
        dict(Origin="http://model.example:81"), dict(Host="model.example."), {}], [
            dict(Host="attacker.example"), dict(Origin="http://attacker")]),
    ("0.0.0.0", ["2001:db8::1"], [dict(Host="[2001:db8:0::1]:81", Origin="http://[2001:DB8::1]")], [
        dict(Host="[2001:db8::2]")]),
    ("0.0.0.0", [], [dict(Host="model.example")], [])])
def test_allowed_hosts_are_answered_and_others_are_not(host, allowed, answered, refused):
    with running([MODEL], host, allowed_hosts=allowed) as server:
        for headers in (*answered, *refused):
            assert (predict(server, dict(instances=["a"]), **headers)[0] == 200) == (headers in answered)


def test_connections_beyond_the_limit_are_refused_and_later_ones_are_not():
    with running([MODEL], max_connections=2) as server:
        with socket.create_connection(server.server_address[:2]) as held:
            held.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert held.recv(12) == b"HTTP/1.1 200"
            for _ in range(5):
                assert ask(server, "POST", "/v1/models/a%20model:predict", '{"instances": ["a"]}')[0].status == 503
        assert becomes_true(lambda: predict(server, dict(instances=["a"]))[0] == 200)


def connected(server, start=b""):
    """A connection that has sent the start of a request."""
    connection = socket.create_connection(server.server_address[:2], timeout=20)
    connection.sendall(start)
    return connection


def test_connections_without_a_request_shut_nobody_out():
    with running([MODEL], max_connections=4) as server, contextlib.ExitStack() as stack:
        for start in (b"", b"", b"GET / HTTP/1.1\r\n", b"", b""):
            stack.enter_context(connected(server, start))
        for _ in range(8):
            assert ask(server, "GET", "/health")[0].status == 200


POST = b"POST /v1/models/a%20model:predict HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("start", [
    b"", b"GET", POST, POST + b"Content-Length: 9\r\n\r\n{",  # and one whose earlier request has been answered
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nG"], ids=["none", "line", "headers", "body", "second"])
def test_a_request_must_arrive_whole_in_time(start):
    with running([MODEL], seconds=1) as server, connected(server, start) as connection:
        begin = time.monotonic()
        answer = connection.makefile("rb").read()  # to the end of the connection
        assert 0.5 < time.monotonic() - begin < 5 and answer.startswith(b"HTTP/1.1 200") == (b"health" in start)


def test_bytes_that_trickle_in_give_no_further_time():
    with running([MODEL], seconds=1) as server, connected(server, POST) as connection:
        with pytest.raises(OSError):
            for _ in range(50):
                connection.sendall(b"X: y\r\n")
                time.sleep(0.1)


def test_a_client_that_reads_no_answer_is_left():
    long = ServedModel("long", "", dict(serving_default=Signature(
        dict(text=Spec("string", (None,))), lambda columns: dict(text=np.array([b"x" * 8_000_000], object)))))
    body = json.dumps(dict(instances=["a"])).encode()
    request = b"POST /v1/models/long:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with running([long], seconds=0.2) as server, connected(server, request + body):
        connections = server._server.server_state.connections
        assert becomes_true(lambda: connections) and becomes_true(lambda: not connections)


def test_a_long_computation_is_waited_for():
    slow = Slow()
    with running([slow.model], seconds=1) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(predict, server, dict(instances=["a"]), "slow")
        time.sleep(2.5)
        slow.go.release()
        assert answer.result(60)[0] == 200


def test_an_answer_that_json_cannot_hold_is_the_models_error():
    nan = ServedModel("nan", "", dict(serving_default=Signature(
        dict(text=Spec("string", (None,))), lambda columns: dict(score=np.full(len(columns["text"]), np.nan)))))
    with running([nan]) as server:
        status, answer = predict(server, dict(instances=["a"]), "nan")
    assert status == 500 and "nan has answered NaN" in answer["error"]


def test_health_is_answered_whatever_the_host():
    with running([MODEL], "0.0.0.0", allowed_hosts=["model.example"]) as server:
        assert ask(server, "GET", "/health", Host="10.1.2.3:8501")[0].status == 200
        assert ask(server, "GET", "/metrics", Host="10.1.2.3:8501")[0].status == 403


@pytest.mark.parametrize("text, host", [
    ("model.example", "model.example"), ("model.example.", "model.example"), ("10.0.0.1", "10.0.0.1"),
    ("2001:db8::1", "2001:db8::1"), ("[2001:DB8:0::1]", "2001:db8::1")])
def test_an_allowed_host_is_a_name_or_an_address(text, host):
    assert allowed_host(text) == host


@pytest.mark.parametrize("text", [
    "", ".", "https://model.example", "model.example:81", "Model.example", "[2001:db8::1]:81", "a/b", "["])
def test_what_is_no_host_is_refused(text):
    with pytest.raises(ValueError, match="--allowed_hosts"):
        allowed_host(text)


def test_requests_are_logged_with_verbosity_1_alone_and_their_bodies_never(server, capfd, caplog):
    for level, is_logged in (("INFO", False), ("DEBUG", True)):
        caplog.clear()
        caplog.set_level(level, logger="absl")
        predict(server, dict(instances=["a secret"]))
        captured = capfd.readouterr()
        assert "secret" not in captured.out + captured.err + caplog.text
        assert ("POST" in captured.out + captured.err + caplog.text) == is_logged


def test_the_log_escapes_control_characters(server, caplog):
    caplog.set_level("DEBUG", logger="absl")
    ask(server, "GET", "/v1/models/a%0aline%1b[31m")
    ask(server, "POST", "/v1/models/a%20model:predict", json.dumps(dict(instances=["fail"])))
    written = "".join(record.getMessage() for record in caplog.records)
    assert "a\\nline\\x1b[31m" in written and "the model\\x1b[31m failed" in written
    assert "\x1b" not in written and "\n" not in written


def becomes_true(condition):
    """Whether a condition is true at some time in the next 20 seconds."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


class Slow:
    """A model whose batches each wait until `go` is released."""

    def __init__(self):
        self.started, self.go, self.batches = threading.Semaphore(0), threading.Semaphore(0), 0
        self.rows = 0
        self.model = ServedModel("slow", "", dict(serving_default=Signature(
            dict(text=Spec("string", (None,))), self.run)))

    def run(self, columns):
        self.batches, self.rows = self.batches + 1, self.rows + len(columns["text"])
        self.started.release()
        assert self.go.acquire(timeout=60)
        return upper(columns)


def test_a_request_waits_for_one_batch_of_a_large_one_at_most_and_not_for_another_model():
    slow = Slow()
    with running([slow.model, MODEL], batcher=lambda: Batcher(4)) as server, (
            concurrent.futures.ThreadPoolExecutor(2)) as pool:
        large = pool.submit(predict, server, dict(instances=["a"] * 100), "slow")
        assert slow.started.acquire(timeout=60)
        assert predict(server, dict(instances=["a"]))[0] == 200 and not large.done()
        small = pool.submit(predict, server, dict(instances=["b"]), "slow")
        assert becomes_true(lambda: len(server._batchers[0].waiting) == 2)
        slow.go.release(3)
        assert small.result(60)[0] == 200 and not large.done()
        slow.go.release(100)
        assert len(large.result(60)[1]["predictions"]) == 100


def test_a_client_that_has_gone_gets_no_further_batch():
    slow = Slow()
    with running([slow.model], batcher=lambda: Batcher(4)) as server:
        connection = http.client.HTTPConnection(*server.server_address[:2], timeout=60)
        connection.request("POST", "/v1/models/slow:predict", json.dumps(dict(instances=["a"] * 100)))
        assert slow.started.acquire(timeout=60)
        connection.close()
        assert becomes_true(lambda: all(job.result.done() for job in server._batchers[0].waiting))
        slow.go.release(2)
        assert predict(server, dict(instances=["b"]), "slow")[0] == 200
        assert slow.batches == 2
