"""serve behind nginx, with the configuration of docs/serving.md."""

import contextlib
import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import time

import numpy as np
import pytest
from server_running import running

from albert_tf.server.signatures import TEXT, ServedModel, Signature

PAGE = pathlib.Path(__file__).parents[2] / "docs/serving.md"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
MODEL = ServedModel("m", "", dict(serving_default=Signature(dict(text=TEXT), lambda columns: dict(
    length=np.array([len(text) for text in columns["text"]])))))
BODY = json.dumps(dict(instances=["abc"]))
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@pytest.fixture
def port(tmp_path):
    """The port of nginx in front of a server that has few connections."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running([MODEL], allowed_hosts=["models.example"], max_connections=8) as server:
        block, = re.findall("```nginx\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
        block = block.replace(" 80;", f" 127.0.0.1:{port};").replace(":8501", f":{server.server_address[1]}")
        below = block[block.index("  location") :].replace("location /", "location /albert/").replace(
            "proxy_pass http://127.0.0.1:" + str(server.server_address[1]), "proxy_pass " + server.url)
        (tmp_path / "conf").write_text(
            "daemon off; error_log err; pid pid; events {} http { access_log off; client_body_temp_path b; "
            "proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n"
            + block.rstrip().removesuffix("}") + below + "}")
        process = subprocess.Popen([NGINX, "-p", str(tmp_path), "-c", "conf", "-e", "err"])
        try:
            wait_for(port)
            yield port
        finally:
            process.terminate()
            process.wait(60)


def wait_for(port):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def ask(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Host": "models.example", **headers})
    response = connection.getresponse()
    return response.status, response.read()


@pytest.mark.parametrize("start", ["/", "/albert/"])
def test_the_page_and_its_requests_are_answered(port, start):
    status, script = ask(port, "GET", f"{start}backend.js")
    assert status == 200 and b'fetch("v1/models")' in script and b"/v1" not in script  # below the path of the page
    assert ask(port, "GET", start)[0] == 200
    for origin in ("http://models.example", "https://models.example"):
        status, answer = ask(port, "POST", f"{start}v1/models/m:predict", BODY, Origin=origin)
        assert (status, json.loads(answer)) == (200, dict(predictions=[3]))
    for headers in (dict(Host="other.example"), dict(Origin="http://other.example")):
        assert ask(port, "POST", f"{start}v1/models/m:predict", BODY, **headers)[0] == 403


def test_slow_clients_do_not_keep_others_out(port):
    with contextlib.ExitStack() as stack:
        for _ in range(15):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            held.sendall(b"POST /v1/models/m:predict HTTP/1.1\r\nHost: models.example\r\nContent-Length: 900\r\n\r\n{")
        assert ask(port, "POST", "/v1/models/m:predict", BODY)[0] == 200
