"""The benchmarks that need no peer."""

import subprocess
import sys

import pytest
from in_process import REPOSITORY


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
