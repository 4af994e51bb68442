"""The memory that loading a model takes, compared with the size of its weights: albert_xxlarge, from each format.

    python -m benchmarks.loading_memory

The weights are random. Each load is a separate process. Memory is the largest resident memory, as Linux reports it,
less the resident memory after the imports.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from absl import flags

from albert_tf import cli
from albert_tf.config import PRESETS

flags.DEFINE_enum("size", "albert_xxlarge_v2", list(PRESETS), "Name of the model size.")
FLAGS = flags.FLAGS

ROOT = pathlib.Path(__file__).parents[1]
FORMS = {"tf1": "TF1 checkpoint", "hugging_face": "safetensors", "ours": "our checkpoint"}
WANTED_RATIO = 1.3


def main():
    print(f"{FLAGS.size + ', both heads':36}{'MB of weights':>16}{'peak MB':>10}{'ratio':>8}{'wanted':>8}")
    for form, name in FORMS.items():
        with tempfile.TemporaryDirectory() as folder:
            worker("make", folder, form, FLAGS.size)
            weights, peak = worker("load", folder)
        print(f"{name:36}{weights / 1e6:16.0f}{peak / 1e6:10.0f}{peak / weights:8.2f}{WANTED_RATIO:8.2f}")


def worker(*arguments: str):
    """Runs benchmarks.workers.loading as a process and returns what it prints, parsed as JSON."""
    command = [sys.executable, "-m", "benchmarks.workers.loading", *arguments]
    done = subprocess.run(command, env=dict(os.environ, PYTHONPATH=str(ROOT)), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise ValueError(f"{' '.join(command)} ended with status {done.returncode}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    cli.run(main)
