"""A whole training step against Hugging Face's: a model of the table in benchmarks/workers/workloads.py.

    python -m benchmarks.training_step --peer_python=/path/to/environment/bin/python --workload=minilm_squad \\
        --dropout=0.1

The environment needs torch and transformers. Both sides: two threads, AdamW with clipping. Ours goes through the
trainer.
"""

from absl import flags

from albert_tf import cli
from albert_tf.finite import define_float
from benchmarks.alternation import Worker, compare, print_head, print_row
from benchmarks.workers.workloads import WORKLOADS

flags.DEFINE_string("peer_python", None, "Python of an environment with torch and transformers.", required=True)
flags.DEFINE_multi_enum("workload", ["albert_base"], list(WORKLOADS), "The model and its batch.")
flags.DEFINE_multi_enum("precision", ["float32", "bfloat16"], ["float32", "bfloat16"], "What to compute in.")
define_float("dropout", 0.0, "Rate of both kinds of dropout.", lower_bound=0.0)
flags.DEFINE_bool("xla", False, "Whether ours is measured with --jit_compile as well.")
flags.DEFINE_bool("cpu_time", False, "Whether seconds are the processor's, on one thread each, and not the clock's, on "
                  "two: for a machine that does other work.")
flags.DEFINE_integer("rounds", 5, "Turns of each program; the median counts.", lower_bound=1)
define_float("seconds", 10, "About how long a turn lasts.", lower_bound=0.1)
FLAGS = flags.FLAGS

PEER = "Hugging Face"
# By workload, whether there is dropout, and precision.
WANTED = {("albert_base", False, "float32"): 1.3, ("albert_base", False, "bfloat16"): 1.3,
          ("albert_base", True, "float32"): 1.5, ("albert_base", True, "bfloat16"): 1.3,
          ("minilm_squad", True, "float32"): 1.4, ("minilm_squad", True, "bfloat16"): 1.4}


def main():
    print_head(["ours", *["ours, XLA"] * FLAGS.xla, PEER])
    for name in FLAGS.workload:
        for precision in FLAGS.precision:
            measure(name, precision)


def measure(name: str, precision: str) -> None:
    arguments = (precision, "step", name, str(FLAGS.dropout))
    workers = {"ours": lambda: Worker("ours", *arguments, cpu_time=FLAGS.cpu_time)}
    if FLAGS.xla:
        workers["ours, XLA"] = lambda: Worker("ours", *arguments, "--jit_compile", cpu_time=FLAGS.cpu_time)
    workers[PEER] = lambda: Worker("hugging_face", precision, name, str(FLAGS.dropout), python=FLAGS.peer_python,
                                   cpu_time=FLAGS.cpu_time)
    rates = compare(workers, FLAGS.rounds, FLAGS.seconds, WORKLOADS[name].tokens)
    wanted = WANTED.get((name, FLAGS.dropout > 0, precision))
    print_row(f"{name}, dropout {FLAGS.dropout:g}, {precision}", rates, wanted)


if __name__ == "__main__":
    cli.run(main)
