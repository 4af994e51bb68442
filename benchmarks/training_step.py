"""A whole training step against Hugging Face's AlbertForPreTraining: albert_base, 16 x 128 tokens, 20 predictions.

    python -m benchmarks.training_step --peer_python=/path/to/environment/bin/python

The environment needs torch and transformers. Both sides: two threads, no dropout, AdamW with clipping. Ours goes
through the trainer, with XLA (--jit_compile) and without.
"""

from absl import flags

from albert_tf import cli
from albert_tf.finite import define_float
from benchmarks.alternation import Worker, compare, print_head, print_row

flags.DEFINE_string("peer_python", None, "Python of an environment with torch and transformers.", required=True)
flags.DEFINE_integer("rounds", 5, "Turns of each program; the median counts.", lower_bound=1)
define_float("seconds", 10, "About how long a turn lasts.", lower_bound=0.1)
FLAGS = flags.FLAGS

PEER = "Hugging Face"
WANTED = dict(float32=2.5, bfloat16=1.4)


def main():
    print_head(PEER)
    for precision, wanted in WANTED.items():
        rates = compare({
            "ours": lambda: Worker("ours", precision, "step"),
            "ours, XLA": lambda: Worker("ours", precision, "step", "--jit_compile"),
            PEER: lambda: Worker("hugging_face", precision, python=FLAGS.peer_python),
        }, FLAGS.rounds, FLAGS.seconds)
        print_row(f"whole step, {precision}", rates, PEER, wanted)


if __name__ == "__main__":
    cli.run(main)
