"""The time of a training step by part: matrix products by shape, and all other operations by name.

    python -m benchmarks.step_breakdown --workload=small --precision=bfloat16

The step runs on one thread. The times of products are from oneDNN's log, all others from TensorFlow's profiler. The
fastest step of each operation counts, so that other work of the machine has little effect. The last column of a product
is its rate, as a share of the rate of a product of 4,096 x 1,024 by 1,024 x 1,024 in the same run.
"""

from __future__ import annotations

import collections
import glob
import math
import os
import re
import sys
import tempfile
import time

os.environ["ONEDNN_VERBOSE"] = "1"  # read when TensorFlow is imported
os.environ["OMP_NUM_THREADS"] = "1"

from albert_tf.commands import app  # noqa: E402

# isort: split
import tensorflow as tf  # noqa: E402
from absl import flags  # noqa: E402
from tensorflow.tsl.profiler.protobuf import xplane_pb2  # noqa: E402

from albert_tf.training.optimizer import create_optimizer  # noqa: E402
from benchmarks import common_flags  # noqa: E402
from benchmarks.computing import set_precision, use_one_thread  # noqa: E402
from benchmarks.processor import naming_processor  # noqa: E402
from benchmarks.workers.ours import whole_step  # noqa: E402
from benchmarks.workers.workloads import WORKLOADS  # noqa: E402

flags.DEFINE_enum("workload", "small", list(WORKLOADS), "Name of the model and its batch.")
common_flags.define_precision()
common_flags.define_dropout()
flags.DEFINE_integer("steps", 10, "Number of measured steps.", lower_bound=1)
FLAGS = flags.FLAGS

WARM_UP = 3  # steps
_PRODUCTS = re.compile("MatMul")
_MOVEMENTS = re.compile("Transpose|Concat|Pack|Slice|Gather|Cast|Segment|Assign|ReadVariable|Reshape|OneHot|Tile")
_WAITING = re.compile("Run$|train_function")  # an operation that waits for all others
_COMPILED = re.compile("Xla|ProcessAsync::Start")


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
            first = os.path.getsize(log)
            options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
            with tf.profiler.experimental.Profile(folder, options):
                start = time.process_time()
                for _ in range(FLAGS.steps):
                    step()
                cpu_seconds = (time.process_time() - start) / FLAGS.steps
        with open(log, "rb") as file:
            file.seek(first)
            products = primitives(file.read().decode(errors="replace"))
        operations = profiled(glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)[0])
    report(products, operations, machine, 1000 * cpu_seconds)


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


def primitives(log: str) -> dict[str, tuple[float, float]]:
    """Milliseconds and GFLOP of a step, by the kind and shape of oneDNN's primitives."""
    times = collections.defaultdict(list)
    for line in log.splitlines():
        fields = line.split(",")
        if line.startswith("onednn_verbose") and "exec" in fields:
            kind = fields[fields.index("exec") + 2]
            times[f"{kind} {fields[-2].strip()}"].append(float(fields[-1]))
    return {name: (per_step(values), _gflop(name) * len(values) / FLAGS.steps) for name, values in times.items()}


def _gflop(name: str) -> float:
    """GFLOP of "inner_product mb2048ic256oc1024" or "matmul 32x64x8:32x8x64"; 0 for other primitives."""
    kind, shape = name.split(" ", 1)
    sizes = [[int(size) for size in re.findall(r"\d+", part)] for part in shape.split(":")]
    if kind == "inner_product":
        return 2e-9 * math.prod(sizes[0])
    return 2e-9 * math.prod(sizes[0]) * sizes[1][-1] if len(sizes) > 1 else 0.0


def profiled(path: str) -> dict[tuple[str, str], float]:
    """Milliseconds of a step, by part of the step and operation, without products."""
    space, times = xplane_pb2.XSpace(), collections.defaultdict(list)
    with open(path, "rb") as file:
        space.ParseFromString(file.read())
    for plane in space.planes:
        for line in plane.lines if "CPU" in plane.name else ():
            for name, milliseconds in _own_times(line.events, plane.event_metadata):
                times[("input " if "tf_data" in line.name else "") + name].append(milliseconds)
    parts = collections.defaultdict(float)
    for name, values in times.items():
        part, operation = _part(name), name.split(":")[-1].split("#")[0]
        if part:
            parts[part, operation] += per_step(values)
    return parts


def _own_times(events, metadata):
    """(name, milliseconds without the events inside it) of each event of a thread."""
    open_events: list[list] = []  # [end, name, duration, time of the events inside]
    for event in sorted(events, key=lambda event: (event.offset_ps, -event.duration_ps)):
        while open_events and open_events[-1][0] <= event.offset_ps:
            _, name, duration, within = open_events.pop()
            yield name, (duration - within) / 1e9
        if open_events:
            open_events[-1][3] += event.duration_ps
        end, name = event.offset_ps + event.duration_ps, metadata[event.metadata_id].name
        open_events.append([end, name, event.duration_ps, 0])
    for _, name, duration, within in open_events:
        yield name, (duration - within) / 1e9


def _part(name: str) -> str | None:
    if name.startswith("input "):
        return "input"
    if name.startswith("adamw/"):
        return "optimizer"
    operation = name.split(":")[-1]
    if _PRODUCTS.search(operation) or _WAITING.search(name.split("#")[0]):
        return None
    if _COMPILED.search(name):
        return "chains that XLA compiles"
    return "data movement" if _MOVEMENTS.search(operation) else "other operations"


def per_step(values: list[float]) -> float:
    """Milliseconds of an operation in a step: the sum over its executions of the fastest among all steps."""
    count = len(values) // FLAGS.steps
    return sum(min(values[i::count]) for i in range(count))


def report(products: dict, operations: dict, machine: float, cpu_milliseconds: float) -> None:
    """Prints the table. Within each part the largest operation is first."""
    everything = sum(ms for ms, gflop in products.values() if gflop) + sum(operations.values())
    print(f"{FLAGS.workload}, dropout {FLAGS.dropout:g}, {FLAGS.precision}: {everything:.1f} ms a step in parts, "
          f"{cpu_milliseconds:.1f} ms of the processor; large products run at {machine:.0f} GFLOP/s\n"
          f"{'':58}{'ms':>9}{'share':>8}{'GFLOP/s':>9}{'machine':>9}")

    def row(name: str, milliseconds: float, gflop: float = 0.0):
        rate = 1000 * gflop / milliseconds if gflop else 0.0
        rates = f"{rate:9.0f}{rate / machine:9.2f}" if gflop else ""
        print(f"{name:58}{milliseconds:9.2f}{milliseconds / everything:8.1%}{rates}")

    of_products = {name: value for name, value in products.items() if value[1]}
    row("matrix products", *map(sum, zip(*of_products.values())))
    for name, (milliseconds, gflop) in sorted(of_products.items(), key=lambda item: -item[1][0])[:12]:
        row(f"    {name}", milliseconds, gflop)
    parts = collections.Counter()
    for (part, _), milliseconds in operations.items():
        parts[part] += milliseconds
    for part, milliseconds in parts.most_common():
        row(part, milliseconds)
        within = {operation: ms for (of, operation), ms in operations.items() if of == part}
        for operation, ms in sorted(within.items(), key=lambda item: -item[1])[:6]:
            row(f"    {operation}", ms)


if __name__ == "__main__":
    app.run(naming_processor(main))
