"""The benchmarks that need no peer."""

import subprocess
import sys

import pytest
from in_process import REPOSITORY

from benchmarks.alternation import json_of


def program(path, text):
    """Writes a shell script that takes the place of Python."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_what_a_worker_prints_is_parsed_as_json(tmp_path):
    assert json_of("loading", "load", python=program(tmp_path / "python", """echo '["'$3'", 4.5]'""")) == ["load", 4.5]


def test_a_worker_that_fails_is_an_error_with_its_last_line(tmp_path):
    failing = program(tmp_path / "python", "echo first >&2; echo no such folder >&2; exit 1")
    with pytest.raises(ValueError, match="^loading load x ended: no such folder$"):
        json_of("loading", "load", "x", python=failing)
    with pytest.raises(ValueError, match="none cannot be run: No such file or directory"):
        json_of("loading", python=str(tmp_path / "none"))


@pytest.mark.long
def test_compiled_chains_are_fewer_operations_that_move_fewer_bytes_than_tensorflows():
    """On a GPU without XLA, the counts are those of the graph: no compiler is needed."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.xla_cost", "--xla_python=none", "--task=pre-training", "--device=GPU",
         "--num_hidden_layers=1"], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tensorflow, chains = ([float(column.replace(",", "")) for column in line.split()[-2:]]
                          for line in done.stdout.splitlines()[2:])
    assert chains[0] < 0.6 * tensorflow[0] and chains[1] < 0.6 * tensorflow[1]
