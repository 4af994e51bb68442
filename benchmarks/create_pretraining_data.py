"""The speed of data creation compared with SentencePiece alone.

    python -m benchmarks.create_pretraining_data --input_file=text.txt --spm_model_file=30k-clean.model

Speed is bytes of text times dupe_factor per second. The time with dupe_factor 1 is subtracted from the time with
dupe_factor 10, so that start-up and tokenisation do not count. SentencePiece encodes the same lines in one thread.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import sentencepiece
from absl import flags

from albert_tf.commands import app
from benchmarks import common_flags
from benchmarks.alternation import ROOT
from benchmarks.processor import naming_processor

flags.DEFINE_string("input_file", None, "Path of a text: one sentence on each line, a blank line between documents.",
                    required=True)
common_flags.define_spm_model_file()
common_flags.define_rounds(3)
flags.DEFINE_integer("num_workers", 2, "Number of processes of create_pretraining_data.py.", lower_bound=1)
FLAGS = flags.FLAGS

FEW, MANY = 1, 10  # dupe_factor


def main():
    size = os.path.getsize(FLAGS.input_file)
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(FLAGS.rounds):
            few, many = (create(folder, dupe_factor) for dupe_factor in (FEW, MANY))
            bare = encode()
            rounds.append((size / bare, (MANY - FEW) * size / (many - few), (MANY - FEW) * bare / (many - few)))
    bare, ours, ratio = (statistics.median(column) for column in zip(*rounds))
    print(f"\n{'MB of text x dupe a second, median':36}{'SentencePiece':>16}{'ours':>8}{'ratio':>8}")
    what = f"{FLAGS.num_workers} workers, 512 tokens"
    print(f"{what:36}{bare / 1e6:16.2f}{ours / 1e6:8.2f}{ratio:8.2f}")


def create(folder: str, dupe_factor: int) -> float:
    """The seconds that the script takes."""
    command = [sys.executable, str(ROOT / "create_pretraining_data.py"), f"--input_file={FLAGS.input_file}",
               f"--output_file={folder}/made.tfrecord", f"--spm_model_file={FLAGS.spm_model_file}",
               "--max_seq_length=512", "--max_predictions_per_seq=77", f"--dupe_factor={dupe_factor}",
               f"--num_workers={FLAGS.num_workers}"]
    start = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def encode() -> float:
    """The seconds that SentencePiece takes in one thread."""
    model = sentencepiece.SentencePieceProcessor(model_file=FLAGS.spm_model_file)
    with open(FLAGS.input_file, encoding="utf-8") as file:
        lines = [line.strip().lower() for line in file]
    start = time.perf_counter()
    for first in range(0, len(lines), 1000):
        model.encode(lines[first : first + 1000], num_threads=1)
    return time.perf_counter() - start


if __name__ == "__main__":
    app.run(naming_processor(main))
