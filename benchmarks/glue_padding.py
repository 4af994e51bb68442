"""Sentences per second of fine-tuning on SST-2: length buckets, padding to the longest, Hugging Face's dynamic padding.

    python -m benchmarks.glue_padding --data_dir=glue --spm_model_file=30k-clean.model --peer_python=/path/to/bin/python

All use albert_base with random weights, batches of 32, AdamW with clipping, and two threads. The peer's environment
needs torch and transformers. It gets the same sentences as ids, in random order, and pads each batch to its longest.
"""

import functools
import os
import tempfile

import numpy as np
from absl import flags

from albert_tf import FullTokenizer
from albert_tf.commands import app
from albert_tf.data.feature_table import FeatureCache
from albert_tf.tasks.classification.data import feature_table, find_task
from benchmarks import common_flags
from benchmarks.alternation import Worker, in_turns, running
from benchmarks.processor import naming_processor

flags.DEFINE_string("data_dir", None, "Folder that has the folder of SST-2.", required=True)
common_flags.define_spm_model_file()
common_flags.define_peer_python()
common_flags.define_precision()
flags.DEFINE_integer("max_seq_length", 512, "Number of tokens that --pad_to_max_length pads to. 512 needs 12 GB of "
                     "memory.", lower_bound=8)
common_flags.define_rounds(3)
FLAGS = flags.FLAGS

BATCH = 32
OURS, PADDED, PEER = "ours, length buckets", "ours, --pad_to_max_length", "Hugging Face, dynamic padding"
# A turn of our program is a window of batches, which has sentences of all lengths.
STEPS = {OURS: 50, PEER: 15, PADDED: 1}


def main():
    with tempfile.TemporaryDirectory() as folder:
        sentences_per_second = compare(write_sentences(folder))
    print(f"\nSST-2, {FLAGS.precision}, at most {FLAGS.max_seq_length} tokens\n"
          f"{'sentences per second, median':36}{'':8}{'ours / it':>12}")
    for name, rate in sentences_per_second.items():
        print(f"{name:36}{rate:8.2f}{sentences_per_second[OURS] / rate:12.2f}")


def write_sentences(folder: str) -> str:
    """Writes the training sentences with special tokens as flat ids, lengths and labels. Returns the path."""
    tokenizer = FullTokenizer(spm_model_file=FLAGS.spm_model_file)
    table = feature_table(FeatureCache(tokenizer, folder), find_task("sst-2"), FLAGS.data_dir, "train",
                          FLAGS.max_seq_length)
    path = os.path.join(folder, "sentences.npz")
    np.savez(path, ids=table.sequences["input_ids"].values.numpy(), lengths=table.lengths,
             labels=table.scalars["label_ids"].numpy())
    return path


def compare(path: str) -> dict[str, float]:
    """The median sentences per second of each program. In a round each program has one turn."""
    arguments = (FLAGS.precision, path, str(BATCH))
    programs = {
        OURS: lambda: Worker("glue_ours", *arguments, str(FLAGS.max_seq_length)),
        PADDED: lambda: Worker("glue_ours", *arguments, str(FLAGS.max_seq_length), "--pad_to_max_length"),
        PEER: lambda: Worker("glue_hugging_face", *arguments, python=FLAGS.peer_python),
    }
    with running(programs) as workers:
        medians = in_turns({name: functools.partial(worker.seconds, STEPS[name]) for name, worker in workers.items()},
                           FLAGS.rounds)
    return {name: STEPS[name] * BATCH / median for name, median in medians.items()}


if __name__ == "__main__":
    app.run(naming_processor(main))
