"""Memory and time of a training step with and without --gradient_checkpointing: albert_large, one question of RACE.

    python -m benchmarks.gradient_checkpointing

A question is 4 rows of 512 tokens. Each number comes from separate processes, which take turns. Memory is the largest
resident memory from the first step on, as Linux reports it, less the resident memory before the first step. Time is the
median of the later steps.
"""

import statistics

from absl import flags

from albert_tf.commands import app
from albert_tf.config import PRESETS
from benchmarks.alternation import json_of
from benchmarks.processor import naming_processor

flags.DEFINE_enum("size", "albert_large_v2", list(PRESETS), "Name of the model size.")
flags.DEFINE_integer("seq", 512, "Number of tokens of a row.", lower_bound=1)
flags.DEFINE_list("precisions", ["float32", "mixed_bfloat16"], "Precisions to measure.")
flags.DEFINE_integer("rounds", 3, "Number of processes for each measured number.", lower_bound=1)
flags.DEFINE_integer("steps", 3, "Number of timed steps of each process.", lower_bound=1)
flags.DEFINE_bool("jit_compile", False, "Whether XLA compiles the step.")
FLAGS = flags.FLAGS



def main():
    print(f"{FLAGS.size}, 4 x {FLAGS.seq} tokens\n{'':18}{'kept':>20}{'recomputed':>20}{'ratio':>16}\n"
          f"{'':18}{'MB    s/step':>20}{'MB    s/step':>20}{'MB    time':>16}")
    for precision in FLAGS.precisions:
        found = {again: [] for again in (False, True)}
        for _ in range(FLAGS.rounds):
            for again, runs in found.items():
                runs.append(run(precision, again))
        (kept, kept_seconds), (recomputed, seconds) = (summary(runs) for runs in found.values())
        ratios = f"{recomputed / kept:10.2f}{seconds / kept_seconds:6.2f}"
        print(f"{precision:18}{kept / 1e6:12.0f}{kept_seconds:8.2f}{recomputed / 1e6:12.0f}{seconds:8.2f}{ratios}",
              flush=True)


def run(precision: str, gradient_checkpointing: bool) -> dict:
    """Runs benchmarks.workers.memory as a process and returns what it prints."""
    switches = ["--gradient_checkpointing"] * gradient_checkpointing + ["--jit_compile"] * FLAGS.jit_compile
    return json_of("memory", "train", FLAGS.size, str(FLAGS.seq), precision, str(FLAGS.steps), *switches)


def summary(runs: list) -> tuple[float, float]:
    """The median of the bytes, and the median of all seconds."""
    return (statistics.median(of_one["bytes"] for of_one in runs),
            statistics.median(seconds for of_one in runs for seconds in of_one["seconds"]))


if __name__ == "__main__":
    app.run(naming_processor(main))
