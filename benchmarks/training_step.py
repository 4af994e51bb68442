"""A whole training step compared with Hugging Face's, for the models in benchmarks/workers/workloads.py.

    python -m benchmarks.training_step --peer_python=/path/to/environment/bin/python --workload=minilm_squad \\
        --dropout=0.1

The environment needs torch and transformers. Both programs use two threads, and AdamW with clipping. Ours uses the
trainer.
"""

import functools

from absl import flags

from albert_tf.commands.flags import define_float
from benchmarks import common
from benchmarks.alternation import Worker, compare, print_head, print_row
from benchmarks.workers.workloads import WORKLOADS

common.define_peer_python()
flags.DEFINE_multi_enum("workload", ["albert_base"], list(WORKLOADS), "Name of a model and its batch. May be repeated.")
common.define_precisions()
common.define_dropout()
flags.DEFINE_bool("xla", False, "Whether to measure our program with --jit_compile too.")
flags.DEFINE_bool("one_part", False, "Whether to measure our program with --cpu_parts=1 too.")
common.define_cpu_time()
common.define_rounds(5)
define_float("seconds", 10, "Approximate number of seconds of a turn.", lower_bound=0.1)
FLAGS = flags.FLAGS

PEER = "Hugging Face"


def main():
    variants = {"ours": [], **({"ours, one part": ["--cpu_parts=1"]} if FLAGS.one_part else {}),
                **({"ours, XLA": ["--jit_compile"]} if FLAGS.xla else {})}
    print_head([*variants, PEER])
    for name in FLAGS.workload:
        for precision in FLAGS.precision:
            measure(name, precision, variants)


def measure(name: str, precision: str, variants: dict[str, list[str]]) -> None:
    """Measures our program with the arguments of each variant, and the peer, and prints the row of the table."""
    workers = {variant: functools.partial(Worker, "ours", precision, name, str(FLAGS.dropout), *arguments,
                                          cpu_time=FLAGS.cpu_time) for variant, arguments in variants.items()}
    workers[PEER] = functools.partial(Worker, "hugging_face", precision, name, str(FLAGS.dropout),
                                      python=FLAGS.peer_python, cpu_time=FLAGS.cpu_time)
    rates = compare(workers, FLAGS.rounds, FLAGS.seconds, WORKLOADS[name].tokens)
    print_row(f"{name}, dropout {FLAGS.dropout:g}, {precision}", rates)


if __name__ == "__main__":
    common.run(main)
