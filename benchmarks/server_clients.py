"""Requests a second that serve answers, with one client and with many, and the CPU time and memory of its process.

    python -m benchmarks.server_clients --text_file=novels.txt
    python -m benchmarks.server_clients --text_file=novels.txt --onnx_model=onnx/pretrainer_int8.onnx

Each client keeps one connection and sends its next request when the answer to the last one has come. A request is one
text of 3 to 120 words with a mask. Each number of clients is measured --runs times for --seconds, and the smallest and
the largest value are printed. The CPU time depends less on what else the machine does.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import subprocess
import threading
import time
from urllib.parse import urlsplit

from absl import flags

from albert_tf.commands import app
from albert_tf.commands.command_runs import process_of
from albert_tf.text.lines import read_lines
from benchmarks.alternation import ROOT
from benchmarks.processor import naming_processor

flags.DEFINE_string("init_checkpoint", "albert_tiny_en", "The weights to serve, with a masked-LM head.")
flags.DEFINE_string("onnx_model", None, "An ONNX model with a masked-LM head to serve instead.")
flags.DEFINE_string("text_file", None, "Path of a text.", required=True)
flags.DEFINE_multi_integer("clients", [1, 8, 64], "Number of clients at the same time. May be repeated.")
flags.DEFINE_integer("runs", 3, "Number of measurements for each number of clients.", lower_bound=1)
flags.DEFINE_integer("seconds", 8, "Seconds of a measurement.", lower_bound=1)
FLAGS = flags.FLAGS


def main():
    bodies = masked_texts(FLAGS.text_file)
    model = f"--onnx_model={FLAGS.onnx_model}" if FLAGS.onnx_model else f"--init_checkpoint={FLAGS.init_checkpoint}"
    command = process_of("serve", [model, "--port=0"])
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = urlsplit(server.stdout.readline().split("open ")[1].split()[0])
            models = json.loads(ask(http.client.HTTPConnection(url.netloc), "GET", "/v1/models"))["models"]
            path = f"/v1/models/{models[0]['name']}:predict"
            answers(url.netloc, path, bodies, 8, 5)
            print(f"memory: {megabytes(server.pid):.0f} MB", flush=True)
            for clients in FLAGS.clients:
                rates, costs = [], []
                for _ in range(FLAGS.runs):
                    before, start = cpu_seconds(server.pid), time.monotonic()
                    count = answers(url.netloc, path, bodies, clients, FLAGS.seconds)
                    rates.append(count / (time.monotonic() - start))
                    costs.append(1000 * (cpu_seconds(server.pid) - before) / count)
                print(f"{clients} client(s): {min(rates):.0f} to {max(rates):.0f} requests a second, "
                      f"{min(costs):.1f} to {max(costs):.1f} ms of CPU time each; "
                      f"memory: {megabytes(server.pid):.0f} MB", flush=True)
        finally:
            server.terminate()


def masked_texts(path: str) -> list[str]:
    """Bodies of requests: texts of 3 to 120 words, in an order that is always the same."""
    words = list(itertools.islice((word for line in read_lines(path) for word in line.split()), 100_000))
    generator = random.Random(1)
    bodies = []
    for _ in range(5000):
        first = generator.randrange(max(1, len(words) - 120))
        text = words[first : first + generator.randint(3, 120)]
        text[generator.randrange(len(text))] = "[MASK]"
        bodies.append(json.dumps(dict(instances=[" ".join(text)])))
    return bodies


def answers(address: str, path: str, bodies: list[str], clients: int, seconds: float) -> int:
    """The number of answers to clients that ask for some seconds."""
    next_bodies, end, counts = itertools.cycle(bodies), time.monotonic() + seconds, [0] * clients

    def work(client: int) -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        while time.monotonic() < end:
            ask(connection, "POST", path, next(next_bodies))
            counts[client] += 1
        connection.close()

    threads = [threading.Thread(target=work, args=[client]) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None) -> bytes:
    connection.request(method, path, body)
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise ValueError(f"status {response.status}: {content[:200]!r}")
    return content


def cpu_seconds(pid: int) -> float:
    """CPU time of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    """Resident memory of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    app.run(naming_processor(main))
