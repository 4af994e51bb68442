"""A training step of an encoder of phonemes compared with PL-BERT's objective in PyTorch, in turns.

    python -m benchmarks.phonemes --peer_python=/path/to/environment/bin/python --layers=12 --num_words=30000

The environment needs torch and transformers. Both programs have transformers' and our ALBERT with the sizes of
PL-BERT, a linear head for phonemes and one for words, and AdamW with clipping.
"""

import functools

from absl import flags

from benchmarks import common_flags
from benchmarks.alternation import Worker, compare, print_head, print_row
from benchmarks.processor import run

common_flags.define_peer_python()
flags.DEFINE_integer("layers", 12, "Number of layers.")
flags.DEFINE_integer("batch_size", 8, "Number of rows of a batch.")
flags.DEFINE_integer("seq_length", 512, "Number of phonemes of a row.")
flags.DEFINE_integer("num_words", 30000, "Number of words.")
common_flags.define_precisions()
common_flags.define_cpu_time()
common_flags.define_rounds(3)
common_flags.define_turn_seconds()
FLAGS = flags.FLAGS


def main():
    print_head(["ours, all", "ours, once", "PyTorch"])
    sizes = [str(value) for value in (FLAGS.layers, FLAGS.batch_size, FLAGS.seq_length, FLAGS.num_words)]
    for precision in FLAGS.precision:
        workers = {f"ours, {mode}": functools.partial(Worker, "phonemes", precision, *sizes, mode,
                                                      cpu_time=FLAGS.cpu_time) for mode in ("all", "once")}
        workers["PyTorch"] = functools.partial(Worker, "phonemes_pytorch", precision, *sizes, python=FLAGS.peer_python,
                                               cpu_time=FLAGS.cpu_time)
        rates = compare(workers, FLAGS.rounds, FLAGS.seconds, FLAGS.batch_size * FLAGS.seq_length)
        print_row(f"{FLAGS.layers} layers, {FLAGS.num_words} words, {precision}", rates)


if __name__ == "__main__":
    run(main)
