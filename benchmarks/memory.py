"""The memory and the seconds of a training step with and without gradient checkpointing.

    python -m benchmarks.memory

albert_large, one question of RACE (4 rows of 512 tokens). Each number is of a process of its own. Memory is the largest
resident memory, as Linux reports it, less the resident memory before the first step. Time is the median of the later
steps.
"""

import json
import pathlib
import statistics
import sys
import time

from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.utils.imports import tensorflow as tf
from benchmarks import common
from benchmarks.alternation import output_of

flags.DEFINE_integer("rounds", 3, "Number of processes for each measured number.", lower_bound=1)
flags.DEFINE_integer("steps", 3, "Number of timed steps of each process.", lower_bound=1)
flags.DEFINE_enum("precision", None, list(common.POLICIES), "The data type that this process measures. The benchmark "
                  "sets it for its processes.")
flags.DEFINE_bool("gradient_checkpointing", False, "Whether this process uses gradient checkpointing.")
FLAGS = flags.FLAGS

SIZE, CHOICES, SEQ = "albert_large_v2", 4, 512


def main():
    if FLAGS.precision:
        print(json.dumps(train(FLAGS.precision, FLAGS.gradient_checkpointing)))
        return
    print(f"{SIZE}, {CHOICES} x {SEQ} tokens{'':10}{'MB':>10}{'s/step':>10}")
    for precision in common.POLICIES:
        for again in (False, True):
            command = [sys.executable, "-m", "benchmarks.memory", f"--steps={FLAGS.steps}", f"--precision={precision}",
                       f"--gradient_checkpointing={again}"]
            runs = [json.loads(output_of(command, TF_CPP_MIN_LOG_LEVEL="3").splitlines()[-1])
                    for _ in range(FLAGS.rounds)]
            peak, seconds = map(statistics.median, zip(*runs))
            print(f"{precision + again * ', checkpointing':36}{peak / 1e6:10.0f}{seconds:10.2f}", flush=True)


def train(precision: str, gradient_checkpointing: bool) -> tuple[int, float]:
    """Bytes of the memory of training, and the median seconds of a step."""
    from benchmarks.device_steps.programs import batch_of, training_step
    from benchmarks.workers.workloads import Workload

    common.set_precision(precision)
    config, task = AlbertConfig.preset(SIZE), "multiple choice"
    trainer = training_step(task, config, gradient_checkpointing=gradient_checkpointing)
    batches = iter(tf.data.Dataset.from_tensors(batch_of(task, Workload(config.to_dict(), CHOICES, SEQ, 0))).repeat())
    step, seconds, before = trainer.step, [], memory("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM counts from here
    for _ in range(1 + FLAGS.steps):
        start = time.perf_counter()
        float(step(batches)["loss"])
        seconds.append(time.perf_counter() - start)
    return memory("VmHWM") - before, statistics.median(seconds[1:])  # the first step traces and compiles


def memory(name: str) -> int:
    """Bytes of memory: VmRSS is the resident memory, VmHWM its maximum so far."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    common.run(main)
