"""The time from SST-2 to records, start-up included, compared with SentencePiece alone in one thread.

    python -m benchmarks.glue_records --data_dir=glue --spm_model_file=30k-clean.model
"""

import statistics
import subprocess
import sys
import tempfile
import time

import sentencepiece
from absl import flags

from albert_tf import FullTokenizer
from albert_tf.commands import app
from albert_tf.data.feature_table import FeatureCache
from albert_tf.tasks.classification.features import feature_table
from albert_tf.tasks.classification.glue import find_task
from albert_tf.tasks.classification.reading import read_examples

flags.DEFINE_string("data_dir", None, "Folder that has the folder of SST-2.", required=True)
flags.DEFINE_string("spm_model_file", None, "Path of the SentencePiece model.", required=True)
flags.DEFINE_integer("max_seq_length", 512, "Number of tokens of a record.")
flags.DEFINE_integer("rounds", 3, "Number of turns of each program. The median is reported.", lower_bound=1)
flags.DEFINE_string("make_in", None, "For the benchmark's own subprocess: only make the records, in this folder.")
FLAGS = flags.FLAGS

TASK, WANTED = "sst-2", 20


def main():
    if FLAGS.make_in:
        tokenizer = FullTokenizer(spm_model_file=FLAGS.spm_model_file)
        feature_table(FeatureCache(tokenizer, FLAGS.make_in), find_task(TASK), FLAGS.data_dir, "train",
                      FLAGS.max_seq_length)
        return
    sentences = [example.text_a for example in read_examples(TASK, FLAGS.data_dir, "train")]
    rounds = [(encode(sentences), make_records()) for _ in range(FLAGS.rounds)]
    alone, ours = (statistics.median(column) for column in zip(*rounds))
    print(f"\n{'seconds, median':36}{'SentencePiece':>16}{'records':>10}{'ratio':>8}{'wanted':>8}")
    print(f"{f'{len(sentences):,} sentences':36}{alone:16.2f}{ours:10.2f}{ours / alone:8.2f}{f'< {WANTED}':>8}")


def encode(sentences: list[str]) -> float:
    """The seconds that SentencePiece takes in one thread."""
    model = sentencepiece.SentencePieceProcessor(model_file=FLAGS.spm_model_file)
    start = time.perf_counter()
    for sentence in sentences:
        model.encode(sentence)
    return time.perf_counter() - start


def make_records() -> float:
    """The seconds from the start to the end of a process that makes the records."""
    names = ("data_dir", "spm_model_file", "max_seq_length")
    command = [sys.executable, "-m", "benchmarks.glue_records", *(f"--{name}={FLAGS[name].value}" for name in names)]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run([*command, f"--make_in={folder}"], check=True, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start


if __name__ == "__main__":
    app.run(main)
