"""Memory that loading a model takes, beside the size of its weights: albert_xxlarge, random weights, from each form.

    python -m benchmarks.loading_memory

Each load is a process of its own. What counts is the largest resident memory, above that after its imports; Linux
tells.
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

flags.DEFINE_enum("size", "albert_xxlarge_v2", list(PRESETS), "The model.")
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
    """What a process of benchmarks.workers.loading prints, as JSON."""
    command = [sys.executable, "-m", "benchmarks.workers.loading", *arguments]
    done = subprocess.run(command, env=dict(os.environ, PYTHONPATH=str(ROOT)), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise ValueError(f"{' '.join(command)} ended with status {done.returncode}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    cli.run(main)
