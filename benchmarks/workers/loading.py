"""Makes a model with random weights, or loads one and prints [bytes of its weights, bytes of memory used].

    python -m benchmarks.workers.loading make FOLDER FORM SIZE
    python -m benchmarks.workers.loading load FOLDER
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from albert_tf.config import AlbertConfig
from albert_tf.export.conversion import save
from albert_tf.modeling.pretrainer import AlbertPretrainer
from albert_tf.weights.from_pretrained import from_pretrained


def make(folder: str, form: str, size: str) -> None:
    save(AlbertPretrainer(AlbertConfig.preset(size)), folder, form)
    print("null")


def load(folder: str) -> None:
    before = memory("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    model = from_pretrained(folder, model="pretrainer")
    peak = memory("VmHWM") - before
    print([sum(variable.shape.num_elements() * 4 for variable in model.weights), peak])


def memory(name: str) -> int:
    """Bytes of memory: VmRSS is the resident memory, VmHWM its maximum so far."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    {"make": make, "load": load}[sys.argv[1]](*sys.argv[2:])
