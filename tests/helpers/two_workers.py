"""Two processes on this machine as the workers of one run, for tests:

    with TwoWorkers("run_classifier", dict(output_dir="x", ...)) as workers:
        workers.wait_for("step 2 of 4")
        workers.kill(1)
        status, printed = workers.end_of(0)
"""

from __future__ import annotations

import itertools
import json
import random
import socket

from script_process import deterministic, start

# Worker 1 is killed as soon as it writes a file: writers rename a temporary file to its name.
WRITES_NOTHING = dict(KILL_AT_RENAME="1")


class TwoWorkers:
    """The processes.

    Args:
      script, flags: of script_process.start.
    """

    def __init__(self, script, flags: dict):
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        self._printed, self._processes = ["", ""], []
        for index, variables in enumerate(({}, WRITES_NOTHING)):
            task = dict(cluster=dict(worker=self.addresses), task=dict(type="worker", index=index))
            self._processes.append(start(script, flags, environment=dict(variables, TF_CONFIG=json.dumps(task)),
                                         merged=True, prepare=deterministic))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._processes:
            process.__exit__()

    def wait_for(self, text: str) -> None:
        """Waits until worker 0 has printed a line with the text, and fails if it ends before."""
        self._printed[0] += self._processes[0].wait_for(text)

    def kill(self, index: int) -> None:
        self._processes[index].kill()

    def end_of(self, index: int) -> tuple[int, str]:
        """The exit status of a worker, and its output."""
        printed, _ = self._processes[index].communicate()
        return self._processes[index].returncode, self._printed[index] + printed


def free_ports(count: int) -> list[int]:
    """Ports below those that the system gives to connections, so that none is taken before the workers start."""
    return list(itertools.islice(filter(_is_free, random.SystemRandom().sample(range(15_000, 32_000), 1000)), count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
