"""Text lines to vectors of a pre-trained ALBERT.

    python extract_embeddings.py --init_checkpoint=albert_base_v2 --input_file=lines.txt --output_file=vectors.npy

writes float32 [lines, hidden_size], the pooled output of each line. With --per_token, vectors.npy has float32 [tokens,
hidden_size], the sequence output of all lines one after the other, [CLS] and [SEP] included; beside it are
vectors.input_ids.npy, int32 [tokens], and vectors.row_splits.npy, int64 [lines + 1]: line i has the rows from
row_splits[i] to row_splits[i + 1].
"""

import os

from albert_tf import cli

import numpy as np
from absl import flags, logging

from albert_tf import bounds, flags as shared, keras
from albert_tf.files import written_whole
from albert_tf.progress import progress
from albert_tf.tasks.embeddings import embed, token_ids
from albert_tf.text.lines import read_lines

shared.define_source_flags()
shared.define_vocabulary_flags()
flags.DEFINE_string("input_file", None, "UTF-8 text, one a line.", required=True)
flags.DEFINE_string("output_file", None, "Where the vectors go: a path that ends in .npy.", required=True)
flags.DEFINE_bool("per_token", False, "Whether to write a vector of each token instead of one of each line.")
flags.DEFINE_integer("max_seq_length", 512, "What is longer is cut, tokens.", *bounds.SEQ_LENGTH.at_least(3))
flags.DEFINE_integer("batch_size", 32, "Lines that are computed together.", *bounds.BATCH_SIZE)
flags.DEFINE_enum("precision", "float32", shared.PRECISIONS, "What the model computes in.")
FLAGS = flags.FLAGS


def main():
    stem, ending = os.path.splitext(FLAGS.output_file)
    if ending != ".npy":
        raise ValueError(f"--output_file must end in .npy. Received: {FLAGS.output_file}")
    keras.mixed_precision.set_global_policy(FLAGS.precision)
    tokenizer = shared.vocabulary().tokenizer()
    model = shared.pretrained("encoder")
    rows = token_ids(tokenizer, list(read_lines(FLAGS.input_file)),
                     min(FLAGS.max_seq_length, model.config.max_position_embeddings))
    if not rows:
        raise ValueError(f"{FLAGS.input_file} has no lines")
    row_splits = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    height = row_splits[-1] if FLAGS.per_token else len(rows)
    with written_whole(FLAGS.output_file) as temporary, progress("embedding", len(rows), " lines") as done:
        vectors = np.lib.format.open_memmap(temporary, "w+", np.float32, (int(height), model.config.hidden_size))
        for found in embed(model, rows, FLAGS.batch_size):
            if FLAGS.per_token:
                vectors[row_splits[found.text] : row_splits[found.text + 1]] = found.tokens
            else:
                vectors[found.text] = found.pooled
            done(1)
        vectors.flush()
    if FLAGS.per_token:
        write_array(f"{stem}.row_splits.npy", row_splits)
        write_array(f"{stem}.input_ids.npy", np.concatenate(rows))
    logging.info("%s: %s vectors of %d", FLAGS.output_file, f"{height:,}", model.config.hidden_size)


def write_array(path: str, array: np.ndarray) -> None:
    with written_whole(path) as temporary, open(temporary, "wb") as file:
        np.save(file, array, allow_pickle=False)


if __name__ == "__main__":
    cli.run(main)
