"""Sends requests to `serve` for some seconds, whole and broken ones at the same time, and checks every answer."""

import concurrent.futures
import http.client
import json
import math
import pathlib
import random
import signal
import socket
import time

from engine import end
from scenarios import WORDS

CLIENTS = 6
MEMORY = 150  # megabytes that the server may grow by
COMMAND = "serve --init_checkpoint=$classifier/run --port=0"
BROKEN = {  # method, path, body: the status of the answer
    ("POST", "/v1/models/run:predict", "{"): 400,
    ("POST", "/v1/models/run:predict", '{"instances": [{"text": 3}]}'): 400,
    ("POST", "/v1/models/run:predict", '{"instances": "text"}'): 400,
    ("POST", "/v1/models/other:predict", '{"instances": ["text"]}'): 404,
    ("GET", "/nothing", None): 404,
}


def soak(workplace, seconds):
    """Returns what was done and what is wrong."""
    workplace.undisturbed("classifier")
    workplace.clear()
    with workplace.start(COMMAND, is_watched=False) as process:
        address = process.wait_for("Ctrl-C ends").split("open http://")[-1].split("/")[0]
        draw = random.Random(1)
        texts = [" ".join(draw.choices(" ".join(WORDS.values()).split(), k=draw.randint(1, 12))) for _ in range(40)]
        expected = {text: predictions(address, [text])[0] for text in texts}
        before, until = memory(process.pid), time.monotonic() + seconds
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            counts, found = zip(*clients.map(lambda seed: ask(address, expected, until, seed), range(CLIENTS)))
        grown = memory(process.pid) - before
        process.send_signal(signal.SIGTERM)
        ended = end(process)
    found = sum(found, []) + ended.problems([0])
    if grown > MEMORY:
        found.append(f"the server has grown by {grown:.0f} MB")
    return dict(answers=sum(counts), megabytes=round(grown)), found


def ask(address, expected, until, seed):
    """One client's requests. Returns the number of answers, and the wrong ones."""
    draw, count, found = random.Random(seed), 0, []
    while time.monotonic() < until and not found:
        chosen = draw.random()
        if chosen < 0.1:
            with socket.create_connection(address.split(":")) as connection:  # a client that goes away
                connection.sendall(b"POST /v1/models/run:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        elif chosen < 0.3:
            request = draw.choice(sorted(BROKEN, key=str))
            status, _ = answer(address, *request)
            found += [] if status == BROKEN[request] else [f"{request}: status {status}"]
        else:
            texts = draw.choices(sorted(expected), k=draw.choice((1, 1, 4, 32)))
            wrong = [text for text, values in zip(texts, predictions(address, texts))
                     if not close(values, expected[text])]
            found += [f"another answer to {text!r}" for text in wrong]
            count += len(texts)
    return count, found


def predictions(address, texts):
    status, content = answer(address, "POST", "/v1/models/run:predict", json.dumps(dict(instances=texts)))
    if status != 200:
        raise AssertionError(content)
    return content["predictions"]


def answer(address, method, path, body):
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        content = response.read()
        return response.status, json.loads(content) if response.status == 200 else content
    finally:
        connection.close()


def close(values, expected):
    """Whether JSON values are equal, numbers to 1e-4: other texts in a batch change the order of sums."""
    if isinstance(values, dict):
        return values.keys() == expected.keys() and all(close(values[name], expected[name]) for name in values)
    if isinstance(values, list):
        return len(values) == len(expected) and all(map(close, values, expected))
    return math.isclose(values, expected, abs_tol=1e-4) if isinstance(values, float) else values == expected


def memory(pid):
    """The memory of a process in megabytes."""
    fields = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096 / 1e6
