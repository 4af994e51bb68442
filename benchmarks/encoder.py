"""The encoder alone compared with keras-hub's AlbertBackbone: albert_base, 16 x 128 tokens, forward and training.

    python -m benchmarks.encoder --peer_python=/path/to/environment/bin/python

The environment needs keras-hub and TensorFlow. Both programs use two threads, no dropout, and tf.function, and train
with AdamW and clipping.
"""

import itertools

from absl import flags

from benchmarks import common_flags
from benchmarks.alternation import Worker, compare, print_head, print_row
from benchmarks.processor import run
from benchmarks.workers.workloads import WORKLOADS

common_flags.define_peer_python("keras-hub")
flags.DEFINE_bool("xla", False, "Whether to measure our program with jit_compile too.")
common_flags.define_rounds(5)
common_flags.define_turn_seconds()
FLAGS = flags.FLAGS

PEER = "keras-hub"


def main():
    print_head(["ours", *["ours, XLA"] * FLAGS.xla, PEER])
    for what, precision in itertools.product(("training", "forward"), ("float32", "bfloat16")):
        workers = {"ours": lambda: Worker("ours", precision, what)}
        if FLAGS.xla:
            workers["ours, XLA"] = lambda: Worker("ours", precision, what, "--jit_compile")
        workers[PEER] = lambda: Worker("keras_hub_backbone", precision, what, python=FLAGS.peer_python)
        rates = compare(workers, FLAGS.rounds, FLAGS.seconds, WORKLOADS["albert_base"].tokens)
        print_row(f"{what}, {precision}", rates)


if __name__ == "__main__":
    run(main)
