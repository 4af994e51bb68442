"""The speed of data creation: bytes of text times dupe_factor per second.

    python -m benchmarks.create_pretraining_data --input_file=text.txt --spm_model_file=30k-clean.model

The time with dupe_factor 1 is subtracted from the time with dupe_factor 10, so that start-up and tokenisation do not
count.
"""

import os
import statistics
import tempfile
import time

from absl import flags

from albert_tf.commands.command_runs import arguments, process_of
from benchmarks import common_flags
from benchmarks.alternation import output_of
from benchmarks.processor import run

flags.DEFINE_string("input_file", None, "Path of a text: one sentence on each line, a blank line between documents.",
                    required=True)
common_flags.define_spm_model_file()
common_flags.define_rounds(3)
flags.DEFINE_integer("num_workers", 2, "Number of processes of create_pretraining_data.", lower_bound=1)
FLAGS = flags.FLAGS

FEW, MANY = 1, 10  # dupe_factor


def main():
    with tempfile.TemporaryDirectory() as folder:
        seconds = [create(folder, MANY) - create(folder, FEW) for _ in range(FLAGS.rounds)]
    rate = (MANY - FEW) * os.path.getsize(FLAGS.input_file) / statistics.median(seconds)
    print(f"{FLAGS.num_workers} workers, 512 tokens: {rate / 1e6:.2f} MB of text x dupe_factor a second")


def create(folder: str, dupe_factor: int) -> float:
    """The seconds that the command takes."""
    values = dict(input_file=os.path.abspath(FLAGS.input_file), output_file=f"{folder}/made.tfrecord",
                  spm_model_file=os.path.abspath(FLAGS.spm_model_file), max_seq_length=512,
                  max_predictions_per_seq=77, dupe_factor=dupe_factor, num_workers=FLAGS.num_workers)
    start = time.perf_counter()
    output_of(process_of("create_pretraining_data", arguments(values)))
    return time.perf_counter() - start


if __name__ == "__main__":
    run(main)
