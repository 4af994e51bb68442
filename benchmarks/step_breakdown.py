"""The share of matrix products in a training step, and their rate beside that of large products, by shape.

    python -m benchmarks.step_breakdown --workload=albert_base --precision=bfloat16

The step runs on one thread. The times of products are from oneDNN's log, and the fastest step of each product counts;
the step's time is the processor's. The last column is a rate as a share of the rate of a product of 4,096 x 1,024 by
1,024 x 1,024 in the same run.
"""

from __future__ import annotations

import collections
import math
import os
import re
import sys
import tempfile
import time

os.environ["ONEDNN_VERBOSE"] = "1"  # read when TensorFlow is imported
os.environ["OMP_NUM_THREADS"] = "1"


# isort: split
import tensorflow as tf  # noqa: E402
from absl import flags  # noqa: E402

from albert_tf.training.optimizer import create_optimizer  # noqa: E402
from benchmarks import common_flags  # noqa: E402
from benchmarks.computing import set_precision, use_one_thread  # noqa: E402
from benchmarks.processor import run  # noqa: E402
from benchmarks.workers.ours import whole_step  # noqa: E402
from benchmarks.workers.workloads import WORKLOADS  # noqa: E402

flags.DEFINE_enum("workload", "small", list(WORKLOADS), "Name of the model and its batch.")
common_flags.define_precision()
common_flags.define_dropout()
flags.DEFINE_integer("steps", 10, "Number of measured steps.", lower_bound=1)
FLAGS = flags.FLAGS

WARM_UP = 3  # steps


def main():
    use_one_thread()
    set_precision(FLAGS.precision)
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "onednn.log")
        with standard_output_to(log):
            machine = machine_rate(FLAGS.precision)
            optimizer = create_optimizer("adamw", learning_rate=1e-4, num_train_steps=10000, num_warmup_steps=0)
            step = whole_step(WORKLOADS[FLAGS.workload], FLAGS.dropout, optimizer, jit_compile=False)
            for _ in range(WARM_UP):
                step()
            first, start = os.path.getsize(log), time.process_time()
            for _ in range(FLAGS.steps):
                step()
            milliseconds = 1000 * (time.process_time() - start) / FLAGS.steps
        with open(log, "rb") as file:
            file.seek(first)
            report(products(file.read().decode(errors="replace")), machine, milliseconds)


class standard_output_to:  # noqa: N801  a context manager, named as contextlib's
    """Sends the standard output of C code to a file."""

    def __init__(self, path: str):
        self._path = path

    def __enter__(self):
        sys.stdout.flush()
        self._kept = os.dup(1)
        with open(self._path, "wb") as file:
            os.dup2(file.fileno(), 1)

    def __exit__(self, *_):
        os.dup2(self._kept, 1)
        os.close(self._kept)


def machine_rate(precision: str) -> float:
    """GFLOP/s of a large matrix product on one thread, the best of ten."""
    shapes = [4096, 1024], [1024, 1024]
    product = tf.function(lambda a, b: tf.matmul(a, b))
    a, b = (tf.cast(tf.ones(shape), precision) for shape in shapes)
    seconds = []
    for _ in range(10):
        start = time.process_time()
        product(a, b)
        seconds.append(time.process_time() - start)
    return 2e-9 * math.prod(shapes[0]) * shapes[1][1] / min(seconds)


def products(log: str) -> dict[str, tuple[float, float]]:
    """Milliseconds and GFLOP of a step, by the kind and shape of the product."""
    times = collections.defaultdict(list)
    for line in log.splitlines():
        fields = line.split(",")
        if line.startswith("onednn_verbose") and "exec" in fields:
            kind = fields[fields.index("exec") + 2]
            times[f"{kind} {fields[-2].strip()}"].append(float(fields[-1]))
    return {name: (per_step(values), _gflop(name) * len(values) / FLAGS.steps) for name, values in times.items()
            if _gflop(name)}


def _gflop(name: str) -> float:
    """GFLOP of "inner_product mb2048ic256oc1024" or "matmul 32x64x8:32x8x64"; 0 for other primitives."""
    kind, shape = name.split(" ", 1)
    sizes = [[int(size) for size in re.findall(r"\d+", part)] for part in shape.split(":")]
    if kind == "inner_product":
        return 2e-9 * math.prod(sizes[0])
    return 2e-9 * math.prod(sizes[0]) * sizes[1][-1] if len(sizes) > 1 else 0.0


def per_step(values: list[float]) -> float:
    """Milliseconds of an operation in a step: the sum over its executions of the fastest among all steps."""
    count = len(values) // FLAGS.steps
    return sum(min(values[i::count]) for i in range(count))


def report(by_shape: dict[str, tuple[float, float]], machine: float, of_step: float) -> None:
    """Prints the table with the largest product first."""
    print(f"{FLAGS.workload}, dropout {FLAGS.dropout:g}, {FLAGS.precision}: {of_step:.1f} ms a step; large products "
          f"run at {machine:.0f} GFLOP/s\n{'':58}{'ms':>9}{'share':>8}{'GFLOP/s':>9}{'machine':>9}")
    everything = tuple(map(sum, zip(*by_shape.values())))
    largest = sorted(by_shape.items(), key=lambda item: -item[1][0])[:12]
    for name, (milliseconds, gflop) in [("matrix products", everything), *largest]:
        rate = 1000 * gflop / milliseconds
        print(f"{name:58}{milliseconds:9.2f}{milliseconds / of_step:8.1%}{rate:9.0f}{rate / machine:9.2f}")


if __name__ == "__main__":
    run(main)
